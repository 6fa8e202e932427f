//! Mirrors of an autonomous agent's objects on the hub, and the little that the hub may ask of the originals.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::copy::{fresh, local_note, overlaid, set_field, set_refresh};
use super::plan::{Plan, Precondition, Propagation, Reason, Refusal, refuse, replace};
use super::{Agent, AgentSide, HubSide, Mode, keys, operation};
use crate::object::{self, Key, Kind, LAST_UPDATED, OPERATION_ID, REFRESH, SOURCE_UID, map_mut, metadata_mut};

/// Resources of a project's policies that name Applications.
const POLICED: [&str; 4] = ["applications", "applicationsets", "logs", "exec"];

/// An autonomous agent's Application as the hub mirrors it, but for its destination: that is the hub's to know.
pub fn mirrored_application(agent: &str, app: &Value) -> Result<Value, Refusal> {
    let mut mirror = app.clone();
    let spec = map_mut(&mut mirror, "spec");
    let project = spec.get("project").and_then(Value::as_str).unwrap_or_default();
    let project = keys::prefixed_project(agent, project)?;
    spec.insert("project".to_owned(), Value::String(project));
    let resources = mirror.pointer_mut("/status/resources").and_then(Value::as_array_mut);
    for resource in resources.into_iter().flatten() {
        if resource["group"] == "argoproj.io" && resource["kind"] == "Application" {
            resource["namespace"] = json!(agent);
        }
    }
    Ok(mirror)
}

/// An autonomous agent's project as the hub mirrors it, under its name there.
pub fn mirrored_project(agent: &str, project: &Value) -> Result<Value, Refusal> {
    let old = object::name(project).to_owned();
    let new = keys::prefixed_project(agent, &old)?;
    let mut mirror = project.clone();
    metadata_mut(&mut mirror).insert("name".to_owned(), json!(new));
    let spec = map_mut(&mut mirror, "spec");
    spec.insert("sourceNamespaces".to_owned(), json!([agent]));
    for destination in spec.get_mut("destinations").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(destination) = destination {
            destination.insert("name".to_owned(), json!(agent));
            destination.insert("server".to_owned(), json!("*"));
        }
    }
    for role in spec.get_mut("roles").and_then(Value::as_array_mut).into_iter().flatten() {
        for policy in role.get_mut("policies").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(rewritten) = policy.as_str().and_then(|line| rewritten_policy(line, agent, &old, &new)) {
                *policy = Value::String(rewritten);
            }
        }
    }
    Ok(mirror)
}

/// Hub: what to write when an autonomous agent says how an Application is.
pub fn mirror_application(
    hub: &HubSide,
    agent: &Agent,
    incoming: &Value,
    existing: Option<&Value>,
    operation_delivered: bool,
    now: Timestamp,
) -> Plan {
    let key = match mirrored_key(hub, agent, Kind::Application, incoming) {
        Ok(key) => key,
        Err(refusal) => return refusal.into(),
    };
    if agent.cluster.is_empty() {
        return refuse(Reason::NoCluster, format!("the hub has no cluster secret for agent {}", agent.name));
    }
    let mut mirror = match mirrored_application(&agent.name, incoming) {
        Ok(mirror) => mirror,
        Err(refusal) => return refusal.into(),
    };
    if let Some(spec) = mirror.get_mut("spec") {
        let destination = map_mut(spec, "destination");
        destination.remove("server");
        destination.insert("name".to_owned(), json!(agent.cluster));
    }
    let stamp = now.to_string();
    let Some(existing) = existing else {
        set_field(&mut mirror, "operation", None);
        object::remove_annotation(&mut mirror, OPERATION_ID);
        return Plan::Create(made(Kind::Application, &key, &mirror, &stamp));
    };
    if !is_mirror_of(agent, Kind::Application, existing) {
        return not_a_mirror(agent, Kind::Application, existing);
    }
    written(existing, incoming, &stamp, || {
        let mut wanted = overlaid(&mirror, existing);
        set_field(&mut wanted, "spec", mirror.get("spec").cloned());
        set_field(&mut wanted, "status", mirror.get("status").filter(|status| !status.is_null()).cloned());
        set_refresh(&mut wanted, incoming);
        if object::source_uid(existing) == Some(object::uid(incoming)) {
            operation::merge(&mut wanted, existing, incoming, operation_delivered);
        } else {
            // What was asked of the one before was not asked of this one.
            operation::adopt(&mut wanted, incoming);
        }
        wanted
    })
}

