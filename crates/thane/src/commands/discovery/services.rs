//! `thane services`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use thane_api::code;

use super::{Column, Listing, Reach, joined, segment, text, worst};
use crate::failure::Failure;
use crate::output::tell;

/// List, show, register and deregister services
#[derive(Debug, Subcommand)]
pub(crate) enum Services {
    List(List),
    Show(Show),
    Register(Register),
    Deregister(Deregister),
}

/// List the names of services with their tags
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    listing: Listing,
}

/// Show the instances of a service and how they are
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Name of the service
    name: String,
    /// Only instances with this tag; may be repeated
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Only instances that pass all checks
    #[arg(long)]
    passing: bool,
    /// Consul's filter expression, such as 'Service.Meta.env == "prod"'
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

/// Register an instance with the agent
#[derive(Debug, Args)]
pub(crate) struct Register {
    /// Name of the service
    name: String,
    /// Name of the instance; else that of the service
    #[arg(long)]
    id: Option<String>,
    /// Where it is reached; else where the node is
    #[arg(long = "service-address", value_name = "ADDRESS")]
    service_address: Option<String>,
    /// Port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Tag; may be repeated
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Something to know about it, as KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    meta: Vec<String>,
    /// Check by asking this URL
    #[arg(long, value_name = "URL", group = "check")]
    http: Option<String>,
    /// Check by connecting to HOST:PORT
    #[arg(long, value_name = "HOST:PORT", group = "check")]
    tcp: Option<String>,
    /// Check by asking gRPC's health service at HOST:PORT
    #[arg(long, value_name = "HOST:PORT", group = "check")]
    grpc: Option<String>,
    /// Check by being told at least so often
    #[arg(long, value_name = "TIME", group = "check")]
    ttl: Option<String>,
    /// Time between checks
    #[arg(long, value_name = "TIME", default_value = "10s")]
    interval: String,
    #[command(flatten)]
    reach: Reach,
}

/// Remove an instance from the agent
#[derive(Debug, Args)]
pub(crate) struct Deregister {
    /// Name of the instance
    id: String,
    #[command(flatten)]
    reach: Reach,
}

const NAMES: [Column; 2] = [
    Column { heading: "NAME", wide: false, cell: |row| text(row, "/Name") },
    Column { heading: "TAGS", wide: false, cell: |row| joined(row, "/Tags") },
];

const INSTANCES: [Column; 8] = [
    Column { heading: "ID", wide: false, cell: |row| text(row, "/Service/ID") },
    Column { heading: "NODE", wide: false, cell: |row| text(row, "/Node/Node") },
    Column { heading: "ADDRESS", wide: false, cell: address },
    Column { heading: "PORT", wide: false, cell: |row| text(row, "/Service/Port") },
    Column { heading: "STATUS", wide: false, cell: |row| worst(&row["Checks"]) },
    Column { heading: "TAGS", wide: false, cell: |row| joined(row, "/Service/Tags") },
    Column { heading: "META", wide: true, cell: |row| joined(row, "/Service/Meta") },
    Column { heading: "CHECKS", wide: true, cell: |row| row["Checks"].as_array().map_or(0, Vec::len).to_string() },
];

/// Where an instance is reached.
fn address(row: &Value) -> String {
    let own = text(row, "/Service/Address");
    if own.is_empty() { text(row, "/Node/Address") } else { own }
}

impl Services {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(command) => command.run().await,
            Self::Show(command) => command.run().await,
            Self::Register(command) => command.run().await,
            Self::Deregister(command) => command.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let names = self.listing.reach.get("/v1/catalog/services").await?;
        let rows = names.as_object().into_iter().flatten();
        let rows: Value = rows.map(|(name, tags)| json!({"Name": name, "Tags": tags})).collect();
        self.listing.show(&rows, &NAMES, "no services; register one with `thane services register`")
    }
}

impl Show {
    async fn run(self) -> Result<(), Failure> {
        let mut query: Vec<String> = self.tag.iter().map(|tag| format!("tag={}", segment(tag))).collect();
        if self.passing {
            query.push(String::from("passing"));
        }
        query.extend(self.filter.as_deref().map(|filter| format!("filter={}", segment(filter))));
        let path = format!("/v1/health/service/{}?{}", segment(&self.name), query.join("&"));
        let rows = self.listing.reach.get(&path).await?;
        if query.is_empty() && rows.as_array().is_none_or(Vec::is_empty) {
            return Err(Failure::new(code::DISCOVERY_ABSENT, format!("there is no service {}", self.name)));
        }
        self.listing.show(&rows, &INSTANCES, "no instance fits")
    }
}

impl Register {
    async fn run(self) -> Result<(), Failure> {
        let body = self.body()?;
        self.reach.put("/v1/agent/service/register", body.to_string()).await?;
        tell(&format!("registered {}", self.id.as_ref().unwrap_or(&self.name)));
        Ok(())
    }

    pub(super) fn body(&self) -> Result<Value, Failure> {
        let mut meta = serde_json::Map::new();
        for pair in &self.meta {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| Failure::new(code::USAGE, format!("--meta {pair} is not KEY=VALUE")))?;
            meta.insert(key.to_owned(), value.into());
        }
        let mut body = json!({"Name": self.name, "Port": self.port, "Tags": self.tag, "Meta": meta});
        if let Some(id) = &self.id {
            body["ID"] = json!(id);
        }
        if let Some(address) = &self.service_address {
            body["Address"] = json!(address);
        }
        let asked = [("HTTP", &self.http), ("TCP", &self.tcp), ("GRPC", &self.grpc)];
        if let Some((kind, Some(target))) = asked.into_iter().find(|(_, target)| target.is_some()) {
            body["Check"] = json!({kind: target, "Interval": self.interval});
        } else if let Some(ttl) = &self.ttl {
            body["Check"] = json!({"TTL": ttl});
        }
        Ok(body)
    }
}

impl Deregister {
    async fn run(self) -> Result<(), Failure> {
        let path = format!("/v1/agent/service/deregister/{}", segment(&self.id));
        let answer = self.reach.ask(http::Method::PUT, &path, hyper::body::Bytes::new()).await?;
        if answer.status == http::StatusCode::NOT_FOUND {
            return Err(Failure::new(code::DISCOVERY_ABSENT, format!("this agent has no instance {}", self.id)));
        }
        tell(&format!("deregistered {}", self.id));
        Ok(())
    }
}
