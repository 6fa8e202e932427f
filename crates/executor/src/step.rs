//! What the wrapper around a step's program is told, and where it leaves what the program made.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The plan, in the directory that the containers of a step share.
pub const PLAN: &str = "step.json";
/// The variable with the name of the container.
pub const CONTAINER: &str = "ARGO_CONTAINER_NAME";
/// The container whose outputs count, and whose end is the step's.
pub const MAIN: &str = "main";
/// The exit code where the wrapper failed and not the program.
pub const FAILED: u8 = 64;
/// What is kept of standard output, counted from its end.
pub const RESULT_MAX: usize = 256 * 1024;
/// The largest parameter; a file that is larger is copied up to one byte more, so that it shows.
pub const PARAMETER_MAX: u64 = 1024 * 1024;

/// What the wrapper does besides running the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepPlan {
    /// Keep the end of standard output.
    pub result: bool,
    /// Keep all output, to be archived.
    pub logs: bool,
    /// Files that are output parameters.
    pub parameters: Vec<String>,
    /// Files and directories that are output artifacts.
    pub artifacts: Vec<String>,
    /// Containers that end when `main` has.
    pub sidecars: Vec<String>,
}

/// Places in the shared directory.
#[derive(Debug, Clone)]
pub struct Places(PathBuf);

impl Places {
    /// In this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// The plan.
    pub fn plan(&self) -> PathBuf {
        self.0.join(PLAN)
    }

    /// What belongs to one container.
    pub fn container(&self, name: &str) -> PathBuf {
        self.0.join("ctr").join(name)
    }

    /// Its exit code, once it has ended and all it leaves is in place.
    pub fn exit_code(&self, name: &str) -> PathBuf {
        self.container(name).join("exitcode")
    }

    /// A pipe that its wrapper holds open, so that its end is noticed even if it cannot say how it ended.
    pub fn alive(&self, name: &str) -> PathBuf {
        self.container(name).join("alive")
    }

    /// A signal it is to get, by number.
    pub fn signal(&self, name: &str) -> PathBuf {
        self.container(name).join("signal")
    }

    /// The end of its standard output.
    pub fn result(&self, name: &str) -> PathBuf {
        self.container(name).join("stdout")
    }

    /// All its output.
    pub fn logs(&self, name: &str) -> PathBuf {
        self.container(name).join("combined")
    }

    /// The copy of a parameter's file.
    pub fn parameter(&self, path: &str) -> PathBuf {
        self.0.join("outputs/parameters").join(inside(path))
    }

    /// An artifact, as a tar archive of what is at the path.
    pub fn artifact(&self, path: &str) -> PathBuf {
        let mut name = self.0.join("outputs/artifacts").join(inside(path)).into_os_string();
        name.push(".tar");
        name.into()
    }
}

/// A path below a directory, whatever it says.
fn inside(path: &str) -> PathBuf {
    let names = path.split('/').filter(|name| !["", ".", ".."].contains(name));
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_stay_inside() {
        let places = Places::new("/r");
        assert_eq!(places.parameter("/tmp/a.txt"), Path::new("/r/outputs/parameters/tmp/a.txt"));
        assert_eq!(places.parameter("/../../etc/passwd"), Path::new("/r/outputs/parameters/etc/passwd"));
        assert_eq!(places.artifact("/out/"), Path::new("/r/outputs/artifacts/out.tar"));
        assert_eq!(places.exit_code("main"), Path::new("/r/ctr/main/exitcode"));
    }
}
