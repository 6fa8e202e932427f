//! `thane sessions`.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;
use thane_runtime::config::units::Span;

use super::{Column, Listing, Reach, joined, segment, text};
use crate::failure::Failure;
use crate::output::tell;

/// List sessions and end one
#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    List(List),
    Destroy(Destroy),
}

/// List sessions: who may hold keys
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only sessions of this node
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

/// End a session; its keys are released or deleted
#[derive(Debug, Args)]
pub(crate) struct Destroy {
    /// Id of the session
    id: String,
    #[command(flatten)]
    reach: Reach,
}

const COLUMNS: [Column; 7] = [
    Column { heading: "ID", wide: false, cell: |row| text(row, "/ID") },
    Column { heading: "NAME", wide: false, cell: |row| text(row, "/Name") },
    Column { heading: "NODE", wide: false, cell: |row| text(row, "/Node") },
    Column { heading: "TTL", wide: false, cell: |row| text(row, "/TTL") },
    Column { heading: "BEHAVIOR", wide: false, cell: |row| text(row, "/Behavior") },
    Column { heading: "LOCK DELAY", wide: true, cell: lock_delay },
    Column { heading: "CHECKS", wide: true, cell: |row| joined(row, "/NodeChecks") },
];

/// The API has it in nanoseconds.
fn lock_delay(row: &Value) -> String {
    row["LockDelay"].as_u64().map(|nanos| Span(Duration::from_nanos(nanos)).to_string()).unwrap_or_default()
}

impl Sessions {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(command) => command.run().await,
            Self::Destroy(command) => command.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let path = match &self.node {
            Some(node) => format!("/v1/session/node/{}", segment(node)),
            None => String::from("/v1/session/list"),
        };
        let rows = self.listing.reach.get(&path).await?;
        self.listing.show(&rows, &COLUMNS, "no sessions")
    }
}

impl Destroy {
    async fn run(self) -> Result<(), Failure> {
        self.reach.put(&format!("/v1/session/destroy/{}", segment(&self.id)), "").await?;
        tell(&format!("ended {}", self.id));
        Ok(())
    }
}
