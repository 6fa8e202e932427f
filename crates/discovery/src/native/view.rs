//! What clients see.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;

use crate::backend::LocalService;
use crate::model::{Check, Index, Indexed, KvEntry, Status};
use crate::topic::{Instance, Row, TopicData};

/// An instance registered here.
#[derive(Debug, Serialize)]
pub(super) struct LocalView<'a> {
    id: &'a str,
    name: &'a str,
    address: &'a str,
    port: u16,
    tags: &'a [String],
    meta: &'a BTreeMap<String, String>,
    status: Status,
    in_step: bool,
}

impl<'a> LocalView<'a> {
    pub(super) fn new(local: &'a LocalService, status: Status) -> Self {
        let service = &local.service;
        Self {
            id: &service.id,
            name: &service.name,
            address: &service.address,
            port: service.port,
            tags: &service.tags,
            meta: &service.meta,
            status,
            in_step: local.in_step,
        }
    }
}

/// An instance anywhere.
#[derive(Debug, Serialize)]
struct InstanceView<'a> {
    id: &'a str,
    name: &'a str,
    node: &'a str,
    node_address: &'a str,
    address: &'a str,
    port: u16,
    tags: &'a [String],
    meta: &'a BTreeMap<String, String>,
    status: Status,
    create_index: Index,
    modify_index: Index,
}

/// How an instance is: as its worst check, its node's among them.
pub(super) fn status(it: &Instance) -> Status {
    it.checks.iter().map(|check| check.value.status).max().unwrap_or(Status::Passing)
}

/// The instances of a service.
pub(super) fn catalog_json(data: &TopicData, wanted: impl Fn(&Instance) -> bool) -> Bytes {
    let views = data.rows.iter().filter_map(|row| match row {
        Row::Instance(it) if wanted(it) => Some(InstanceView {
            id: &it.service.value.id,
            name: &it.service.value.name,
            node: &it.node.value.name,
            node_address: &it.node.value.address,
            address: match it.service.value.address.as_str() {
                "" => &it.node.value.address,
                own => own,
            },
            port: it.service.value.port,
            tags: &it.service.value.tags,
            meta: &it.service.value.meta,
            status: status(it),
            create_index: it.service.create_index,
            modify_index: it.service.modify_index,
        }),
        _ => None,
    });
    let views: Vec<_> = views.collect();
    serde_json::to_vec(&views).map(Bytes::from).unwrap_or_default()
}

/// A check.
#[derive(Debug, Serialize)]
pub(super) struct CheckView<'a> {
    id: &'a str,
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    status: Status,
    output: &'a str,
    notes: &'a str,
    service_id: &'a str,
    service_name: &'a str,
}

impl<'a> CheckView<'a> {
    pub(super) fn new(check: &'a Check) -> Self {
        Self {
            id: &check.id,
            name: &check.name,
            kind: &check.kind,
            status: check.status,
            output: &check.output,
            notes: &check.notes,
            service_id: &check.service_id,
            service_name: &check.service_name,
        }
    }
}

/// A key; a value that is no text is base64, and says so.
#[derive(Debug, Serialize)]
pub(super) struct KeyView<'a> {
    key: &'a str,
    value: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    create_index: Index,
    modify_index: Index,
    flags: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
}

impl<'a> KeyView<'a> {
    pub(super) fn new(entry: &'a Indexed<KvEntry>) -> Self {
        let (value, encoding) = match std::str::from_utf8(&entry.value.value) {
            Ok(text) => (text.into(), None),
            Err(_) => (STANDARD.encode(&entry.value.value).into(), Some("base64")),
        };
        Self {
            key: &entry.value.key,
            value,
            encoding,
            create_index: entry.create_index,
            modify_index: entry.modify_index,
            flags: entry.value.flags,
            session: entry.value.session.as_deref(),
        }
    }
}

/// The keys of a topic.
pub(super) fn keys(data: &TopicData) -> impl Iterator<Item = &Indexed<KvEntry>> {
    data.rows.iter().filter_map(|row| match row {
        Row::Key(entry) => Some(entry),
        _ => None,
    })
}
