//! Which agents get a project, and what they get of it.

use serde_json::{Value, json};

use super::{HubSide, Pattern, Placement};
use crate::object::{self, LAST_APPLIED, map_mut};

/// Whether an agent gets a project: none of its destinations denies the agent, one of them names it, and by namespace
/// the agent is one of its source namespaces.
pub fn project_goes_to(hub: &HubSide, project: &Value, agent: &str) -> bool {
    let spec = &project["spec"];
    let destinations = spec["destinations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let denied = destinations
        .iter()
        .filter_map(|destination| destination["name"].as_str()?.strip_prefix('!'))
        .any(|denied| Pattern::glob(denied).matches(agent));
    !denied
        && destinations.iter().any(|destination| destination_names(destination, agent))
        && (hub.placement == Placement::Destination
            || spec["sourceNamespaces"].as_array().is_some_and(|sources| {
                sources.iter().filter_map(Value::as_str).any(|source| Pattern::new(source).matches(agent))
            }))
}

/// The project as an agent gets it: its destinations are the agent's own cluster, and nothing that only the hub decides.
pub fn project_for_agent(hub: &HubSide, project: &Value, agent: &str) -> Value {
    let mut copy = project.clone();
    object::metadata_mut(&mut copy).remove("managedFields");
    object::remove_annotation(&mut copy, LAST_APPLIED);
    if let Value::Object(fields) = &mut copy {
        fields.remove("status");
    }
    let spec = map_mut(&mut copy, "spec");
    let destinations = spec.get("destinations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let own: Vec<Value> = destinations
        .iter()
        .filter(|destination| destination_names(destination, agent))
        .map(|destination| {
            let mut own = destination.clone();
            own["name"] = json!("in-cluster");
            own["server"] = json!("https://kubernetes.default.svc");
            own
        })
        .collect();
    spec.insert("destinations".to_owned(), Value::Array(own));
    if hub.placement == Placement::Namespace {
        spec.remove("sourceNamespaces");
    }
    // Go leaves an empty list of roles out.
    spec.remove("roles");
    copy
}

fn destination_names(destination: &Value, agent: &str) -> bool {
    let name = destination["name"].as_str().unwrap_or_default();
    if !name.is_empty() {
        return Pattern::glob(name).matches(agent);
    }
    match destination["server"].as_str() {
        None | Some("") => false,
        Some("*") => true,
        Some(server) => {
            agent_name_in(server).is_some_and(|glob| !glob.is_empty() && Pattern::glob(glob).matches(agent))
        }
    }
}

/// The `agentName` in the query of a cluster's address.
fn agent_name_in(server: &str) -> Option<String> {
    let (_, query) = server.split('#').next()?.split_once('?')?;
    let pair = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == "agentName")?;
    decoded(pair.1)
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}
