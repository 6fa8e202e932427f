//! `thane sandbox snapshot|restore|fork|logs`: steps, and the files as they were after one.

use clap::Args;
use http::Method;
use serde_json::{Value, json};
use thane_api::code;

use super::super::rows::{self, Column, Form, segment, text};
use super::gateway::{Gateway, request, whole};
use super::shown;
use crate::failure::Failure;
use crate::output::{print, tell};

/// Keep the files as they are now, and print the snapshot's name; every command that is run keeps one as well
#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    /// The sandbox
    name: String,
    #[command(flatten)]
    gateway: Gateway,
}

/// End everything in a sandbox and bring its files back as they were
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The sandbox
    name: String,
    /// The snapshot, as `logs` shows it
    snapshot: String,
    #[command(flatten)]
    gateway: Gateway,
}

/// Claim more sandboxes that begin with the files of a snapshot, and print their names
#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// The sandbox
    name: String,
    /// The snapshot, as `logs` shows it
    snapshot: String,
    /// How many
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    count: u32,
    #[command(flatten)]
    gateway: Gateway,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
}

/// Show the commands that led to the files as they are, or with --all every one there was
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The sandbox
    name: String,
    /// Every step, also of branches that were left, one JSON object a line
    #[arg(long, conflicts_with = "output")]
    all: bool,
    #[command(flatten)]
    gateway: Gateway,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
}

const COLUMNS: [Column; 8] = [
    Column { heading: "STEP", wide: false, cell: |row| text(row, "/index") },
    Column { heading: "SNAPSHOT", wide: false, cell: |row| text(row, "/snapshot_id") },
    Column { heading: "NAME", wide: false, cell: |row| text(row, "/name") },
    Column { heading: "EXIT", wide: false, cell: |row| text(row, "/output/exit_code") },
    Column { heading: "FAILURE", wide: false, cell: |row| text(row, "/error/kind") },
    Column { heading: "TOOK", wide: false, cell: |row| format!("{} ms", text(row, "/duration_ms")) },
    Column { heading: "AT", wide: true, cell: |row| text(row, "/timestamp") },
    Column { heading: "OUTPUT", wide: false, cell: |row| text(row, "/output/stdout") },
];

impl Snapshot {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let body = json!({"steps": [{"name": "snapshot", "command": ["true"]}]});
        let path = format!("/v1/sessions/{}/execute", segment(&self.name));
        let answer = self.gateway.json(Method::POST, &path, Some(&body)).await?;
        let result = answer.pointer("/results/0").cloned().unwrap_or_default();
        match result.get("snapshot_id").and_then(Value::as_str) {
            Some(snapshot) if !snapshot.is_empty() => print(&format!("{snapshot}\n")),
            _ => Err(Failure::new(code::GATEWAY_REFUSED, "no snapshot was taken: a process still runs in it")
                .with_hint("end what was started in the background, then try again")),
        }
    }
}

impl Restore {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let path = format!("/v1/sessions/{}/restore", segment(&self.name));
        self.gateway.json(Method::POST, &path, Some(&json!({"snapshotID": self.snapshot}))).await?;
        tell(&format!("{} is as it was after step {}", self.name, self.snapshot));
        Ok(())
    }
}

impl Fork {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let path = format!("/v1/sessions/{}/fork", segment(&self.name));
        let body = json!({"snapshotID": self.snapshot, "count": self.count});
        let answer = self.gateway.json(Method::POST, &path, Some(&body)).await?;
        if matches!(self.output, Some(Form::Json | Form::Yaml)) {
            return rows::show(&answer["sessions"], &super::COLUMNS, self.output, "");
        }
        for made in answer["sessions"].as_array().into_iter().flatten() {
            shown(made, None)?;
        }
        Ok(())
    }
}

impl Logs {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let path = format!("/v1/sessions/{}/", segment(&self.name));
        if self.all {
            let asked = request(Method::GET, &format!("{path}trajectory"))?;
            let lines = self.gateway.open(asked, whole("".into())).await?.rest().await?;
            return print(&String::from_utf8_lossy(&lines));
        }
        let steps = self.gateway.json(Method::GET, &format!("{path}history"), None).await?;
        rows::show(&steps, &COLUMNS, self.output, "nothing was run in it yet")
    }
}
