//! `thane executor`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use thane_api::code;

use crate::failure::Failure;

/// The program that runs commands in sandboxes
#[derive(Debug, Subcommand)]
pub(crate) enum Executor {
    Install(Install),
}

/// Write the program into a directory, as `thane-executor`
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The directory, which must exist
    directory: PathBuf,
}

impl Executor {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let Self::Install(Install { directory }) = self;
        thane_node::write_executor(&directory.join("thane-executor"))
            .map_err(|error| Failure::new(code::FILE_FAILED, format!("write into {}: {error}", directory.display())))
    }
}
