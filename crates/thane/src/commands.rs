//! The commands, one file each.

mod agent;
mod agents;
mod apply;
mod completions;
mod config;
mod delete;
mod discovery;
mod doctor;
mod executor;
mod gateway;
mod get;
mod hub;
mod image;
pub(crate) mod judge;
mod jwt;
pub(crate) mod operator;
mod pki;
mod policy;
mod pool;
mod rows;
mod sandbox;
pub(crate) mod sidecar;
mod step;
mod up;
mod version;
mod watch;
mod workflow;
mod workload;

use std::future::Future;

use clap::Subcommand;
use thane_api::code;

use crate::cli::{Cli, Global};
use crate::failure::Failure;
use crate::settings::{self, Flags};

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(up::Up),
    Hub(hub::Hub),
    /// Run the hub with argocd-agent's defaults
    #[command(hide = true)]
    Principal(hub::Hub),
    Agent(agent::Agent),
    Gateway(gateway::Gateway),
    Operator(operator::Operator),
    Sidecar(sidecar::Sidecar),
    #[command(subcommand, hide = true)]
    Executor(executor::Executor),
    #[command(subcommand, hide = true)]
    Step(step::Step),
    #[command(hide = true)]
    Judge(judge::Judge),
    Apply(apply::Apply),
    Get(get::Get),
    Delete(delete::Delete),
    Watch(watch::Watch),
    #[command(subcommand)]
    Image(image::Image),
    #[command(subcommand)]
    Agents(agents::Agents),
    #[command(subcommand)]
    Services(discovery::services::Services),
    #[command(subcommand)]
    Kv(discovery::kv::Kv),
    #[command(subcommand)]
    Nodes(discovery::nodes::Nodes),
    #[command(subcommand)]
    Checks(discovery::checks::Checks),
    #[command(subcommand)]
    Sessions(discovery::sessions::Sessions),
    #[command(subcommand)]
    Tokens(discovery::tokens::Tokens),
    #[command(subcommand)]
    Registry(discovery::registry::Registry),
    #[command(subcommand)]
    Pool(pool::Pool),
    #[command(subcommand)]
    Workload(workload::Workload),
    #[command(subcommand)]
    Policy(policy::Policy),
    #[command(subcommand)]
    Sandbox(sandbox::Sandbox),
    #[command(subcommand)]
    Workflow(workflow::Workflow),
    #[command(subcommand)]
    Jwt(jwt::Jwt),
    #[command(subcommand)]
    Pki(pki::Pki),
    Doctor(doctor::Doctor),
    #[command(subcommand)]
    Config(config::Config),
    Version(version::Version),
    Completions(completions::Completions),
}

/// Runs a command to its end.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    let global = &cli.global;
    match cli.command {
        Command::Version(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Config(command) => command.run(global),
        Command::Pki(command) => command.run(global),
        Command::Up(command) => command.run(global),
        Command::Hub(command) => command.run(global, false),
        Command::Principal(command) => command.run(global, true),
        Command::Agent(command) => command.run(global),
        Command::Gateway(command) => command.run(global),
        Command::Operator(command) => command.run(global),
        Command::Sidecar(command) => command.run(global),
        Command::Executor(command) => command.run(),
        Command::Step(command) => command.run(),
        Command::Judge(judge::Judge {}) => judge::Judge::run(),
        Command::Image(command) => command.run(global),
        Command::Agents(command) => block_on(global, command.run()),
        Command::Services(command) => block_on(global, command.run()),
        Command::Kv(command) => block_on(global, command.run()),
        Command::Nodes(command) => block_on(global, command.run()),
        Command::Checks(command) => block_on(global, command.run()),
        Command::Sessions(command) => block_on(global, command.run()),
        Command::Tokens(command) => block_on(global, command.run()),
        Command::Registry(command) => block_on(global, command.run()),
        Command::Pool(command) => block_on(global, command.run()),
        Command::Workload(command) => block_on(global, command.run()),
        Command::Policy(command) => block_on(global, command.run()),
        Command::Sandbox(command) => block_on(global, command.run()),
        Command::Workflow(command) => block_on(global, command.run()),
        Command::Jwt(command) => block_on(global, command.run()),
        Command::Doctor(command) => command.run(global),
        Command::Apply(command) => block_on(global, command.run()),
        Command::Get(command) => block_on(global, command.run()),
        Command::Delete(command) => block_on(global, command.run()),
        Command::Watch(command) => block_on(global, command.run()),
    }
}

/// Runs a command that talks to a server; Ctrl-C ends it at once.
fn block_on(global: &Global, command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let mut logs = settings::load(global, Flags::new())?;
    if logs.rows().iter().any(|row| row.key == "log.level" && row.origin == "default") {
        // A person who asked for a list does not want the log of how it was fetched.
        "error,kube_client=off".clone_into(&mut logs.value.log.level);
    }
    thane_runtime::telemetry::init(&logs.value.log)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(code::BUG, format!("start the runtime: {error}")))?;
    let ended = runtime.block_on(command);
    // A thread may still wait for a key to be pressed.
    runtime.shutdown_background();
    ended
}
