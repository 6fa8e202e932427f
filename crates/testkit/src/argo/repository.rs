//! A git repository on disk.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// A repository with one branch, `main`; dropping it removes it.
pub struct Repository {
    folder: TempDir,
}

impl Repository {
    /// Makes an empty one.
    pub fn create() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-git-").tempdir()?;
        let made = Self { folder };
        made.git(&["init", "--quiet", "--initial-branch", "main"])?;
        Ok(made)
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("file://{}", self.folder.path().display())
    }

    /// Commits files by their paths, and says which commit that is.
    pub fn commit(&self, subject: &str, files: &[(String, String)]) -> Result<String> {
        for (path, content) in files {
            let path = self.folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
            std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "--message", subject])?;
        Ok(self.git(&["rev-parse", "HEAD"])?.trim().to_owned())
    }

    fn git(&self, arguments: &[&str]) -> Result<String> {
        let who = ["-c", "user.name=testkit", "-c", "user.email=testkit@localhost", "-c", "commit.gpgsign=false"];
        let mut command = Command::new("git");
        // Nothing of the user's own configuration may play a part.
        command.env("HOME", self.folder.path()).env("GIT_CONFIG_NOSYSTEM", "1").env_remove("XDG_CONFIG_HOME");
        let output = command.arg("-C").arg(self.folder.path()).args(who).args(arguments).output();
        let output = output.context("starting git")?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git {}: {told}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_commit_has_its_own_name_and_everything_so_far() {
        let repository = Repository::create().unwrap();
        let first = repository.commit("one", &[("app/a.yaml".to_owned(), "a".to_owned())]).unwrap();
        let second = repository.commit("two", &[("app/b.yaml".to_owned(), "b".to_owned())]).unwrap();
        assert_ne!(first, second);
        let files = repository.git(&["ls-tree", "-r", "--name-only", "main"]).unwrap();
        assert_eq!(files.lines().collect::<Vec<_>>(), ["app/a.yaml", "app/b.yaml"]);
    }
}
