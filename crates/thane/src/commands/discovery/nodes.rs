//! `thane nodes`.

use clap::{Args, Subcommand};
use serde_json::Value;
use thane_api::code;

use super::{Column, Listing, joined, segment, text};
use crate::failure::Failure;

/// List nodes and show what runs on one
#[derive(Debug, Subcommand)]
pub(crate) enum Nodes {
    List(List),
    Show(Show),
}

/// List nodes
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Consul's filter expression, such as 'Meta.rack == "r1"'
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

/// Show the services on a node
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Name of the node
    name: String,
    #[command(flatten)]
    listing: Listing,
}

const NODES: [Column; 6] = [
    Column { heading: "NAME", wide: false, cell: |row| text(row, "/Node") },
    Column { heading: "ADDRESS", wide: false, cell: |row| text(row, "/Address") },
    Column { heading: "DATACENTER", wide: false, cell: |row| text(row, "/Datacenter") },
    Column { heading: "META", wide: true, cell: |row| joined(row, "/Meta") },
    Column { heading: "ADDRESSES", wide: true, cell: |row| joined(row, "/TaggedAddresses") },
    Column { heading: "ID", wide: true, cell: |row| text(row, "/ID") },
];

const SERVICES: [Column; 6] = [
    Column { heading: "ID", wide: false, cell: |row| text(row, "/ID") },
    Column { heading: "SERVICE", wide: false, cell: |row| text(row, "/Service") },
    Column { heading: "ADDRESS", wide: false, cell: |row| text(row, "/Address") },
    Column { heading: "PORT", wide: false, cell: |row| text(row, "/Port") },
    Column { heading: "TAGS", wide: false, cell: |row| joined(row, "/Tags") },
    Column { heading: "META", wide: true, cell: |row| joined(row, "/Meta") },
];

impl Nodes {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(command) => command.run().await,
            Self::Show(command) => command.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let filter = self.filter.as_deref().map(|filter| format!("?filter={}", segment(filter))).unwrap_or_default();
        let rows = self.listing.reach.get(&format!("/v1/catalog/nodes{filter}")).await?;
        self.listing.show(&rows, &NODES, "no nodes; an agent makes one, as does catalog/register")
    }
}

impl Show {
    async fn run(self) -> Result<(), Failure> {
        let found = self.listing.reach.get(&format!("/v1/catalog/node/{}", segment(&self.name))).await?;
        if found.is_null() {
            return Err(Failure::new(code::DISCOVERY_ABSENT, format!("there is no node {}", self.name)));
        }
        let rows: Value = found["Services"].as_object().into_iter().flatten().map(|(_, row)| row.clone()).collect();
        self.listing.show(&rows, &SERVICES, "no services on this node")
    }
}
