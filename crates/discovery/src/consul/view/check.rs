//! A check, and how it is run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::decode::duration;
use crate::model::{Check, CheckDefinition, Index, Indexed};

/// A check as catalog and health list it.
///
/// Who runs a check is told by its kind: an agent names it, and shows interval and timeout but not the rest; of checks
/// from `catalog/register` nobody knows more than what was registered, and that is shown whole.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::consul) struct CheckView<'a> {
    node: &'a str,
    #[serde(rename = "CheckID")]
    check_id: &'a str,
    name: &'a str,
    status: &'static str,
    notes: &'a str,
    output: &'a str,
    #[serde(rename = "ServiceID")]
    service_id: &'a str,
    service_name: &'a str,
    service_tags: Option<&'a [String]>,
    #[serde(rename = "Type")]
    kind: &'a str,
    interval: String,
    timeout: String,
    exposed_port: u16,
    definition: DefinitionView<'a>,
    create_index: Index,
    modify_index: Index,
}

impl<'a> CheckView<'a> {
    pub(in crate::consul) fn new(node: &'a str, check: &'a Indexed<Check>) -> Self {
        Self { create_index: check.create_index, modify_index: check.modify_index, ..Self::local(node, &check.value) }
    }

    /// The same with tags that were never given as null: transactions answer so.
    pub(in crate::consul) fn in_transaction(node: &'a str, check: &'a Indexed<Check>) -> Self {
        let view = Self::new(node, check);
        Self { service_tags: view.service_tags.filter(|tags| !tags.is_empty()), ..view }
    }

    /// A check as its own agent shows it.
    pub(in crate::consul) fn local(node: &'a str, check: &'a Check) -> Self {
        let run_here = !check.kind.is_empty();
        let shown = |time: Duration| if run_here { nonzero(time) } else { String::new() };
        Self {
            node,
            check_id: &check.id,
            name: &check.name,
            status: check.status.as_str(),
            notes: &check.notes,
            output: &check.output,
            service_id: &check.service_id,
            service_name: &check.service_name,
            service_tags: Some(&check.service_tags),
            kind: if run_here { &check.kind } else { kind(&check.definition) },
            interval: shown(check.definition.interval),
            timeout: shown(check.definition.timeout),
            exposed_port: 0,
            definition: if run_here { DefinitionView::default() } else { DefinitionView::new(&check.definition) },
            create_index: 0,
            modify_index: 0,
        }
    }
}

/// How a check is run; what is not set is left out.
#[expect(clippy::struct_excessive_bools, reason = "Consul's clients read them one by one")]
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::consul) struct DefinitionView<'a> {
    #[serde(skip_serializing_if = "String::is_empty")]
    interval: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    timeout: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    deregister_critical_service_after: String,
    #[serde(rename = "HTTP", skip_serializing_if = "str::is_empty")]
    http: &'a str,
    #[serde(rename = "TLSServerName", skip_serializing_if = "str::is_empty")]
    tls_server_name: &'a str,
    #[serde(rename = "TLSSkipVerify", skip_serializing_if = "is_false")]
    tls_skip_verify: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<&'a BTreeMap<String, Vec<String>>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    method: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    body: &'a str,
    #[serde(rename = "TCP", skip_serializing_if = "str::is_empty")]
    tcp: &'a str,
    #[serde(rename = "TCPUseTLS", skip_serializing_if = "is_false")]
    tcp_use_tls: bool,
    #[serde(rename = "UDP", skip_serializing_if = "str::is_empty")]
    udp: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    script_args: &'a [String],
    #[serde(rename = "H2PING", skip_serializing_if = "str::is_empty")]
    h2ping: &'a str,
    #[serde(rename = "H2PingUseTLS", skip_serializing_if = "is_false")]
    h2ping_use_tls: bool,
    #[serde(rename = "GRPC", skip_serializing_if = "str::is_empty")]
    grpc: &'a str,
    #[serde(rename = "GRPCUseTLS", skip_serializing_if = "is_false")]
    grpc_use_tls: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    alias_node: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    alias_service: &'a str,
    #[serde(rename = "TTL", skip_serializing_if = "is_zero")]
    ttl: u64,
}

impl<'a> DefinitionView<'a> {
    pub(in crate::consul) fn new(definition: &'a CheckDefinition) -> Self {
        Self {
            interval: nonzero(definition.interval),
            timeout: nonzero(definition.timeout),
            deregister_critical_service_after: nonzero(definition.deregister_after),
            http: &definition.http,
            tls_server_name: &definition.tls_server_name,
            tls_skip_verify: definition.tls_skip_verify,
            header: Some(&definition.header).filter(|header| !header.is_empty()),
            method: &definition.method,
            body: &definition.body,
            tcp: &definition.tcp,
            tcp_use_tls: definition.tcp_use_tls,
            udp: &definition.udp,
            script_args: &definition.args,
            h2ping: &definition.h2ping,
            h2ping_use_tls: definition.h2ping_use_tls,
            grpc: &definition.grpc,
            grpc_use_tls: definition.grpc_use_tls,
            alias_node: &definition.alias_node,
            alias_service: &definition.alias_service,
            ttl: u64::try_from(definition.ttl.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

/// The kind that a definition makes.
pub(in crate::consul) fn kind(definition: &CheckDefinition) -> &'static str {
    if !definition.grpc.is_empty() && !definition.interval.is_zero() {
        "grpc"
    } else if !definition.http.is_empty() && !definition.interval.is_zero() {
        "http"
    } else if !definition.ttl.is_zero() {
        "ttl"
    } else if !definition.tcp.is_empty() && !definition.interval.is_zero() {
        "tcp"
    } else if !definition.udp.is_empty() && !definition.interval.is_zero() {
        "udp"
    } else if !definition.alias_node.is_empty() || !definition.alias_service.is_empty() {
        "alias"
    } else if !definition.args.is_empty() {
        "script"
    } else if !definition.h2ping.is_empty() && !definition.interval.is_zero() {
        "h2ping"
    } else {
        ""
    }
}

fn nonzero(time: Duration) -> String {
    if time.is_zero() { String::new() } else { duration::print(time) }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}
