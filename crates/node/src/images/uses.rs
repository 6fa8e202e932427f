//! Which pods use an image, written down beside it: who removes images is another process than those that run pods.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Images;

/// Users that are told of at once.
const TOLD_MAX: usize = 5;

impl Images {
    /// Takes notice that a pod uses an image, as long as its directory is there.
    pub(crate) fn begin_use(&self, id: &str, uid: &str, pod: &str, directory: &Path) -> io::Result<()> {
        let uses = self.uses().join(id);
        fs::create_dir_all(&uses)?;
        // Whoever reads it may be anywhere.
        let directory = std::path::absolute(directory)?;
        fs::write(uses.join(uid), format!("{pod}\n{}", directory.display()))
    }

    /// A pod is gone, and uses nothing any more.
    pub(crate) fn end_uses(&self, uid: &str) {
        for uses in fs::read_dir(self.uses()).into_iter().flatten().flatten() {
            // Most it never used; and what stays says nothing without the pod's directory.
            let _ = fs::remove_file(uses.path().join(uid));
            let _ = fs::remove_dir(uses.path());
        }
    }

    /// Pods that use an image, some of them.
    pub(super) fn users(&self, id: &str) -> Vec<String> {
        let uses = fs::read_dir(self.uses().join(id)).into_iter().flatten().flatten();
        let living = uses.filter_map(|one| {
            let text = fs::read_to_string(one.path()).ok()?;
            let (pod, directory) = text.split_once('\n')?;
            Path::new(directory).exists().then(|| pod.to_owned())
        });
        living.take(TOLD_MAX).collect()
    }

    fn uses(&self) -> PathBuf {
        self.directory.join("uses")
    }
}
