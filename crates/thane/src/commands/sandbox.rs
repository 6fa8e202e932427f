//! `thane sandbox`.

mod copy;
mod exec;
mod gateway;
mod shell;
mod steps;

pub(crate) use gateway::Gateway;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};
use thane_api::code;
use thane_runtime::config::units::Span;

use super::rows::{self, Column, Form, segment, text};
use crate::failure::Failure;
use crate::output::{print, tell};

/// Sandboxes: claim one, run commands in it, bring its files back, give it up
#[derive(Debug, Subcommand)]
pub(crate) enum Sandbox {
    Create(Create),
    List(List),
    Exec(exec::Exec),
    Shell(shell::Shell),
    Cp(copy::Copy),
    Snapshot(steps::Snapshot),
    Restore(steps::Restore),
    Fork(steps::Fork),
    Logs(steps::Logs),
    Rm(Rm),
}

/// Which namespace.
#[derive(Debug, Args)]
pub(crate) struct Within {
    /// Namespace of the pool
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub(crate) namespace: String,
}

impl Within {
    /// The path of something in it.
    pub(crate) fn path(&self, before: &str, name: &str) -> String {
        format!("{before}{}?namespace={}", segment(name), segment(&self.namespace))
    }
}

/// Claim a sandbox of a pool, and print its name
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The pool
    pool: String,
    /// Environment of everything that runs in it, as NAME=VALUE
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// It goes when nothing ran in it for so long
    #[arg(long, value_name = "TIME")]
    idle_timeout: Option<Span>,
    /// It goes after so long
    #[arg(long, value_name = "TIME")]
    lifetime: Option<Span>,
    /// Longest wait for one that is idle
    #[arg(long, value_name = "TIME", default_value = "30s")]
    wait: Span,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    gateway: Gateway,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
}

/// List sandboxes
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    gateway: Gateway,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
}

/// Give sandboxes up; everything in them ends
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Their names
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    gateway: Gateway,
}

const COLUMNS: [Column; 6] = [
    Column { heading: "NAME", wide: false, cell: |row| text(row, "/id") },
    Column { heading: "POOL", wide: false, cell: |row| text(row, "/poolRef") },
    Column { heading: "NAMESPACE", wide: true, cell: |row| text(row, "/namespace") },
    Column { heading: "POD", wide: false, cell: |row| text(row, "/podName") },
    Column { heading: "ADDRESS", wide: true, cell: |row| text(row, "/podIP") },
    Column { heading: "CREATED", wide: false, cell: |row| text(row, "/createdAt") },
];

impl Sandbox {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Create(command) => command.run().await,
            Self::List(command) => command.run().await,
            Self::Exec(command) => command.run().await,
            Self::Shell(command) => command.run().await,
            Self::Cp(command) => command.run().await,
            Self::Snapshot(command) => command.run().await,
            Self::Restore(command) => command.run().await,
            Self::Fork(command) => command.run().await,
            Self::Logs(command) => command.run().await,
            Self::Rm(command) => command.run().await,
        }
    }
}

impl Create {
    async fn run(self) -> Result<(), Failure> {
        let env: serde_json::Map<String, Value> =
            self.env.into_iter().map(|(key, value)| (key, value.into())).collect();
        let mut body = json!({
            "poolRef": self.pool,
            "namespace": self.within.namespace,
            "keepAlive": true,
            "env": env,
            "waitSeconds": self.wait.0.as_secs(),
        });
        for (key, time) in [("idleTimeoutSeconds", &self.idle_timeout), ("maxLifetimeSeconds", &self.lifetime)] {
            if let Some(time) = time {
                body[key] = time.0.as_secs().into();
            }
        }
        let made = self.gateway.json(Method::POST, "/v1/sessions", Some(&body)).await?;
        shown(&made, self.output)
    }
}

/// A sandbox that was made: its name, unless more is asked for.
fn shown(made: &Value, form: Option<Form>) -> Result<(), Failure> {
    match form {
        None => print(&format!("{}\n", text(made, "/id"))),
        Some(Form::Wide) => rows::show(&json!([made]), &COLUMNS, form, ""),
        Some(_) => rows::show(made, &COLUMNS, form, ""),
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let mut answer = self
                .gateway
                .open(
                    gateway::request(Method::GET, &format!("/v1/sessions?cursor={cursor}"))?,
                    gateway::whole("".into()),
                )
                .await?;
            let next = answer.cursor();
            let body: Value = serde_json::from_slice(&answer.rest().await?)
                .map_err(|error| Failure::new(code::GATEWAY_REFUSED, format!("the answer is no JSON: {error}")))?;
            let sessions = body.get("sessions").unwrap_or(&body);
            all.extend(sessions.as_array().into_iter().flatten().cloned());
            match next {
                Some(next) => cursor = segment(&next),
                None => break,
            }
        }
        rows::show(
            &Value::Array(all),
            &COLUMNS,
            self.output,
            "no sandboxes; claim one with `thane sandbox create POOL`",
        )
    }
}

impl Rm {
    async fn run(self) -> Result<(), Failure> {
        for name in &self.names {
            self.gateway.json(Method::DELETE, &format!("/v1/sessions/{}", segment(name)), None).await?;
            tell(&format!("{name} given up"));
        }
        Ok(())
    }
}

/// `NAME=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it looks like NAME=VALUE".to_owned()),
    }
}
