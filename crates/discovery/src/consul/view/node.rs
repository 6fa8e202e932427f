//! A node.

use std::collections::BTreeMap;

use serde::Serialize;

use super::some_map;
use crate::model::{Index, Indexed, Node};

/// A node as the catalog lists it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::consul) struct NodeView<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    node: &'a str,
    address: &'a str,
    datacenter: &'a str,
    tagged_addresses: Option<&'a BTreeMap<String, String>>,
    meta: Option<&'a BTreeMap<String, String>>,
    create_index: Index,
    modify_index: Index,
}

impl<'a> NodeView<'a> {
    pub(in crate::consul) fn new(node: &'a Indexed<Node>) -> Self {
        let value = node.value.as_ref();
        Self {
            id: &value.id,
            node: &value.name,
            address: &value.address,
            datacenter: &value.datacenter,
            tagged_addresses: some_map(&value.tagged_addresses),
            meta: some_map(&value.meta),
            create_index: node.create_index,
            modify_index: node.modify_index,
        }
    }
}
