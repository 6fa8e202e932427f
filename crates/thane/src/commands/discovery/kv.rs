//! `thane kv`.

use std::io::{self, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use http::{Method, StatusCode};
use hyper::body::Bytes;
use serde_json::Value;
use thane_api::code;

use super::{Column, Form, Listing, Reach, path, text};
use crate::failure::Failure;
use crate::output::{Structured, print_structured, tell};

/// Get, put, list and delete keys
#[derive(Debug, Subcommand)]
pub(crate) enum Kv {
    Get(Get),
    Put(Put),
    List(List),
    Delete(Delete),
}

/// Show the value of a key, byte for byte
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// The key
    key: String,
    /// Form of the output: with its indexes, flags and session, and the value in base64
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
    #[command(flatten)]
    reach: Reach,
}

/// Write a key
#[derive(Debug, Args)]
pub(crate) struct Put {
    /// The key
    key: String,
    /// The value; `-` reads it from standard input
    value: String,
    /// A number of your own to keep with it
    #[arg(long, value_name = "NUMBER")]
    flags: Option<u64>,
    /// Only if the key was last changed at this index; 0: only if there is none
    #[arg(long, value_name = "INDEX")]
    cas: Option<u64>,
    #[command(flatten)]
    reach: Reach,
}

/// List keys that begin so
#[derive(Debug, Args)]
pub(crate) struct List {
    /// What they begin with; nothing: all keys
    #[arg(default_value = "")]
    prefix: String,
    #[command(flatten)]
    listing: Listing,
}

/// Delete a key
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The key, or what keys begin with
    key: String,
    /// All keys that begin so
    #[arg(long, conflicts_with = "cas")]
    recurse: bool,
    /// Only if the key was last changed at this index
    #[arg(long, value_name = "INDEX")]
    cas: Option<u64>,
    #[command(flatten)]
    reach: Reach,
}

const COLUMNS: [Column; 6] = [
    Column { heading: "KEY", wide: false, cell: |row| text(row, "/Key") },
    Column { heading: "BYTES", wide: false, cell: |row| bytes(row).len().to_string() },
    Column { heading: "MODIFIED", wide: false, cell: |row| text(row, "/ModifyIndex") },
    Column { heading: "FLAGS", wide: true, cell: |row| text(row, "/Flags") },
    Column { heading: "LOCKED", wide: true, cell: |row| text(row, "/LockIndex") },
    Column { heading: "SESSION", wide: true, cell: |row| text(row, "/Session") },
];

fn bytes(row: &Value) -> Vec<u8> {
    row["Value"].as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default()
}

impl Kv {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Get(command) => command.run().await,
            Self::Put(command) => command.run().await,
            Self::List(command) => command.run().await,
            Self::Delete(command) => command.run().await,
        }
    }
}

impl Get {
    async fn run(self) -> Result<(), Failure> {
        let found = self.reach.get(&format!("/v1/kv/{}", path(&self.key))).await?;
        let Some(entry) = found.get(0) else {
            return Err(Failure::new(code::DISCOVERY_ABSENT, format!("there is no key {}", self.key)));
        };
        if let Some(form) = self.output {
            return print_structured(entry, form);
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(&bytes(entry)).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::output_closed(),
            _ => Failure::new(code::FILE_FAILED, format!("write to stdout: {error}")),
        })
    }
}

impl Put {
    async fn run(self) -> Result<(), Failure> {
        let value = if self.value == "-" { standard_input()? } else { self.value.clone().into_bytes() };
        let flags = self.flags.map(|flags| format!("flags={flags}"));
        let cas = self.cas.map(|index| format!("cas={index}"));
        let query: Vec<String> = flags.into_iter().chain(cas).collect();
        let target = format!("/v1/kv/{}?{}", path(&self.key), query.join("&"));
        let done = self.reach.put(&target, Bytes::from(value)).await?;
        swapped(&done, &self.key)?;
        tell(&format!("wrote {}", self.key));
        Ok(())
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let found = self.listing.reach.get(&format!("/v1/kv/{}?recurse", path(&self.prefix))).await?;
        let rows = if found.is_null() { Value::Array(Vec::new()) } else { found };
        if self.listing.output.is_none_or(|form| form == Form::Wide) && rows.as_array().is_some_and(Vec::is_empty) {
            tell("no keys");
            return Ok(());
        }
        self.listing.show(&rows, &COLUMNS, "no keys")
    }
}

impl Delete {
    async fn run(self) -> Result<(), Failure> {
        let query = match (self.recurse, self.cas) {
            (true, _) => String::from("?recurse"),
            (false, Some(index)) => format!("?cas={index}"),
            (false, None) => String::new(),
        };
        let answer =
            self.reach.ask(Method::DELETE, &format!("/v1/kv/{}{query}", path(&self.key)), Bytes::new()).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Err(Failure::new(code::DISCOVERY_ABSENT, format!("there is no key {}", self.key)));
        }
        swapped(&answer.json()?, &self.key)?;
        tell(&format!("deleted {}", self.key));
        Ok(())
    }
}

/// Whether a comparison held.
fn swapped(done: &Value, key: &str) -> Result<(), Failure> {
    match done {
        Value::Bool(false) => Err(Failure::new(code::NOT_SWAPPED, format!("{key} was changed by somebody else"))),
        _ => Ok(()),
    }
}

fn standard_input() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut value);
    read.map_err(|error| Failure::new(code::FILE_FAILED, format!("read standard input: {error}")))?;
    Ok(value)
}
