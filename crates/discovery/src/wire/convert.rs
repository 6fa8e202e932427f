//! Messages from and to what they mean.

mod packing;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thane_api::wire::discovery as wire;
use thane_api::wire::discovery::UpdateType;

use crate::command::{Batch, Item};
use crate::model::{Check, Definition, Index, Node, Service, ServiceAddress, Status, Weights};
use crate::topic::{Delta, Row, RowKey};

pub use packing::{
    packed, packed_batch, packed_report, packed_sync, unpacked, unpacked_batch, unpacked_report, unpacked_sync,
};

/// What of an instance has no field of its own.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct ServiceDetails {
    tagged_addresses: BTreeMap<String, ServiceAddress>,
    weights: Weights,
    enable_tag_override: bool,
}

/// What of a check has no field of its own.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct CheckDetails {
    name: String,
    notes: String,
    service_name: String,
    service_tags: Vec<String>,
    kind: String,
    definition: Definition,
}

/// What of a node has no field of its own.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct NodeDetails {
    id: String,
    tagged_addresses: BTreeMap<String, String>,
}

/// Details as they travel; what is as usual takes no room.
fn written<T: Serialize + Default + PartialEq>(details: &T) -> Bytes {
    if *details == T::default() {
        return Bytes::new();
    }
    serde_json::to_vec(details).map(Bytes::from).unwrap_or_default()
}

fn read<T: DeserializeOwned + Default>(details: &[u8]) -> Result<T, String> {
    if details.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(details).map_err(|error| format!("details cannot be read: {error}"))
}

/// An index on the wire, where it is signed.
pub fn index(index: i64) -> Index {
    u64::try_from(index).unwrap_or(0)
}

/// An index for the wire.
pub fn signed(index: Index) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

/// An instance, and the node it is on if that is known.
pub fn service(service: &Service, node: Option<&Node>) -> wire::Service {
    let details = ServiceDetails {
        tagged_addresses: service.tagged_addresses.clone(),
        weights: service.weights,
        enable_tag_override: service.enable_tag_override,
    };
    wire::Service {
        id: service.id.clone(),
        name: service.name.clone(),
        address: service.address.clone(),
        port: u32::from(service.port),
        tags: service.tags.clone(),
        meta: service.meta.clone().into_iter().collect(),
        node: node.map(|node| node.name.clone()).unwrap_or_default(),
        node_address: node.map(|node| node.address.clone()).unwrap_or_default(),
        details: written(&details),
    }
}

/// An instance from the wire.
pub fn service_from(service: wire::Service) -> Result<Service, String> {
    let details: ServiceDetails = read(&service.details)?;
    let port = u16::try_from(service.port).map_err(|_| format!("{} is no port", service.port))?;
    if service.name.is_empty() {
        return Err("Missing service name".to_owned());
    }
    Ok(Service {
        id: if service.id.is_empty() { service.name.clone() } else { service.id },
        name: service.name,
        tags: service.tags,
        address: service.address,
        port,
        tagged_addresses: details.tagged_addresses,
        meta: service.meta.into_iter().collect(),
        weights: details.weights,
        enable_tag_override: details.enable_tag_override,
    })
}

/// A check on a node.
pub fn check(kind: UpdateType, node: &str, check: &Check) -> wire::HealthUpdate {
    let details = CheckDetails {
        name: check.name.clone(),
        notes: check.notes.clone(),
        service_name: check.service_name.clone(),
        service_tags: check.service_tags.clone(),
        kind: check.kind.clone(),
        definition: check.definition.clone(),
    };
    wire::HealthUpdate {
        r#type: kind.into(),
        node: node.to_owned(),
        check_id: check.id.clone(),
        service_id: check.service_id.clone(),
        status: check.status.as_str().to_owned(),
        output: check.output.clone(),
        details: written(&details),
    }
}

/// A check from the wire.
pub fn check_from(update: wire::HealthUpdate) -> Result<Check, String> {
    let details: CheckDetails = read(&update.details)?;
    let status = match update.status.as_str() {
        "passing" => Status::Passing,
        "warning" => Status::Warning,
        "critical" => Status::Critical,
        other => return Err(format!("{other:?} is no status")),
    };
    if update.check_id.is_empty() {
        return Err("a check without id".to_owned());
    }
    Ok(Check {
        id: update.check_id,
        name: details.name,
        status,
        notes: details.notes,
        output: update.output,
        service_id: update.service_id,
        service_name: details.service_name,
        service_tags: details.service_tags,
        kind: details.kind,
        definition: details.definition,
    })
}

/// Who an agent says it is.
pub fn info(agent_id: &str, node: &Node) -> wire::AgentInfo {
    let details = NodeDetails { id: node.id.clone(), tagged_addresses: node.tagged_addresses.clone() };
    wire::AgentInfo {
        agent_id: agent_id.to_owned(),
        node_name: node.name.clone(),
        node_ip: node.address.clone(),
        datacenter: node.datacenter.clone(),
        metadata: node.meta.clone().into_iter().collect(),
        details: written(&details),
    }
}

