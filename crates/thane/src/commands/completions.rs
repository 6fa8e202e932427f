//! `thane completions`.

use clap::Args;
use clap_complete::Shell;
use thane_api::code;

use crate::cli;
use crate::failure::Failure;
use crate::output::print;

/// Write a completion script for a shell to stdout
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli::describe(), "thane", &mut script);
        let script = String::from_utf8(script)
            .map_err(|error| Failure::new(code::BUG, format!("write the completion script: {error}")))?;
        print(&script)
    }
}
