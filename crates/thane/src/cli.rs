//! The command line: what is read from it, and how a command's end becomes the process's.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser};
use thane_api::code;

use crate::commands::{self, Command};
use crate::failure::Failure;

/// One binary that gives a fleet of clusters, nodes and AI agents a hub.
#[derive(Debug, Parser)]
#[command(name = "thane", disable_version_flag = true, propagate_version = false, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    #[arg(long, global = true, value_name = "FILE", help = "Configuration file; else the one THANE_CONFIG names")]
    pub(crate) config: Option<PathBuf>,
    /// Levels of logs, such as info or info,kv=debug
    #[arg(long, global = true, value_name = "LEVELS")]
    pub(crate) log_level: Option<String>,
    /// Looks of logs: auto, human or json
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

/// Runs one command line.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout and ends well, mistakes go to stderr and do not; a closed pipe changes neither.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { u8::from(code::USAGE.exit) } else { 0 });
        }
    };
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => end(&failure),
    }
}

fn end(failure: &Failure) -> ExitCode {
    failure.print();
    ExitCode::from(failure.exit_code())
}

/// The command line's own description, for completions.
pub(crate) fn describe() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::describe().debug_assert();
    }
}
