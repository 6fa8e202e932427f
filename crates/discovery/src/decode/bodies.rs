//! The bodies, one by one.

use std::time::Duration;

use crate::command::{Deregistration, Refusal, Registration};
use crate::model::{Behavior, Check, Node, Service, Session, Status};

use super::fields::Fields;
use super::json::{self, Json};
use super::shape::{self, Shape};
use super::{AGENT_CHECK, check as checks, duration, shapes, validate};

/// What a session's lock delay is where none is given.
const LOCK_DELAY: Duration = Duration::from_secs(15);
/// Lock delays below are seconds, not nanoseconds.
const LOCK_DELAY_NANOS_MIN: i64 = 1000;
const TTL_MIN: Duration = Duration::from_secs(10);
const TTL_MAX: Duration = Duration::from_hours(24);

/// `agent/service/register`: an instance and its checks with their ids, names and first status.
pub fn service(body: &[u8]) -> Result<(Service, Vec<Check>), Refusal> {
    let value = read(body, &shapes::SERVICE)?;
    let fields = Fields::of(&value);
    let name = fields.text(&["Name"]);
    if name.is_empty() {
        return invalid("Missing service name");
    }
    if validate::any_address(&fields.text(&["Address"])) {
        return invalid("Invalid service address");
    }
    let given = fields.text(&["ID"]);
    let id = if given.is_empty() { name.clone() } else { given };
    let mut service = validate::service(fields, id, name).map_err(because("Validation failed"))?;
    service.weights = validate::weights(fields).map_err(because("Invalid Weights"))?;
    validate::meta(&service.meta).map_err(because("Invalid Service Meta"))?;
    let checks = service_checks(fields, &service)?;
    Ok((service, checks))
}

fn service_checks(fields: Fields<'_>, service: &Service) -> Result<Vec<Check>, Refusal> {
    let single = fields.object("Check").filter(|check| !blank(*check));
    let all: Vec<Fields<'_>> = single.into_iter().chain(fields.objects("Checks")).collect();
    let mut made = Vec::with_capacity(all.len());
    for (position, fields) in all.iter().enumerate() {
        let definition = checks::definition(*fields);
        checks::validate(*fields, &definition).map_err(because("Invalid check"))?;
        let Some(status) = checks::status(&fields.text(&["Status"])) else {
            return invalid("Status for checks must 'passing', 'warning', 'critical'");
        };
        let id = match fields.text(&["CheckID"]) {
            given if !given.is_empty() => given,
            _ if all.len() > 1 => format!("service:{}:{}", service.id, position + 1),
            _ => format!("service:{}", service.id),
        };
        let name = match fields.text(&["Name"]) {
            given if !given.is_empty() => given,
            _ => format!("Service '{}' check", service.name),
        };
        made.push(Check {
            id,
            name,
            status,
            notes: fields.text(&["Notes"]),
            output: String::new(),
            service_id: service.id.clone(),
            service_name: service.name.clone(),
            service_tags: service.tags.clone(),
            kind: checks::kind(&definition).to_owned(),
            definition: definition.into(),
        });
    }
    Ok(made)
}

/// Whether a check says nothing at all; such are left out, as Consul does.
fn blank(fields: Fields<'_>) -> bool {
    checks::definition(fields) == crate::model::CheckDefinition::default()
        && ["CheckID", "Name", "Status", "Notes", "H2PING", "UDP", "OSService", "DockerContainerID", "Shell"]
            .iter()
            .all(|key| fields.text(&[key]).is_empty())
}

/// `agent/check/register`: a check of the node, or of the service it names; that this exists is not known here.
pub fn check(body: &[u8]) -> Result<Check, Refusal> {
    let value = read(body, &shapes::CHECK)?;
    let fields = Fields::of(&value);
    let name = fields.text(&["Name"]);
    if name.is_empty() {
        return invalid("Missing check name");
    }
    let Some(status) = checks::status(&fields.text(&["Status"])) else {
        return invalid("Bad check status");
    };
    let definition = checks::definition(fields);
    checks::validate(fields, &definition).map_err(because("Invalid check"))?;
    let id = fields.text(&["ID"]);
    Ok(Check {
        id: if id.is_empty() { name.clone() } else { id },
        name,
        status,
        notes: fields.text(&["Notes"]),
        output: String::new(),
        service_id: fields.text(&["ServiceID", "service_id"]),
        service_name: String::new(),
        service_tags: Vec::new(),
        kind: checks::kind(&definition).to_owned(),
        definition: definition.into(),
    })
}

