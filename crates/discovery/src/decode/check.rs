//! Checks: how they are run, and whether that makes sense.

use crate::model::{Check, CheckDefinition, Status};

use super::fields::Fields;

/// Older spellings after the newer ones.
const ARGS: &[&str] = &["ScriptArgs", "args", "script_args"];
const DEREGISTER: &[&str] = &["DeregisterCriticalServiceAfter", "deregister_critical_service_after"];

/// How a check is run, from any body that says so.
pub(super) fn definition(fields: Fields<'_>) -> CheckDefinition {
    let count = |key| u32::try_from(fields.int(key)).unwrap_or(0);
    let h2ping = fields.text(&["H2PING"]);
    CheckDefinition {
        http: fields.text(&["HTTP"]),
        method: fields.text(&["Method"]),
        header: fields.headers("Header"),
        body: fields.text(&["Body"]),
        disable_redirects: fields.flag(&["DisableRedirects", "disable_redirects"]),
        tls_skip_verify: fields.flag(&["TLSSkipVerify", "tls_skip_verify"]),
        tls_server_name: fields.text(&["TLSServerName", "tls_server_name"]),
        tcp: fields.text(&["TCP"]),
        tcp_use_tls: fields.flag(&["TCPUseTLS", "tcp_use_tls"]),
        udp: fields.text(&["UDP"]),
        grpc: fields.text(&["GRPC"]),
        grpc_use_tls: fields.flag(&["GRPCUseTLS", "grpc_use_tls"]),
        h2ping_use_tls: !h2ping.is_empty() && !fields.denied(&["H2PingUseTLS", "h2ping_use_tls"]),
        h2ping,
        args: fields.texts(ARGS),
        alias_node: fields.text(&["AliasNode"]),
        alias_service: fields.text(&["AliasService"]),
        interval: fields.duration(&["Interval"]),
        timeout: fields.duration(&["Timeout"]),
        ttl: fields.duration(&["TTL"]),
        deregister_after: fields.duration(DEREGISTER),
        success_before_passing: count("SuccessBeforePassing"),
        failures_before_warning: count("FailuresBeforeWarning"),
        failures_before_critical: count("FailuresBeforeCritical"),
        output_max_size: count("OutputMaxSize"),
    }
}

/// Whether a check can be run so; Consul's words where not.
pub(super) fn validate(fields: Fields<'_>, definition: &CheckDefinition) -> Result<(), String> {
    let foreign = foreign(fields);
    let asks = !definition.args.is_empty()
        || !definition.http.is_empty()
        || !definition.tcp.is_empty()
        || !definition.udp.is_empty()
        || !definition.grpc.is_empty()
        || !definition.h2ping.is_empty()
        || foreign.is_some_and(|(name, _)| name != "DockerContainerID");
    let alias = !definition.alias_node.is_empty() || !definition.alias_service.is_empty();
    let (interval, ttl) = (!definition.interval.is_zero(), !definition.ttl.is_zero());
    let complaint = if interval && ttl {
        "Interval and TTL cannot both be specified"
    } else if asks && !interval {
        "Interval must be > 0 for Script, HTTP, H2PING, TCP, UDP or OSService checks"
    } else if asks && alias {
        "Interval cannot be set for Alias checks"
    } else if alias && ttl {
        "TTL must be not be set for Alias checks"
    } else if !asks && !alias && !ttl {
        "TTL must be > 0 for TTL checks"
    } else if fields.int("OutputMaxSize") < 0 {
        "MaxOutputMaxSize must be positive"
    } else if fields.int("FailuresBeforeWarning") > fields.int("FailuresBeforeCritical") {
        "FailuresBeforeWarning can't be higher than FailuresBeforeCritical"
    } else if let Some((_, kind)) = foreign {
        return Err(format!("{kind} checks are not supported"));
    } else {
        return Ok(());
    };
    Err(complaint.to_owned())
}

/// A kind of check that Consul knows and no agent here runs.
fn foreign(fields: Fields<'_>) -> Option<(&'static str, &'static str)> {
    let kinds = [("OSService", "", "os_service"), ("DockerContainerID", "docker_container_id", "docker")];
    kinds.iter().find(|(key, older, _)| !fields.text(&[key, older]).is_empty()).map(|(key, _, kind)| (*key, *kind))
}

/// What Consul calls a check that is run so.
pub(super) fn kind(definition: &CheckDefinition) -> &'static str {
    let interval = !definition.interval.is_zero();
    if !definition.grpc.is_empty() && interval {
        "grpc"
    } else if !definition.http.is_empty() && interval {
        "http"
    } else if !definition.ttl.is_zero() {
        "ttl"
    } else if !definition.tcp.is_empty() && interval {
        "tcp"
    } else if !definition.udp.is_empty() && interval {
        "udp"
    } else if !definition.alias_node.is_empty() || !definition.alias_service.is_empty() {
        "alias"
    } else if !definition.args.is_empty() {
        "script"
    } else if !definition.h2ping.is_empty() && interval {
        "h2ping"
    } else {
        ""
    }
}

/// A status by its word; none given is critical.
pub(super) fn status(word: &str) -> Option<Status> {
    match word {
        "passing" => Some(Status::Passing),
        "warning" => Some(Status::Warning),
        "critical" | "" => Some(Status::Critical),
        _ => None,
    }
}

/// A check as the catalog is told about it, and the node it says it is on.
pub(super) fn health(fields: Fields<'_>) -> Result<(String, Check), String> {
    let definition = definition(fields.object("Definition").unwrap_or(Fields::of(&super::json::Json::Null)));
    let name = fields.text(&["Name"]);
    let id = fields.text(&["CheckID"]);
    let word = fields.text(&["Status"]);
    let status = status(&word).ok_or_else(|| format!("Invalid check status: '{word}'"))?;
    let given = fields.text(&["Type"]);
    let kind = if given.is_empty() { kind(&definition).to_owned() } else { given };
    let check = Check {
        id: if id.is_empty() { name.clone() } else { id },
        name,
        status,
        notes: fields.text(&["Notes"]),
        output: fields.text(&["Output"]),
        service_id: fields.text(&["ServiceID"]),
        service_name: fields.text(&["ServiceName"]),
        service_tags: fields.texts(&["ServiceTags"]),
        kind,
        definition: definition.into(),
    };
    Ok((fields.text(&["Node"]), check))
}
