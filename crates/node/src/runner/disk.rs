//! What a pod has written, looked at now and then: the kernel tells nobody.

use std::sync::Arc;

use super::{News, Runner};
use crate::disks::{self, Known};
use crate::pod::PodExt;

impl Runner {
    /// Measures the pod for as long as its tasks run.
    pub(super) fn measure(&self) {
        let (news, group) = (self.news.clone(), self.tasks.clone());
        let every = self.shared.config.disk_every;
        let (shared, uid) = (Arc::clone(&self.shared), PodExt::uid(&*self.pod).to_owned());
        self.tasks.spawn("disk", async move {
            let known = Known::new(&shared, &uid);
            let measuring = async {
                loop {
                    tokio::select! {
                        () = tokio::time::sleep(every) => {}
                        () = known.crowded.notified() => {
                            if news.send(News::Crowded).await.is_err() {
                                return;
                            }
                            continue;
                        }
                    }
                    let (shared, uid) = (Arc::clone(&shared), uid.clone());
                    let Ok(bytes) = tokio::task::spawn_blocking(move || disks::of_pod(&shared, &uid)).await else {
                        return;
                    };
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
