//! One binary that gives a fleet of clusters, nodes and AI agents a hub.

mod cli;
mod commands;
mod discovery;
mod doctor;
mod failure;
mod fleet;
mod judge;
mod kubernetes;
mod output;
mod plain;
mod roles;
mod settings;
mod up;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