/// `agent/check/update`: what a TTL check is told.
pub fn check_update(body: &[u8]) -> Result<(Status, String), Refusal> {
    let value = read(body, &shapes::CHECK_UPDATE)?;
    let fields = Fields::of(&value);
    let word = fields.text(&["Status"]);
    match checks::status(&word).filter(|_| !word.is_empty()) {
        Some(status) => Ok((status, fields.text(&["Output"]))),
        None => invalid(&format!("Invalid check status: '{word}'")),
    }
}

/// `catalog/register`; the node's datacenter is empty where the body does not say it.
pub fn register(body: &[u8]) -> Result<Registration, Refusal> {
    let value = read(body, &shapes::REGISTER).map_err(enterprise)?;
    let fields = Fields::of(&value);
    if !fields.text(&["PeerName"]).is_empty() {
        return failed("cannot register requests with PeerName in them");
    }
    let keep_node = fields.flag(&["SkipNodeUpdate"]);
    let node = node(fields, "NodeMeta");
    if node.name.is_empty() {
        return failed("Must provide node");
    }
    if !node.id.is_empty() && uuid::Uuid::try_parse(&node.id).is_err() {
        return failed("Bad node ID: uuid string is wrong length");
    }
    if node.address.is_empty() && !keep_node {
        return failed("Must provide address if SkipNodeUpdate is not set");
    }
    let service = fields.object("Service").map(catalog_service).transpose()?;
    let mut all = Vec::new();
    for fields in fields.objects("Checks").chain(fields.object("Check")) {
        let (on, check) = checks::health(fields).map_err(Refusal::Invalid)?;
        if !on.is_empty() && !on.eq_ignore_ascii_case(&node.name) {
            return failed(&format!("check node {on:?} does not match node {:?}", node.name));
        }
        all.push(check);
    }
    Ok(Registration { node, keep_node, service, checks: all })
}

/// A service as the catalog is told about it.
pub(super) fn catalog_service(fields: Fields<'_>) -> Result<Service, Refusal> {
    let (id, name) = (fields.text(&["ID"]), fields.text(&["Service"]));
    if name.is_empty() {
        return failed(if id.is_empty() {
            "service name (Service.Service) is required; both Service ID (Service.ID) and Service Name cannot be empty"
        } else {
            "Must provide service name (Service.Service) when service ID is provided"
        });
    }
    if validate::any_address(&fields.text(&["Address"])) {
        return failed("Invalid service address");
    }
    let id = if id.is_empty() { name.clone() } else { id };
    let mut service = validate::service(fields, id, name).map_err(Refusal::Failed)?;
    service.weights = validate::weights(fields).map_err(Refusal::Failed)?;
    Ok(service)
}

/// A node; the catalog and transactions have its labels under different keys.
pub(super) fn node(fields: Fields<'_>, meta: &str) -> Node {
    Node {
        name: fields.text(&["Node"]),
        id: fields.text(&["ID"]).to_ascii_lowercase(),
        address: fields.text(&["Address"]),
        datacenter: fields.text(&["Datacenter"]),
        tagged_addresses: fields.text_map("TaggedAddresses"),
        meta: fields.text_map(meta),
        owner: None,
    }
}

