//! The agents' whole pipeline, each agent killed once: a real Argo runs the steps, our operator opens the gate, and the
//! services are processes beside the node. What is looked at is said in `agents/tests/test_machine.py`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use thane_testkit::deployed::{Programs, Workloads};
use thane_testkit::peer::{Absence, Node};
use tokio::process::Command;

/// The longest it may take.
const LIMIT: Duration = Duration::from_mins(12);

/// The archive that `make test-node` made.
pub(crate) fn image() -> Result<PathBuf, Absence> {
    let path = std::env::var_os("THANE_AGENTS_IMAGE").map(PathBuf::from).filter(|path| path.is_file());
    path.ok_or_else(|| Absence::because("THANE_AGENTS_IMAGE does not say where it is: run `make test-node`".to_owned()))
}

pub(crate) async fn run(node: &Node, programs: &Programs, site: &Workloads) -> Result<()> {
    site.without_services().await?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agents/pipeline");
    let mut command = Command::new(script);
    command
        .arg(&programs.program)
        .env("THANE_PIPELINE_KUBECONFIG", site.kubeconfig())
        .env("THANE_PIPELINE_HOST", node.host().to_string())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(LIMIT, command.status()).await.context("it is not done in time")??;
    ensure!(ended.success(), "agents/pipeline: {ended}");
    Ok(())
}
