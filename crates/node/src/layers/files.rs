//! What a container's root is made of, on disk, and what is about to be done to it.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use serde::{Deserialize, Serialize};
use thane_executor::plan::Lower;

use super::made::Made;
use crate::ids::BASE;

/// The file that says it, in the directory of a start.
const FILE: &str = "files.json";

/// What a container's root is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Files {
    /// The image's layers, topmost first.
    pub(crate) lowers: Vec<Lower>,
    /// The image.
    pub(crate) image: String,
    /// The state below what is written now; none: the image.
    pub(crate) base: Option<String>,
    /// How often what is written has been put somewhere else.
    pub(crate) turn: u64,
    /// How the directory that takes what is written began.
    pub(crate) top: Top,
    /// What was in that directory then, where that is known.
    #[serde(default)]
    pub(crate) made: Option<Made>,
    /// What is being done.
    pub(crate) intent: Option<Intent>,
}

/// Another root that is about to be entered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intent {
    /// The mount it leaves.
    pub(crate) leaves: u64,
    /// The state it will stand on.
    pub(crate) base: Option<String>,
    /// That state's layers.
    pub(crate) chain: Vec<String>,
    /// Whether what was written becomes the uppermost of these.
    pub(crate) seals: bool,
    /// How the directory that takes what is written begins.
    pub(crate) top: Top,
}

/// Mode and owner of the uppermost directory: a container's `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Top {
    mode: u32,
    user: u32,
    group: u32,
}

impl Default for Top {
    fn default() -> Self {
        Self { mode: 0o755, user: BASE, group: BASE }
    }
}

impl Top {
    /// As a directory has it.
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(directory)?;
        Ok(Self { mode: found.mode() & 0o7777, user: found.uid(), group: found.gid() })
    }

    /// Makes an empty directory like it.
    pub(super) fn make(self, directory: &Path) -> io::Result<()> {
        crate::files::remove_tree(directory)?;
        std::fs::create_dir(directory)?;
        chown(directory, Some(self.user), Some(self.group))?;
        std::fs::set_permissions(directory, PermissionsExt::from_mode(self.mode))
    }
}

impl Files {
    /// A container that was just made, and takes what is written there.
    pub(crate) fn new(lowers: Vec<Lower>, image: String, upper: &Path) -> Self {
        let made = Made::of(upper).ok();
        Self { lowers, image, base: None, turn: 0, top: Top::default(), made, intent: None }
    }

    /// Whether nothing was written since then.
    pub(super) fn is_as_made(&self, upper: &Path) -> io::Result<bool> {
        match &self.made {
            Some(made) => made.is_still(upper),
            None => Ok(std::fs::read_dir(upper)?.next().is_none()),
        }
    }

    pub(crate) fn read(attempt: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(attempt.join(FILE)).ok()?).ok()
    }

    /// Whole or not at all. It outlives this process; if the machine ends, so does the container.
    pub(crate) fn write(&self, attempt: &Path) -> io::Result<()> {
        let new = attempt.join(format!("{FILE}.new"));
        std::fs::write(&new, serde_json::to_vec(self).map_err(io::Error::other)?)?;
        std::fs::rename(new, attempt.join(FILE))
    }
}

/// The names of the directories that take what is written.
pub(crate) fn names(turn: u64) -> (String, String) {
    if turn == 0 { ("upper".to_owned(), "work".to_owned()) } else { (format!("upper-{turn}"), format!("work-{turn}")) }
}

/// Whether a directory of a start takes what is written, or did.
pub(crate) fn is_written(name: &str) -> bool {
    ["upper", "work"]
        .iter()
        .any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
}

/// What all containers of these pods stand on.
pub(super) fn all(pods: &Path) -> Vec<(String, String, Files)> {
    let mut found = Vec::new();
    for pod in entries(pods) {
        let containers = pods.join(&pod).join("containers");
        for container in entries(&containers) {
            let starts = entries(&containers.join(&container)).into_iter();
            let last = starts.filter_map(|name| name.parse::<u32>().ok()).max();
            let at = last.map(|last| containers.join(&container).join(last.to_string()));
            if let Some(files) = at.and_then(|at| Files::read(&at)) {
                found.push((pod.clone(), container, files));
            }
        }
    }
    found
}

fn entries(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