/// `catalog/deregister`, and the datacenter the body names, empty where it names none.
pub fn deregister(body: &[u8]) -> Result<(Deregistration, String), Refusal> {
    let value = read(body, &shapes::DEREGISTER).map_err(enterprise)?;
    let fields = Fields::of(&value);
    let node = fields.text(&["Node"]);
    if node.is_empty() {
        return failed("Must provide node");
    }
    let some = |text: String| (!text.is_empty()).then_some(text);
    let what = Deregistration {
        node,
        service_id: some(fields.text(&["ServiceID"])),
        check_id: some(fields.text(&["CheckID"])),
    };
    Ok((what, fields.text(&["Datacenter"])))
}

/// `session/create` on `node` unless the body names another; without id. No body is a body that says nothing.
pub fn session(body: &[u8], node: &str) -> Result<Session, Refusal> {
    let value = if body.is_empty() { Json::Null } else { read(body, &shapes::SESSION).map_err(enterprise)? };
    let fields = Fields::of(&value);
    let named = fields.text(&["Node"]);
    let behavior = match fields.text(&["Behavior"]).as_str() {
        "" | "release" => Behavior::Release,
        "delete" => Behavior::Delete,
        other => return failed(&format!("Invalid Behavior setting '{other}'")),
    };
    let lock_delay = match fields.nanos(&["LockDelay"]) {
        _ if fields.get("LockDelay").is_none() => LOCK_DELAY,
        low if low < LOCK_DELAY_NANOS_MIN => duration::positive(low.saturating_mul(1_000_000_000)),
        nanos => duration::positive(nanos),
    };
    Ok(Session {
        id: String::new(),
        name: fields.text(&["Name"]),
        node: if named.is_empty() { node.to_owned() } else { named },
        lock_delay,
        behavior,
        ttl: session_ttl(&fields.text(&["TTL"]))?,
        node_checks: session_checks(fields),
        service_checks: fields.objects("ServiceChecks").map(|check| check.text(&["ID"])).collect(),
    })
}

fn session_ttl(text: &str) -> Result<Option<Duration>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    let nanos = match duration::nanos(text) {
        Ok(nanos) => nanos,
        Err(error) => return failed(&format!("Session TTL '{text}' invalid: {error}")),
    };
    let ttl = duration::positive(nanos);
    if nanos == 0 {
        return Ok(None);
    }
    if nanos < 0 || ttl < TTL_MIN || ttl > TTL_MAX {
        let (low, high) = (duration::print(TTL_MIN), duration::print(TTL_MAX));
        return failed(&format!("Invalid Session TTL '{nanos}', must be between [{low}={high}]"));
    }
    Ok(Some(ttl))
}

/// `Checks` is the older name of `NodeChecks`; an empty list of either takes the agent's own check away.
fn session_checks(fields: Fields<'_>) -> Vec<String> {
    let own = || vec![AGENT_CHECK.to_owned()];
    let older = fields.get("Checks").map_or_else(own, |_| fields.texts(&["Checks"]));
    if older.is_empty() {
        return Vec::new();
    }
    let newer = fields.get("NodeChecks").map_or_else(own, |_| fields.texts(&["NodeChecks"]));
    if newer.is_empty() || older == own() {
        return newer;
    }
    let extra: Vec<String> = older.into_iter().filter(|check| !newer.contains(check)).collect();
    newer.into_iter().chain(extra).collect()
}

fn read(body: &[u8], shape: &Shape) -> Result<Json, Refusal> {
    let read = json::parse(body).and_then(|value| shape::check(&value, shape).map(|()| value));
    read.map_err(because("Request decode failed"))
}

/// What is Enterprise's is said to be.
fn enterprise(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Invalid(text) if text.ends_with("json: unknown field \"Namespace\"") => {
            Refusal::Invalid(format!("{text} - Namespaces are a Consul Enterprise feature"))
        }
        other => other,
    }
}

fn because(what: &'static str) -> impl Fn(String) -> Refusal {
    move |why| Refusal::Invalid(format!("{what}: {why}"))
}

fn invalid<T>(text: &str) -> Result<T, Refusal> {
    Err(Refusal::Invalid(text.to_owned()))
}

/// What Consul finds out only at its leader is a 500.
fn failed<T>(text: &str) -> Result<T, Refusal> {
    Err(Refusal::Failed(text.to_owned()))
}
