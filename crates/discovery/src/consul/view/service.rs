//! An instance of a service, in each of its three shapes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::some_map;
use crate::model::{Index, Indexed, Service, ServiceAddress, Weights};
use crate::topic::Instance;

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AddressView<'a> {
    address: &'a str,
    port: u16,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct WeightsView {
    passing: u32,
    warning: u32,
}

/// Nothing is proxied here, and clients expect to be told.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ProxyView {
    mode: &'static str,
    mesh_gateway: Nothing,
    expose: Nothing,
}

#[derive(Debug, Default, Serialize)]
struct Nothing {}

type Addresses<'a> = BTreeMap<&'a str, AddressView<'a>>;

fn addresses(all: &BTreeMap<String, ServiceAddress>) -> Addresses<'_> {
    all.iter().map(|(label, one)| (label.as_str(), AddressView { address: &one.address, port: one.port })).collect()
}

fn weights(weights: Weights) -> WeightsView {
    WeightsView { passing: weights.passing, warning: weights.warning }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(port: &u16) -> bool {
    *port == 0
}

/// An instance within `health/service` and `catalog/node`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::consul) struct ServiceView<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    service: &'a str,
    tags: Option<&'a [String]>,
    address: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tagged_addresses: Addresses<'a>,
    meta: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "is_zero")]
    port: u16,
    weights: WeightsView,
    enable_tag_override: bool,
    proxy: ProxyView,
    connect: Nothing,
    peer_name: &'static str,
    create_index: Index,
    modify_index: Index,
}

impl<'a> ServiceView<'a> {
    pub(in crate::consul) fn new(service: &'a Indexed<Service>) -> Self {
        let value = service.value.as_ref();
        Self {
            id: &value.id,
            service: &value.name,
            tags: Some(&value.tags),
            address: &value.address,
            tagged_addresses: addresses(&value.tagged_addresses),
            meta: some_map(&value.meta),
            port: value.port,
            weights: weights(value.weights),
            enable_tag_override: value.enable_tag_override,
            proxy: ProxyView::default(),
            connect: Nothing {},
            peer_name: "",
            create_index: service.create_index,
            modify_index: service.modify_index,
        }
    }

    /// The same with tags that were never given as null: transactions answer so.
    pub(in crate::consul) fn in_transaction(service: &'a Indexed<Service>) -> Self {
        let view = Self::new(service);
        Self { tags: view.tags.filter(|tags| !tags.is_empty()), ..view }
    }
}

/// An instance with its node in one: `catalog/service`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::consul) struct CatalogView<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    node: &'a str,
    address: &'a str,
    datacenter: &'a str,
    tagged_addresses: Option<&'a BTreeMap<String, String>>,
    node_meta: Option<&'a BTreeMap<String, String>>,
    service_kind: &'static str,
    #[serde(rename = "ServiceID")]
    service_id: &'a str,
    service_name: &'a str,
    service_tags: &'a [String],
    service_address: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    service_tagged_addresses: Addresses<'a>,
    service_weights: WeightsView,
    service_meta: &'a BTreeMap<String, String>,
    service_port: u16,
    service_ports: Option<()>,
    service_socket_path: &'static str,
    service_enable_tag_override: bool,
    service_proxy: ProxyView,
    service_connect: Nothing,
    service_locality: Option<()>,
    create_index: Index,
    modify_index: Index,
}

impl<'a> CatalogView<'a> {
    pub(in crate::consul) fn new(instance: &'a Instance) -> Self {
        let (node, service) = (instance.node.value.as_ref(), instance.service.value.as_ref());
        Self {
            id: &node.id,
            node: &node.name,
            address: &node.address,
            datacenter: &node.datacenter,
            tagged_addresses: some_map(&node.tagged_addresses),
            node_meta: some_map(&node.meta),
            service_kind: "",
            service_id: &service.id,
            service_name: &service.name,
            service_tags: &service.tags,
            service_address: &service.address,
            service_tagged_addresses: addresses(&service.tagged_addresses),
            service_weights: weights(service.weights),
            service_meta: &service.meta,
            service_port: service.port,
            service_ports: None,
            service_socket_path: "",
            service_enable_tag_override: service.enable_tag_override,
            service_proxy: ProxyView::default(),
            service_connect: Nothing {},
            service_locality: None,
            create_index: instance.service.create_index,
            modify_index: instance.service.modify_index,
        }
    }
}

/// An instance as its own agent shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::consul) struct AgentServiceView<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    service: &'a str,
    tags: &'a [String],
    meta: &'a BTreeMap<String, String>,
    port: u16,
    address: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tagged_addresses: Addresses<'a>,
    weights: WeightsView,
    enable_tag_override: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    content_hash: &'a str,
    datacenter: &'a str,
}

impl<'a> AgentServiceView<'a> {
    pub(in crate::consul) fn new(service: &'a Service, datacenter: &'a str) -> Self {
        Self {
            id: &service.id,
            service: &service.name,
            tags: &service.tags,
            meta: &service.meta,
            port: service.port,
            address: &service.address,
            tagged_addresses: addresses(&service.tagged_addresses),
            weights: weights(service.weights),
            enable_tag_override: service.enable_tag_override,
            content_hash: "",
            datacenter,
        }
    }

    /// The same with a hash of itself.
    pub(in crate::consul) fn with_hash(self, content_hash: &'a str) -> Self {
        Self { content_hash, ..self }
    }
}
