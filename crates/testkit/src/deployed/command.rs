//! Programs that are run to their end.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The longest a command may take; those that wait for something have a limit of their own below it.
const LIMIT: Duration = Duration::from_mins(5);

/// A program with the arguments that it always gets.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub(super) program: PathBuf,
    pub(super) always: Vec<String>,
}

impl Tool {
    /// As kubectl: applies files or folders.
    pub(super) async fn apply(&self, files: &[PathBuf]) -> Result<()> {
        for file in files {
            self.run(&["apply", "-f", &file.display().to_string()]).await?;
        }
        Ok(())
    }

    /// As kubectl: applies an object.
    pub(super) async fn apply_text(&self, object: &str) -> Result<()> {
        self.run_with(&["apply", "-f", "-"], object).await?;
        Ok(())
    }

    /// Runs it and returns what it prints.
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<String> {
        self.run_with(arguments, "").await
    }

    /// Runs it with this input and returns what it prints.
    pub(super) async fn run_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut child = Command::new(&self.program)
            .args(&self.always)
            .args(arguments)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", self.program.display()))?;
        let mut pipe = child.stdin.take().context("its input is a pipe")?;
        let written = async move { pipe.write_all(input.as_bytes()).await };
        let both = async { tokio::join!(child.wait_with_output(), written) };
        let (output, _) = tokio::time::timeout(LIMIT, both).await.context("a command that does not end")?;
        let output = output?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        bail!("{name} {}: {text}{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr))
    }
}