/// The node an agent says it is on. Whose it is, is not for the agent to say.
pub fn node_from(info: wire::AgentInfo, owner: &str) -> Result<Node, String> {
    let details: NodeDetails = read(&info.details)?;
    if info.node_name.is_empty() {
        return Err("a node without name".to_owned());
    }
    Ok(Node {
        name: info.node_name,
        id: details.id,
        address: info.node_ip,
        datacenter: info.datacenter,
        tagged_addresses: details.tagged_addresses,
        meta: info.metadata.into_iter().collect(),
        owner: Some(owner.to_owned()),
    })
}

/// A batch as it travels, and where in the answer each item's result is: services come first there.
pub fn batch_request(agent_id: &str, batch: &Batch) -> (wire::BatchUpdateRequest, Vec<usize>) {
    let mut services = Vec::new();
    let mut checks = Vec::new();
    let mut places = Vec::with_capacity(batch.items.len());
    for item in &batch.items {
        match item {
            Item::Service(it) => {
                places.push((false, services.len()));
                services.push(wire::ServiceUpdate {
                    r#type: UpdateType::Update.into(),
                    service_name: it.name.clone(),
                    service_data: Some(service(it, None)),
                });
            }
            Item::NoService(id) => {
                places.push((false, services.len()));
                let data = wire::Service { id: id.clone(), ..wire::Service::default() };
                services.push(wire::ServiceUpdate {
                    r#type: UpdateType::Delete.into(),
                    service_name: String::new(),
                    service_data: Some(data),
                });
            }
            Item::Check(it) => {
                places.push((true, checks.len()));
                checks.push(check(UpdateType::Update, "", it));
            }
            Item::NoCheck(id) => {
                places.push((true, checks.len()));
                checks.push(no_check("", id));
            }
        }
    }
    let before = services.len();
    let order = places.into_iter().map(|(is_check, place)| if is_check { before + place } else { place }).collect();
    let request = wire::BatchUpdateRequest {
        agent_id: agent_id.to_owned(),
        sequence_number: signed(batch.sequence),
        incarnation: batch.incarnation.clone(),
        full: batch.full,
        services,
        checks,
        agent: Some(info(agent_id, &batch.node)),
        compressed_data: Bytes::new(),
    };
    (request, order)
}

/// Results in the order of the items again; as they came if they are not one for each.
pub fn in_order(results: Vec<wire::ItemResult>, order: &[usize]) -> Vec<wire::ItemResult> {
    if results.len() != order.len() {
        return results;
    }
    order.iter().filter_map(|place| results.get(*place).cloned()).collect()
}

/// How checks stand, as it travels.
pub fn health_report(agent_id: &str, batch: &Batch) -> wire::HealthReport {
    let checks = batch.items.iter().filter_map(|item| match item {
        Item::Check(it) => Some(check(UpdateType::Update, "", it)),
        Item::NoCheck(id) => Some(no_check("", id)),
        Item::Service(_) | Item::NoService(_) => None,
    });
    wire::HealthReport {
        agent_id: agent_id.to_owned(),
        sequence_number: signed(batch.sequence),
        incarnation: batch.incarnation.clone(),
        checks: checks.collect(),
        compressed_data: Bytes::new(),
    }
}

/// A check that is gone.
pub fn no_check(node: &str, id: &str) -> wire::HealthUpdate {
    wire::HealthUpdate {
        r#type: UpdateType::Delete.into(),
        node: node.to_owned(),
        check_id: id.to_owned(),
        ..wire::HealthUpdate::default()
    }
}

/// An item from the wire, or why it is none.
pub fn service_item(update: wire::ServiceUpdate) -> Result<Item, String> {
    let is_delete = update.r#type() == UpdateType::Delete;
    let data = update.service_data.ok_or("an update without its instance")?;
    if is_delete {
        return if data.id.is_empty() { Err("a removal without id".to_owned()) } else { Ok(Item::NoService(data.id)) };
    }
    service_from(data).map(|service| Item::Service(Box::new(service)))
}

/// An item from the wire, or why it is none.
pub fn check_item(update: wire::HealthUpdate) -> Result<Item, String> {
    if update.r#type() == UpdateType::Delete {
        let id = update.check_id;
        return if id.is_empty() { Err("a removal without id".to_owned()) } else { Ok(Item::NoCheck(id)) };
    }
    check_from(update).map(|check| Item::Check(Box::new(check)))
}

/// A delta from the wire, in the order everybody relies on.
pub fn delta(json: &[u8]) -> Result<Delta, String> {
    let delta: Delta = serde_json::from_slice(json).map_err(|error| format!("this is no delta: {error}"))?;
    let keys: Vec<RowKey> = delta.changed.iter().map(Row::key).collect();
    if keys.is_sorted_by(|a, b| a < b) && delta.removed.is_sorted() {
        return Ok(delta);
    }
    Err("a delta whose rows are out of order".to_owned())
}

#[cfg(test)]
mod tests;
