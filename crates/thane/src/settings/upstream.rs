//! What argocd-agent's words say, and the defaults they bring along.

use std::net::{Ipv4Addr, SocketAddr};

use super::agent::AgentSettings;
use super::hub::HubSettings;
use super::{Role, Settings};
use crate::failure::Failure;
use crate::roles::words::{Given, Said, Table};

/// Ports of argocd-agent's metrics.
const HUB_METRICS: u16 = 8000;
const AGENT_METRICS: u16 = 8181;

/// What is to be laid over what.
pub(super) struct Upstream {
    pub(super) defaults: Settings,
    pub(super) variables: Said,
    pub(super) flags: Said,
}

/// Its defaults are in force for a role that was started by its name, or with any of its variables set.
pub(super) fn read(environment: &[(String, String)], role: Option<Role<'_>>) -> Result<Upstream, Failure> {
    let mut read = Upstream { defaults: Settings::default(), variables: Said::default(), flags: Said::default() };
    let (hub, agent, is_named) = match role {
        Some(Role::Hub { words, as_principal }) => (Some(words), None, as_principal),
        Some(Role::Agent { words }) => (None, Some(words), false),
        None => (None, None, false),
    };
    if agent.is_none() && read.add(environment, is_named, hub, "hub.")? {
        read.defaults.hub = HubSettings::upstream();
        read.listen_everywhere(hub.is_some(), HUB_METRICS);
    }
    if hub.is_none() && read.add(environment, false, agent, "agent.")? {
        read.defaults.agent = AgentSettings::upstream();
        read.listen_everywhere(agent.is_some(), AGENT_METRICS);
    }
    Ok(read)
}

impl Upstream {
    /// Adds what is said about one role, which may not be the one that runs; whether argocd-agent's defaults count.
    fn add<T: Table>(
        &mut self,
        environment: &[(String, String)],
        is_named: bool,
        words: Option<&Given<T>>,
        key: &str,
    ) -> Result<bool, Failure> {
        let is_upstream = is_named || Given::<T>::is_in(environment);
        let mut said = Given::<T>::variables(environment, is_upstream)?;
        match words {
            Some(words) => self.flags = words.flags(is_upstream)?,
            // What is said about logs and metrics is said to that role alone.
            None => said.settings.retain(|setting| setting.key.starts_with(key)),
        }
        self.variables.settings.append(&mut said.settings);
        self.variables.idle.append(&mut said.idle);
        Ok(is_upstream)
    }

    fn listen_everywhere(&mut self, runs: bool, port: u16) {
        if runs {
            self.defaults.admin.address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        }
    }
}
