//! Runs a script's shell against one server.

use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::Command;

use super::text::normalised;
use super::{Script, Step};
use crate::differential::Target;
use crate::endpoint::Endpoint;
use crate::peer::PeerHome;

/// The longest a step may take on a busy machine, in seconds; `timeout` then ends the whole of it with code 124.
const STEP_SECONDS: &str = "60";
/// When even that did not help.
const STEP_LIMIT: Duration = Duration::from_mins(2);

/// How a step ended and what it printed, normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output and then standard error.
    pub output: String,
}

impl fmt::Display for Told {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(out, "(code {code})\n{}", self.output),
            None => write!(out, "(killed)\n{}", self.output),
        }
    }
}

/// A place to run shell with kubectl pointed at one server.
pub struct Session {
    folder: TempDir,
    programs: PathBuf,
    definitions: PathBuf,
    namespace: String,
    literals: Vec<(String, String)>,
}

impl Session {
    /// Prepares a folder; `namespace` is kubectl's default and need not exist yet.
    pub fn new(home: &PeerHome, endpoint: &Endpoint, namespace: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-session-").tempdir()?;
        std::fs::write(folder.path().join("kubeconfig"), endpoint.kubeconfig(namespace)?)?;
        std::fs::create_dir(folder.path().join("work"))?;
        let programs = home.program("kubectl").parent().context("programs are in a folder")?.to_owned();
        let literals = vec![
            (endpoint.address.clone(), "<server>".to_owned()),
            (folder.path().display().to_string(), "<folder>".to_owned()),
            (home.definitions("").display().to_string(), "<definitions>/".to_owned()),
        ];
        let definitions = home.definitions("");
        Ok(Self { folder, programs, definitions, namespace: namespace.to_owned(), literals })
    }

    /// Runs a script in a namespace of its own.
    pub async fn play(home: &PeerHome, target: &dyn Target, script: &Script) -> Result<Vec<Told>> {
        let session = Self::new(home, target.endpoint(), &script.name)?;
        let prepared = session
            .run("kubectl create namespace $NS && until kubectl get sa/default cm/kube-root-ca.crt; do sleep 0.1; done")
            .await?;
        anyhow::ensure!(prepared.code == Some(0), "{}: preparing {}: {prepared}", target.name(), script.name);
        let mut told = Vec::with_capacity(script.steps.len());
        for Step { run, .. } in &script.steps {
            told.push(session.run(run).await.with_context(|| format!("{}: {}: {run}", target.name(), script.name))?);
        }
        session.run("kubectl delete namespace $NS --wait=false").await?;
        Ok(told)
    }

    /// Runs shell and waits for it.
    pub async fn run(&self, shell: &str) -> Result<Told> {
        let root = self.folder.path();
        let path = format!("{}:{}", self.programs.display(), std::env::var("PATH").unwrap_or_default());
        let child = Command::new("timeout")
            .args(["--kill-after=5", STEP_SECONDS, "sh", "-c", shell])
            .current_dir(root.join("work"))
            .env("PATH", path)
            .env("HOME", root)
            .env("KUBECONFIG", root.join("kubeconfig"))
            .env("NS", &self.namespace)
            .env("DEFINITIONS", &self.definitions)
            .env("XDG_CONFIG_HOME", root)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = tokio::time::timeout(STEP_LIMIT, child.wait_with_output()).await.context("took too long")??;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok(Told { code: output.status.code(), output: normalised(&text, &self.literals) })
    }

    /// A file in the folder the shell runs in.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(std::fs::write(self.folder.path().join("work").join(name), text)?)
    }
}
