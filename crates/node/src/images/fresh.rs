//! A layer that is being made: unless it is kept it goes, whatever ends its making.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Result, at};

/// It and its place.
#[derive(Debug)]
pub(super) struct Fresh {
    path: PathBuf,
    kept: bool,
}

impl Fresh {
    /// An empty one below a directory.
    pub(super) fn new(below: &Path) -> Result<Self> {
        let path = below.join(uuid::Uuid::new_v4().to_string());
        at(&path, fs::create_dir(&path))?;
        Ok(Self { path, kept: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts it where it stays.
    pub(super) fn keep(mut self, to: &Path) -> Result<()> {
        at(to, fs::rename(&self.path, to))?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.kept {
            // What stays is swept at the next start.
            let _ = crate::files::remove_tree(&self.path);
        }
    }
}