/// Hub: what to write when an autonomous agent says how a project is.
pub fn mirror_project(
    hub: &HubSide,
    agent: &Agent,
    incoming: &Value,
    existing: Option<&Value>,
    now: Timestamp,
) -> Plan {
    let mirrored = mirrored_key(hub, agent, Kind::AppProject, incoming)
        .and_then(|key| Ok((key, mirrored_project(&agent.name, incoming)?)));
    let (key, mirror) = match mirrored {
        Ok(mirrored) => mirrored,
        Err(refusal) => return refusal.into(),
    };
    let stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let Some(existing) = existing else { return Plan::Create(made(Kind::AppProject, &key, &mirror, &stamp)) };
    if !is_mirror_of(agent, Kind::AppProject, existing) {
        return not_a_mirror(agent, Kind::AppProject, existing);
    }
    written(existing, incoming, &stamp, || {
        let mut wanted = overlaid(&mirror, existing);
        set_field(&mut wanted, "spec", mirror.get("spec").cloned());
        wanted
    })
}

/// Hub: what to write when an autonomous agent says that an object is gone.
pub fn mirror_delete(hub: &HubSide, agent: &Agent, kind: Kind, incoming: &Value, existing: Option<&Value>) -> Plan {
    if let Err(refusal) = mirror_key(hub, agent, kind, incoming) {
        return refusal.into();
    }
    let Some(existing) = existing else { return Plan::Nothing };
    if !is_mirror_of(agent, kind, existing) {
        return not_a_mirror(agent, kind, existing);
    }
    let gone = object::uid(incoming);
    if !gone.is_empty() && object::source_uid(existing) != Some(gone) {
        return Plan::Nothing;
    }
    released(existing)
}

/// Autonomous agent: what to write when the hub's mirror of an Application changed: a refresh, and an operation that came
/// along. Everything else is the agent's.
pub fn autonomous_application(agent: &AgentSide, incoming: &Value, event_id: &str, existing: Option<&Value>) -> Plan {
    if agent.mode != Mode::Autonomous {
        return refuse(Reason::WrongMode, "the agent is managed");
    }
    if let Err(refusal) = keys::key_of(Kind::Application, incoming).and_then(|key| keys::agent_key(agent, &key)) {
        return refusal.into();
    }
    let Some(existing) = existing else {
        return refuse(Reason::Missing, format!("Application {} is not here", object::name(incoming)));
    };
    if object::source_uid(incoming).is_some_and(|source| source != object::uid(existing)) {
        return refuse(
            Reason::OtherSource,
            format!("Application {} is not the one the hub means", object::name(incoming)),
        );
    }
    if object::is_ignored(existing) {
        return Plan::Nothing;
    }
    let mut wanted = existing.clone();
    if let Some(refresh) = local_note(incoming, REFRESH) {
        object::set_annotation(&mut wanted, REFRESH, refresh);
    }
    operation::set_carried(&mut wanted, existing, incoming, event_id);
    replace(existing, wanted)
}

/// The key of the mirror of an object that can be one.
fn mirrored_key(hub: &HubSide, agent: &Agent, kind: Kind, incoming: &Value) -> Result<Key, Refusal> {
    let key = mirror_key(hub, agent, kind, incoming)?;
    for (what, missing) in [("uid", object::uid(incoming).is_empty()), ("spec", !incoming["spec"].is_object())] {
        if missing {
            return Err(Refusal::new(Reason::Invalid, format!("{} {} has no {what}", kind.name(), key.name)));
        }
    }
    Ok(key)
}

