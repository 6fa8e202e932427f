//! Where a test runs the binary.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A directory to run in, without any of the caller's settings.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub(crate) fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
        self.command(variables, arguments).output().unwrap()
    }

    /// The binary with these arguments, ready to run.
    pub(crate) fn command(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("thane"));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("THANE_") || text.starts_with("ARGOCD_") || text == "KUBECONFIG" {
                command.env_remove(&name);
            }
        }
        command.current_dir(self.path()).envs(variables.iter().copied()).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(&[], arguments)
    }
}
