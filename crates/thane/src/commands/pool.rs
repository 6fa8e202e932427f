//! `thane pool`.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::rows::{self, Column, Form, segment, text};
use super::sandbox::{Gateway, Within};
use crate::failure::Failure;
use crate::output::tell;

/// Pools of sandboxes that wait to be claimed
#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    Create(Create),
    List(List),
    Show(Show),
    Scale(Scale),
    Rm(Rm),
}

/// Make a pool
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Its name
    name: String,
    /// What its sandboxes are made from; `host` is this machine's own userland
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// How many wait idle
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    replicas: u32,
    /// Most at once, idle and claimed together
    #[arg(long, value_name = "NUMBER")]
    max_replicas: Option<u32>,
    /// Where steps start
    #[arg(long, value_name = "DIR", default_value = "/workspace")]
    workspace: String,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    gateway: Gateway,
}

/// List pools
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    gateway: Gateway,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
}

/// Show a pool and what it says about itself
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Its name
    name: String,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    gateway: Gateway,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
}

/// Change how many sandboxes wait idle
#[derive(Debug, Args)]
pub(crate) struct Scale {
    /// Its name
    name: String,
    /// How many wait idle
    #[arg(long, value_name = "NUMBER")]
    replicas: u32,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    gateway: Gateway,
}

/// Remove a pool and what waits in it
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Its name
    name: String,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    gateway: Gateway,
}

const COLUMNS: [Column; 6] = [
    Column { heading: "NAME", wide: false, cell: |row| text(row, "/name") },
    Column { heading: "NAMESPACE", wide: true, cell: |row| text(row, "/namespace") },
    Column { heading: "WANTED", wide: false, cell: |row| text(row, "/replicas") },
    Column { heading: "READY", wide: false, cell: |row| text(row, "/readyReplicas") },
    Column { heading: "CLAIMED", wide: false, cell: |row| text(row, "/allocatedReplicas") },
    Column { heading: "SAYS", wide: false, cell: says },
];

/// What is wrong with a pool, or that it is ready.
fn says(row: &Value) -> String {
    let conditions = row.get("conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let failing = conditions.iter().find(|one| one["type"] == "PodsFailing" && one["status"] == "True");
    let said = failing.or_else(|| conditions.iter().find(|one| one["type"] == "Ready"));
    said.map(|one| format!("{}: {}", text(one, "/reason"), text(one, "/message"))).unwrap_or_default()
}

impl Pool {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Create(command) => command.run().await,
            Self::List(command) => command.run().await,
            Self::Show(command) => command.run().await,
            Self::Scale(command) => command.run().await,
            Self::Rm(command) => command.run().await,
        }
    }
}

impl Create {
    async fn run(self) -> Result<(), Failure> {
        let mut body = json!({
            "name": self.name,
            "image": self.image,
            "replicas": self.replicas,
            "namespace": self.within.namespace,
            "workspaceDir": self.workspace,
        });
        if let Some(most) = self.max_replicas {
            body["maxReplicas"] = most.into();
        }
        self.gateway.json(Method::POST, "/v1/pools", Some(&body)).await?;
        tell(&format!("pool {} made; see how it fills with `thane pool show {0}`", self.name));
        Ok(())
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let path = format!("/v1/pools?namespace={}", segment(&self.within.namespace));
        let answer = self.gateway.json(Method::GET, &path, None).await?;
        let pools = answer.get("pools").unwrap_or(&answer);
        rows::show(pools, &COLUMNS, self.output, "no pools; make one with `thane pool create`")
    }
}

impl Show {
    async fn run(self) -> Result<(), Failure> {
        let pool = self.gateway.json(Method::GET, &self.within.path("/v1/pools/", &self.name), None).await?;
        match self.output {
            Some(Form::Json | Form::Yaml) => rows::show(&pool, &COLUMNS, self.output, ""),
            _ => rows::show(&json!([pool]), &COLUMNS, self.output, ""),
        }
    }
}

impl Scale {
    async fn run(self) -> Result<(), Failure> {
        let body = json!({"replicas": self.replicas, "namespace": self.within.namespace});
        self.gateway.json(Method::PATCH, &format!("/v1/pools/{}", segment(&self.name)), Some(&body)).await?;
        tell(&format!("pool {} keeps {} idle", self.name, self.replicas));
        Ok(())
    }
}

impl Rm {
    async fn run(self) -> Result<(), Failure> {
        self.gateway.json(Method::DELETE, &self.within.path("/v1/pools/", &self.name), None).await?;
        tell(&format!("pool {} removed", self.name));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_says_what_is_wrong_first() {
        let ready = json!({"type": "Ready", "status": "False", "reason": "PoolNotReady", "message": "0/2 pods ready"});
        let failing =
            json!({"type": "PodsFailing", "status": "True", "reason": "PodStartupFailed", "message": "no image"});
        assert_eq!(says(&json!({"conditions": [ready]})), "PoolNotReady: 0/2 pods ready");
        assert_eq!(says(&json!({"conditions": [ready, failing]})), "PodStartupFailed: no image");
        assert_eq!(says(&json!({})), "");
    }
}
