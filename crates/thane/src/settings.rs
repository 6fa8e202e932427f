//! The whole configuration of the binary, put together from its layers.

pub(crate) mod agent;
pub(crate) mod discovery;
pub(crate) mod gateway;
pub(crate) mod hub;
pub(crate) mod limits;
pub(crate) mod link;
pub(crate) mod redis;
mod upstream;
pub(crate) mod workflows;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thane_runtime::admin::AdminConfig;
use thane_runtime::config::units::Span;
use thane_runtime::config::{self, Layers, Loaded};
use thane_runtime::telemetry::LogConfig;

use crate::cli::Global;
use crate::failure::Failure;
use crate::roles::words::{AgentWords, HubWords};
use agent::AgentSettings;
use gateway::GatewaySettings;
use hub::HubSettings;
use limits::ApiLimits;
use workflows::WorkflowSettings;

/// Everything that can be configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Settings {
    /// Logs.
    pub(crate) log: LogConfig,
    /// Health and metrics.
    pub(crate) admin: AdminConfig,
    /// `thane up`.
    pub(crate) up: UpSettings,
    /// `thane hub`.
    pub(crate) hub: HubSettings,
    /// `thane agent`.
    pub(crate) agent: AgentSettings,
    /// `thane gateway`.
    pub(crate) gateway: GatewaySettings,
    /// Steps of Workflows, of `thane up` and `thane operator`.
    pub(crate) workflows: WorkflowSettings,
}

/// The `up` section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct UpSettings {
    /// Where everything is kept.
    pub(crate) data: PathBuf,
    /// How many cluster APIs run beside the hub's.
    pub(crate) clusters: u16,
    /// How many of the clusters, the last ones, decide for themselves what they run.
    pub(crate) autonomous: u16,
    /// Whether the hub and the agents run too, or the APIs alone.
    pub(crate) roles: bool,
    /// Where the hub takes calls of agents.
    pub(crate) hub_address: SocketAddr,
    /// Where the hub's Kubernetes API listens; cluster N's is N ports above.
    pub(crate) api_address: SocketAddr,
    /// Where the discovery API of cluster 1's agent listens; cluster N's is N-1 ports above.
    pub(crate) discovery_address: SocketAddr,
    /// Where cluster 1's agent answers DNS; cluster N's is N-1 ports above.
    pub(crate) dns_address: SocketAddr,
    /// The hub's Redis, as host and port: the Redis proxy stands before it; none without one.
    pub(crate) redis: String,
    /// The Redis of cluster 1, 2 and so on.
    pub(crate) cluster_redis: Vec<String>,
    /// Where the Redis proxy listens.
    pub(crate) redis_address: SocketAddr,
    /// Where clients of agents' clusters call.
    pub(crate) proxy_address: SocketAddr,
    /// Where the gateway of sandboxes listens.
    pub(crate) gateway_address: SocketAddr,
    /// Every listener takes a free port.
    pub(crate) ephemeral_ports: bool,
    /// File with the keys that encrypt Secrets.
    pub(crate) encryption_keys: Option<PathBuf>,
    /// File with static bearer tokens, as kube-apiserver's.
    pub(crate) token_file: Option<PathBuf>,
    /// Whether pods are run on this machine, where it can.
    pub(crate) pods: bool,
    /// Pods of one API that run at once.
    pub(crate) max_pods: usize,
    /// How much each API takes and keeps.
    pub(crate) limits: ApiLimits,
    /// How long parts may take to stop.
    pub(crate) grace: Span,
}

impl Default for UpSettings {
    fn default() -> Self {
        Self {
            data: PathBuf::from(".thane"),
            clusters: 1,
            autonomous: 0,
            roles: true,
            hub_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8443)),
            api_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 6443)),
            discovery_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8502)),
            dns_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8600)),
            redis: String::new(),
            cluster_redis: Vec::new(),
            redis_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 6380)),
            proxy_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
            gateway_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            ephemeral_ports: false,
            encryption_keys: None,
            token_file: None,
            pods: true,
            max_pods: 1000,
            limits: ApiLimits::default(),
            grace: Span(Duration::from_secs(10)),
        }
    }
}

/// Flags of a command that set configuration: path, flag, value.
pub(crate) type Flags = Vec<(&'static str, &'static str, Option<Value>)>;

/// A role as it was started: which one, its flags, and whether by argocd-agent's name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role<'a> {
    Hub { words: &'a HubWords, as_principal: bool },
    Agent { words: &'a AgentWords },
}

/// Reads every layer; `flags` are those of the command itself.
pub(crate) fn load(global: &Global, flags: Flags) -> Result<Loaded<Settings>, Failure> {
    Ok(read(global, flags, None)?.0)
}

/// Reads every layer for a role; beside them, options that were given and are of no effect.
pub(crate) fn load_role(global: &Global, role: Role<'_>) -> Result<(Loaded<Settings>, Vec<&'static str>), Failure> {
    let mut global = global.clone();
    global.log_level = global.log_level.map(|levels| crate::roles::words::levels(&levels));
    read(&global, Flags::new(), Some(role))
}

fn read(
    global: &Global,
    flags: Flags,
    role: Option<Role<'_>>,
) -> Result<(Loaded<Settings>, Vec<&'static str>), Failure> {
    let named = std::env::var_os(config::FILE_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let file = global.config.clone().or(named);
    let text = file.as_deref().map(config::read_file).transpose()?;
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    layer(file.as_deref().zip(text.as_deref()), variables.collect(), global, flags, role)
}

fn layer(
    file: Option<(&Path, &str)>,
    environment: Vec<(String, String)>,
    global: &Global,
    flags: Flags,
    role: Option<Role<'_>>,
) -> Result<(Loaded<Settings>, Vec<&'static str>), Failure> {
    let mut said = upstream::read(&environment, role)?;
    let mut layers = Layers::from_defaults(&said.defaults)?;
    if let Some((path, text)) = file {
        layers = layers.with_file(path, text)?;
    }
    for setting in said.variables.settings {
        layers = layers.with_variable(setting.key, setting.name, setting.value);
    }
    layers = layers.with_environment(environment);
    for setting in said.flags.settings {
        layers = layers.with_flag(setting.key, setting.name, Some(setting.value));
    }
    layers = layers.with_flag("log.level", "log-level", global.log_level.as_ref().map(|level| json!(level))).with_flag(
        "log.format",
        "log-format",
        global.log_format.as_ref().map(|format| json!(format)),
    );
    for (key, flag, value) in flags {
        layers = layers.with_flag(key, flag, value);
    }
    said.variables.idle.append(&mut said.flags.idle);
    Ok((layers.load()?, said.variables.idle))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_value_has_a_variable_of_its_own() {
        let loaded = layer(None, Vec::new(), &Global::default(), Flags::new(), None).ok().unwrap().0;
        assert_eq!(loaded.value, Settings::default());
        let rows = loaded.rows();
        let names: BTreeSet<&str> = rows.iter().map(|row| row.variable.as_str()).collect();
        assert_eq!(names.len(), rows.len());
        assert!(names.contains("THANE_UP_EPHEMERAL_PORTS"), "{names:?}");
    }
}
