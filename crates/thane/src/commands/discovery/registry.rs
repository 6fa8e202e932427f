//! `thane registry`.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use http::Method;
use hyper::body::Bytes;
use serde_json::json;
use thane_api::code;

use super::Reach;
use crate::failure::Failure;
use crate::output::{Structured, print_structured, tell};

/// Save everything the registry has, and put it back
#[derive(Debug, Subcommand)]
pub(crate) enum Registry {
    Save(Save),
    Restore(Restore),
}

/// Write a snapshot of the registry to a file: services, keys, sessions, tokens
#[derive(Debug, Args)]
pub(crate) struct Save {
    /// The file, readable by its owner only; `-` is stdout
    file: PathBuf,
    /// Form of what is said about it
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
    #[command(flatten)]
    reach: Reach,
}

/// Replace everything the registry has by a snapshot
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The file; `-` is standard input
    file: PathBuf,
    /// Form of what is said about it
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
    #[command(flatten)]
    reach: Reach,
}

const PATH: &str = "/v1/snapshot";

impl Registry {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Save(command) => command.run().await,
            Self::Restore(command) => command.run().await,
        }
    }
}

impl Save {
    async fn run(self) -> Result<(), Failure> {
        let saved = self.reach.ask(Method::GET, PATH, Bytes::new()).await?.body;
        let name = self.file.display().to_string();
        let failed = |error: io::Error| Failure::new(code::FILE_FAILED, format!("write {name}: {error}"));
        if name == "-" {
            let mut stdout = io::stdout().lock();
            return stdout.write_all(&saved).and_then(|()| stdout.flush()).map_err(failed);
        }
        thane_runtime::files::write_private(&self.file, &saved).map_err(failed)?;
        said(self.output, "saved", &name, saved.len())
    }
}

impl Restore {
    async fn run(self) -> Result<(), Failure> {
        let name = self.file.display().to_string();
        let failed = |error: io::Error| Failure::new(code::FILE_FAILED, format!("read {name}: {error}"));
        let saved = if name == "-" {
            let mut all = Vec::new();
            io::stdin().lock().read_to_end(&mut all).map_err(failed)?;
            all
        } else {
            std::fs::read(&self.file).map_err(failed)?
        };
        let bytes = saved.len();
        self.reach.ask(Method::PUT, PATH, saved.into()).await?;
        said(self.output, "restored", &name, bytes)
    }
}

fn said(form: Option<Structured>, what: &str, name: &str, bytes: usize) -> Result<(), Failure> {
    match form {
        Some(form) => print_structured(&json!({"done": what, "file": name, "bytes": bytes}), form),
        None => {
            tell(&format!("{what} {bytes} bytes: {name}"));
            Ok(())
        }
    }
}
