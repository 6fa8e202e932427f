//! What a pod has written, looked at now and then: the kernel tells nobody.

use std::path::Path;
use std::sync::Arc;

use super::{News, Runner};
use crate::pod::PodExt;

/// Files of one pod that are counted; with more than this it has written too much anyway.
const FILES_MAX: usize = 2_000_000;

impl Runner {
    /// Measures the pod for as long as its tasks run.
    pub(super) fn measure(&self) {
        let (directory, news, group) = (self.directory.path.clone(), self.news.clone(), self.tasks.clone());
        let every = self.shared.config.disk_every;
        let (shared, uid) = (Arc::clone(&self.shared), PodExt::uid(&*self.pod).to_owned());
        self.tasks.spawn("disk", async move {
            let measuring = async {
                loop {
                    tokio::time::sleep(every).await;
                    let (path, shared, uid) = (directory.clone(), Arc::clone(&shared), uid.clone());
                    let measured = move || occupied(&path).saturating_add(shared.layers.occupied(&uid, occupied));
                    let Ok(bytes) = tokio::task::spawn_blocking(measured).await else { return };
                    if news.send(News::Disk(bytes)).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = group.cancelled() => {}
                () = measuring => {}
            }
        });
    }
}

/// Bytes a directory occupies. What vanishes while it is counted does not count.
fn occupied(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut left = vec![directory.to_owned()];
    let (mut bytes, mut files) = (0, 0);
    while let Some(path) = left.pop() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            files += 1;
            if files > FILES_MAX {
                return u64::MAX;
            }
            let Ok(found) = entry.metadata() else { continue };
            bytes += found.blocks() * 512;
            if found.is_dir() {
                left.push(entry.path());
            }
        }
    }
    bytes
}
