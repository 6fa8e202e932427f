//! `thane checks`.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use thane_api::code;

use super::{Column, Listing, Reach, segment, text};
use crate::failure::Failure;
use crate::output::tell;

/// List checks, and tell a TTL check how things are
#[derive(Debug, Subcommand)]
pub(crate) enum Checks {
    List(List),
    Update(Update),
}

/// List checks, of all nodes or of one service
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only checks that stand so
    #[arg(long, value_name = "STATE", conflicts_with = "service")]
    state: Option<State>,
    /// Only checks of this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

/// Tell a TTL check of the agent how things are
#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Name of the check
    id: String,
    /// How things are
    state: State,
    /// What to say about it
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    reach: Reach,
}

/// How a check stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    Passing,
    Warning,
    Critical,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Passing => "passing",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

const COLUMNS: [Column; 7] = [
    Column { heading: "ID", wide: false, cell: |row| text(row, "/CheckID") },
    Column { heading: "NODE", wide: false, cell: |row| text(row, "/Node") },
    Column { heading: "SERVICE", wide: false, cell: |row| text(row, "/ServiceID") },
    Column { heading: "STATUS", wide: false, cell: |row| text(row, "/Status") },
    Column { heading: "TYPE", wide: true, cell: |row| text(row, "/Type") },
    Column { heading: "NAME", wide: true, cell: |row| text(row, "/Name") },
    Column { heading: "OUTPUT", wide: false, cell: |row| text(row, "/Output") },
];

impl Checks {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(command) => command.run().await,
            Self::Update(command) => command.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let path = match &self.service {
            Some(service) => format!("/v1/health/checks/{}", segment(service)),
            None => format!("/v1/health/state/{}", self.state.map_or("any", State::word)),
        };
        let rows = self.listing.reach.get(&path).await?;
        self.listing.show(&rows, &COLUMNS, "no checks")
    }
}

impl Update {
    async fn run(self) -> Result<(), Failure> {
        let path = format!("/v1/agent/check/update/{}", segment(&self.id));
        let body = json!({"Status": self.state.word(), "Output": self.note}).to_string();
        let answer = self.reach.ask(http::Method::PUT, &path, body.into()).await?;
        if answer.status == http::StatusCode::NOT_FOUND {
            return Err(Failure::new(code::DISCOVERY_ABSENT, format!("this agent has no TTL check {}", self.id)));
        }
        tell(&format!("{} is {}", self.id, self.state.word()));
        Ok(())
    }
}