fn mirror_key(hub: &HubSide, agent: &Agent, kind: Kind, incoming: &Value) -> Result<Key, Refusal> {
    if agent.mode != Mode::Autonomous {
        return Err(Refusal::new(Reason::WrongMode, format!("agent {} is managed", agent.name)));
    }
    if kind == Kind::Repository {
        return Err(Refusal::new(Reason::WrongMode, "repositories of autonomous agents are their own"));
    }
    let key = keys::key_of(kind, incoming)?;
    keys::hub_key(hub, agent, &key, false)
}

/// Whether what the hub has under the name of a mirror is this agent's. An Application is by its namespace; a project may
/// be another agent's whose name and the project's run together to the same.
fn is_mirror_of(agent: &Agent, kind: Kind, existing: &Value) -> bool {
    let agents = &existing["spec"]["sourceNamespaces"];
    object::source_uid(existing).is_some() && (kind != Kind::AppProject || *agents == json!([agent.name]))
}

fn not_a_mirror(agent: &Agent, kind: Kind, existing: &Value) -> Plan {
    let name = object::name(existing);
    refuse(Reason::NotYours, format!("{} {name} on the hub is not a mirror of agent {}", kind.name(), agent.name))
}

fn made(kind: Kind, key: &Key, mirror: &Value, stamp: &str) -> Value {
    let mut new = fresh(kind, mirror);
    let metadata = metadata_mut(&mut new);
    metadata.insert("name".to_owned(), json!(key.name));
    metadata.insert("namespace".to_owned(), json!(key.namespace));
    object::set_annotation(&mut new, SOURCE_UID, object::uid(mirror));
    object::set_annotation(&mut new, LAST_UPDATED, stamp);
    new
}

/// Writes a mirror that is there, stamped with the time if anything else changes.
fn written(existing: &Value, incoming: &Value, stamp: &str, wanted: impl FnOnce() -> Value) -> Plan {
    if object::is_deleting(existing) || object::is_ignored(existing) {
        return Plan::Nothing;
    }
    let mut wanted = wanted();
    object::set_annotation(&mut wanted, SOURCE_UID, object::uid(incoming));
    match object::annotation(existing, LAST_UPDATED) {
        Some(before) => object::set_annotation(&mut wanted, LAST_UPDATED, before),
        None => object::remove_annotation(&mut wanted, LAST_UPDATED),
    }
    match replace(existing, wanted) {
        Plan::Replace(mut wanted) => {
            object::set_annotation(&mut wanted, LAST_UPDATED, stamp);
            Plan::Replace(wanted)
        }
        plan => plan,
    }
}

/// Lets a mirror go: nothing on the hub would remove its finalizers.
fn released(existing: &Value) -> Plan {
    let mut wanted = existing.clone();
    metadata_mut(&mut wanted).remove("finalizers");
    match (replace(existing, wanted), object::is_deleting(existing)) {
        (plan, true) => plan,
        (Plan::Replace(wanted), false) => Plan::ReplaceThenDelete(wanted, Propagation::Foreground),
        (_, false) => Plan::Delete(Precondition::of(existing), Propagation::Foreground),
    }
}

/// A policy line for a project under its name on the hub, where Applications are named with their namespace.
fn rewritten_policy(line: &str, agent: &str, old: &str, new: &str) -> Option<String> {
    let mut parts: Vec<String> = line.split(',').map(|part| part.trim().to_owned()).collect();
    let [kind, subject, resource, _, object, ..] = parts.as_mut_slice() else { return None };
    let role = subject.strip_prefix("proj:")?.strip_prefix(old)?.strip_prefix(':')?;
    if kind != "p" {
        return None;
    }
    let renamed = object.strip_prefix(old).and_then(|rest| rest.strip_prefix('/')).map(|rest| {
        if POLICED.contains(&resource.as_str()) {
            let app = rest.rsplit('/').next().unwrap_or(rest);
            format!("{new}/{agent}/{app}")
        } else {
            format!("{new}/{rest}")
        }
    });
    *subject = format!("proj:{new}:{role}");
    if let Some(renamed) = renamed {
        *object = renamed;
    }
    Some(parts.join(", "))
}
