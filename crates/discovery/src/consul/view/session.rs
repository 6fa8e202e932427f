//! Sessions and events.

use serde::Serialize;

use super::value_or_null;
use crate::decode::duration;
use crate::model::{Behavior, Index, Indexed, Session, UserEvent};

/// A session.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::consul) struct SessionView<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    name: &'a str,
    node: &'a str,
    lock_delay: u64,
    behavior: &'static str,
    #[serde(rename = "TTL")]
    ttl: String,
    node_checks: &'a [String],
    service_checks: Option<Vec<ServiceCheckView<'a>>>,
    create_index: Index,
    modify_index: Index,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ServiceCheckView<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    namespace: &'static str,
}

impl<'a> SessionView<'a> {
    pub(in crate::consul) fn new(session: &'a Indexed<Session>) -> Self {
        let value = session.value.as_ref();
        let checks = value.service_checks.iter().map(|id| ServiceCheckView { id, namespace: "" }).collect::<Vec<_>>();
        Self {
            id: &value.id,
            name: &value.name,
            node: &value.node,
            lock_delay: u64::try_from(value.lock_delay.as_nanos()).unwrap_or(u64::MAX),
            behavior: match value.behavior {
                Behavior::Release => "release",
                Behavior::Delete => "delete",
            },
            ttl: value.ttl.map(duration::print).unwrap_or_default(),
            node_checks: &value.node_checks,
            service_checks: Some(checks).filter(|checks| !checks.is_empty()),
            create_index: session.create_index,
            modify_index: session.modify_index,
        }
    }
}

/// A user's event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::consul) struct EventView<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    name: &'a str,
    payload: Option<String>,
    node_filter: &'a str,
    service_filter: &'a str,
    tag_filter: &'a str,
    version: u32,
    #[serde(rename = "LTime")]
    ltime: u64,
}

impl<'a> EventView<'a> {
    pub(in crate::consul) fn new(event: &'a UserEvent) -> Self {
        Self {
            id: &event.id,
            name: &event.name,
            payload: value_or_null(&event.payload),
            node_filter: &event.node_filter,
            service_filter: &event.service_filter,
            tag_filter: &event.tag_filter,
            version: 1,
            ltime: event.ltime,
        }
    }
}
