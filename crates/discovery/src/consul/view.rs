//! The shapes Consul's clients see.

mod check;
mod kv;
mod node;
mod service;
mod session;

pub(super) use check::{CheckView, kind};
pub(super) use kv::{KvView, value_or_null};
pub(super) use node::NodeView;
pub(super) use service::{AgentServiceView, CatalogView, ServiceView};
pub(super) use session::{EventView, SessionView};

use std::collections::BTreeMap;

use serde::Serialize;

use crate::topic::Instance;

/// One instance with its node and checks: `health/service`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct HealthView<'a> {
    node: NodeView<'a>,
    service: ServiceView<'a>,
    checks: Vec<CheckView<'a>>,
}

impl<'a> HealthView<'a> {
    pub(super) fn new(instance: &'a Instance) -> Self {
        let node = instance.node.value.name.as_str();
        Self {
            node: NodeView::new(&instance.node),
            service: ServiceView::new(&instance.service),
            checks: instance.checks.iter().map(|check| CheckView::new(node, check)).collect(),
        }
    }
}

/// Go writes a map that was never made as null.
fn some_map<T>(map: &BTreeMap<String, T>) -> Option<&BTreeMap<String, T>> {
    Some(map).filter(|map| !map.is_empty())
}
