//! Commands of discovery: services, keys, nodes, checks, sessions, tokens and snapshots, over the API that an agent or a
//! hub serves.

pub(crate) mod checks;
mod client;
pub(crate) mod kv;
pub(crate) mod nodes;
pub(crate) mod registry;
pub(crate) mod services;
pub(crate) mod sessions;
#[cfg(test)]
mod tests;
pub(crate) mod tokens;

use clap::Args;
use serde_json::Value;

use super::rows::{self, Column, Form, joined, path, segment, text};
use crate::failure::Failure;

pub(crate) use client::Reach;

/// What every list takes.
#[derive(Debug, Args)]
pub(crate) struct Listing {
    #[command(flatten)]
    reach: Reach,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
}

impl Listing {
    /// Shows rows: as they came, or as a table.
    fn show(&self, rows: &Value, columns: &[Column], none: &str) -> Result<(), Failure> {
        rows::show(rows, columns, self.output, none)
    }
}

/// The worst of checks.
fn worst(checks: &Value) -> String {
    let words: Vec<String> = checks.as_array().into_iter().flatten().map(|check| text(check, "/Status")).collect();
    let found = ["critical", "warning"].into_iter().find(|word| words.iter().any(|own| own == word));
    found.unwrap_or("passing").to_owned()
}
