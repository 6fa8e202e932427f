//! The names of objects on both sides.

use serde_json::Value;

use super::plan::{Reason, Refusal};
use super::{Agent, AgentSide, HubSide, Mode, Pattern, Placement};
use crate::object::{self, Key, Kind, NAMESPACE_REMAPPED};

const SUBDOMAIN_LEN_MAX: usize = 253;
const LABEL_LEN_MAX: usize = 63;

/// Whether it can be the name of a namespace or an agent.
pub fn is_dns_label(name: &str) -> bool {
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    name.len() <= LABEL_LEN_MAX
        && name.bytes().all(|byte| inner(&byte))
        && !name.is_empty()
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Whether it can be the name of an object.
pub fn is_dns_subdomain(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.len() <= SUBDOMAIN_LEN_MAX
        && name
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-'))
}

/// The key that an incoming object gives itself.
pub fn key_of(kind: Kind, incoming: &Value) -> Result<Key, Refusal> {
    if !incoming.is_object() {
        return Err(Refusal::new(Reason::Invalid, format!("{} is not a JSON object", kind.name())));
    }
    let expected = match kind {
        Kind::Repository => "Secret",
        Kind::AppProject | Kind::Application => kind.name(),
    };
    if let Some(said) = incoming["kind"].as_str().filter(|said| !said.is_empty() && *said != expected) {
        return Err(Refusal::new(Reason::Invalid, format!("expected kind {expected}, got {said:?}")));
    }
    let key = Key::of(kind, incoming);
    check(&key)?;
    Ok(key)
}

fn check(key: &Key) -> Result<(), Refusal> {
    if !is_dns_subdomain(&key.name) {
        return Err(Refusal::new(Reason::Invalid, format!("{} has the invalid name {:?}", key.kind.name(), key.name)));
    }
    if !key.namespace.is_empty() && !is_dns_label(&key.namespace) {
        return Err(Refusal::new(
            Reason::Invalid,
            format!("{} {} has the invalid namespace {:?}", key.kind.name(), key.name, key.namespace),
        ));
    }
    Ok(())
}

/// Where the agent keeps what the hub calls `key`.
pub fn agent_key(agent: &AgentSide, key: &Key) -> Result<Key, Refusal> {
    check(key)?;
    let mut local = Key { namespace: agent.namespace.clone(), ..key.clone() };
    match (key.kind, agent.mode) {
        (Kind::Application, Mode::Managed) if agent.placement == Placement::Destination => {
            if key.namespace.is_empty() {
                return Err(Refusal::new(Reason::Invalid, format!("Application {} has no namespace", key.name)));
            }
            if key.namespace != agent.hub_namespace {
                local.namespace.clone_from(&key.namespace);
            }
            let allowed =
                local.namespace == agent.namespace || Pattern::any(&agent.allowed_namespaces, &local.namespace);
            if !allowed {
                return Err(Refusal::new(
                    Reason::NamespaceNotAllowed,
                    format!("namespace {} is not one of those allowed", local.namespace),
                ));
            }
        }
        (Kind::AppProject, Mode::Autonomous) => unprefixed_project(&agent.name, &key.name).clone_into(&mut local.name),
        _ => {}
    }
    Ok(local)
}

/// Whether an Application the hub calls `key` is in another namespace here, which its copy says.
pub(super) fn is_remapped(agent: &AgentSide, hub_namespace: &str) -> bool {
    agent.mode == Mode::Managed
        && agent.placement == Placement::Destination
        && hub_namespace == agent.hub_namespace
        && agent.namespace != agent.hub_namespace
}

/// What the hub calls an object that the agent calls `key`; `remapped` is whether its copy has been moved.
pub fn hub_key(hub: &HubSide, agent: &Agent, key: &Key, remapped: bool) -> Result<Key, Refusal> {
    check(key)?;
    let mut on_hub = key.clone();
    on_hub.namespace = match (key.kind, agent.mode) {
        (Kind::Application, Mode::Managed) if hub.placement == Placement::Destination => {
            if key.namespace.is_empty() {
                return Err(Refusal::new(Reason::Invalid, format!("Application {} has no namespace", key.name)));
            }
            if remapped && key.namespace == agent.namespace { hub.namespace.clone() } else { key.namespace.clone() }
        }
        (Kind::Application, _) => agent.name.clone(),
        _ => hub.namespace.clone(),
    };
    if key.kind == Kind::AppProject && agent.mode == Mode::Autonomous {
        on_hub.name = prefixed_project(&agent.name, &key.name)?;
    }
    Ok(on_hub)
}

/// How an agent names an object of its own towards the hub when both compare what they have.
pub fn reported_key(agent: &AgentSide, kind: Kind, local: &Value) -> Key {
    let mut key = Key::of(kind, local);
    if kind == Kind::Application && object::annotation(local, NAMESPACE_REMAPPED).is_some() {
        key.namespace.clone_from(&agent.hub_namespace);
    }
    key
}

/// The name of an autonomous agent's project on the hub.
pub(super) fn prefixed_project(agent: &str, project: &str) -> Result<String, Refusal> {
    let name = format!("{agent}-{project}");
    if name.len() > SUBDOMAIN_LEN_MAX {
        return Err(Refusal::new(
            Reason::Invalid,
            format!("project name {name:?} has more than {SUBDOMAIN_LEN_MAX} characters"),
        ));
    }
    Ok(name)
}

/// The name of a project of that autonomous agent at home.
pub fn unprefixed_project<'a>(agent: &str, project: &'a str) -> &'a str {
    project
        .strip_prefix(agent)
        .and_then(|rest| rest.strip_prefix('-'))
        .filter(|rest| !rest.is_empty())
        .unwrap_or(project)
}
