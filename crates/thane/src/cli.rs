//! The command line: what is read from it, and how a command's end becomes the process's.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
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

/// An agent's command line by itself: there is one beside every service, and what the other commands take, which is
/// megabytes of this program, would stay in its memory for ever.
#[derive(Debug, Parser)]
#[command(name = "thane", disable_version_flag = true, disable_help_subcommand = true)]
struct AgentCli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    Agent(commands::agent::Agent),
}

/// What a command line asks for.
fn read(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    if arguments.get(1).is_some_and(|word| word == "agent")
        && let Ok(AgentCli { global, command: AgentCommand::Agent(agent) }) = AgentCli::try_parse_from(&arguments)
    {
        return Ok(Cli { global, command: Command::Agent(agent) });
    }
    // What is wrong with it, and help, is said with all commands known.
    Cli::try_parse_from(arguments)
}

/// Runs one command line.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match read(arguments.into_iter().collect()) {
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
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        super::describe().debug_assert();
        super::AgentCli::command().debug_assert();
    }

    #[test]
    fn an_agents_command_line_is_read_as_any_other() {
        for line in [
            "thane agent --fleet=false --node-name n --log-level debug --config a.yaml",
            "thane agent",
            "thane --log-level debug agent",
            "thane agent --nonsense",
            "thane agent --help",
        ] {
            let words = || line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
            let said =
                |cli: Result<Cli, clap::Error>| cli.map_or_else(|error| error.to_string(), |cli| format!("{cli:?}"));
            assert_eq!(said(read(words())), said(Cli::try_parse_from(words())), "{line}");
        }
    }
}
