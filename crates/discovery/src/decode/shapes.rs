//! What Consul's bodies may contain.

use super::shape::{Field, Kind, Shape};

const DURATIONS: &[&str] =
    &["Interval", "Timeout", "TTL", "DeregisterCriticalServiceAfter", "deregister_critical_service_after"];

const STRINGS: Kind = Kind::Texts { list: "[]string", item: "string" };

/// A field that Consul decodes through a type without name around the real one.
macro_rules! inner {
    ($key:literal, $kind:expr) => {
        Field { key: $key, label: concat!("Alias.", $key), kind: $kind }
    };
}

/// A field that is spelled in complaints as it is.
macro_rules! plain {
    ($key:literal, $kind:expr) => {
        Field { key: $key, label: $key, kind: $kind }
    };
}

const TEXT: Kind = Kind::Text("string");

const ADDRESS: Shape = Shape {
    kind: "structs.ServiceAddress",
    name: "ServiceAddress",
    fields: &[plain!("Address", TEXT), plain!("Port", Kind::Int)],
    durations: &[],
    closed: true,
};

const ADDRESSES: Kind = Kind::MapOf { map: "map[string]structs.ServiceAddress", shape: &ADDRESS };

const WEIGHTS: Shape = Shape {
    kind: "structs.Weights",
    name: "Weights",
    fields: &[plain!("Passing", Kind::Int), plain!("Warning", Kind::Int)],
    durations: &[],
    closed: true,
};

/// `agent/service/register`.
pub(super) const SERVICE: Shape = Shape {
    kind: "structs.ServiceDefinition",
    name: "",
    fields: &[
        inner!("Kind", Kind::Text("structs.ServiceKind")),
        inner!("ID", TEXT),
        inner!("Name", TEXT),
        inner!("Tags", STRINGS),
        inner!("Address", TEXT),
        inner!("TaggedAddresses", ADDRESSES),
        plain!("tagged_addresses", ADDRESSES),
        inner!("Meta", Kind::TextMap),
        inner!("Port", Kind::Int),
        inner!("Ports", Kind::Any),
        inner!("SocketPath", TEXT),
        inner!("Check", Kind::One(&CHECK_TYPE)),
        inner!("Checks", Kind::Many { list: "structs.CheckTypes", shape: &CHECK_TYPE }),
        inner!("Weights", Kind::One(&WEIGHTS)),
        inner!("Token", TEXT),
        inner!("EnableTagOverride", Kind::Bool),
        plain!("enable_tag_override", Kind::Bool),
        inner!("Locality", Kind::Any),
        inner!("Proxy", Kind::Any),
        inner!("Connect", Kind::Any),
    ],
    durations: &[],
    closed: true,
};

/// The check of a service.
const CHECK_TYPE: Shape = Shape {
    kind: "structs.CheckType",
    name: "",
    fields: &[
        inner!("CheckID", Kind::Text("types.CheckID")),
        inner!("Name", TEXT),
        inner!("Status", TEXT),
        inner!("Notes", TEXT),
        plain!("ServiceID", TEXT),
        plain!("service_id", TEXT),
        inner!("ProxyHTTP", TEXT),
        inner!("ProxyGRPC", TEXT),
        inner!("ScriptArgs", STRINGS),
        plain!("args", STRINGS),
        plain!("script_args", STRINGS),
        inner!("HTTP", TEXT),
        inner!("H2PING", TEXT),
        inner!("H2PingUseTLS", Kind::Bool),
        plain!("h2ping_use_tls", Kind::Bool),
        inner!("Header", Kind::Headers),
        inner!("Method", TEXT),
        inner!("Body", TEXT),
        inner!("DisableRedirects", Kind::Bool),
        inner!("TCP", TEXT),
        inner!("TCPUseTLS", Kind::Bool),
        plain!("tcp_use_tls", Kind::Bool),
        inner!("UDP", TEXT),
        inner!("Interval", Kind::Any),
        inner!("AliasNode", TEXT),
        inner!("AliasService", TEXT),
        inner!("DockerContainerID", TEXT),
        plain!("docker_container_id", TEXT),
        inner!("Shell", TEXT),
        inner!("GRPC", TEXT),
        inner!("GRPCUseTLS", Kind::Bool),
        plain!("grpc_use_tls", Kind::Bool),
        inner!("OSService", TEXT),
        inner!("TLSServerName", TEXT),
        plain!("tls_server_name", TEXT),
        inner!("TLSSkipVerify", Kind::Bool),
        plain!("tls_skip_verify", Kind::Bool),
        inner!("Timeout", Kind::Any),
        inner!("TTL", Kind::Any),
        inner!("SuccessBeforePassing", Kind::Int),
        inner!("FailuresBeforeWarning", Kind::Int),
        inner!("FailuresBeforeCritical", Kind::Int),
        inner!("DeregisterCriticalServiceAfter", Kind::Any),
        plain!("deregister_critical_service_after", Kind::Any),
        inner!("OutputMaxSize", Kind::Int),
    ],
    durations: DURATIONS,
    closed: true,
};

/// `agent/check/register`.
pub(super) const CHECK: Shape = Shape {
    kind: "structs.CheckDefinition",
    name: "",
    fields: &[
        inner!("ID", Kind::Text("types.CheckID")),
        inner!("Name", TEXT),
        inner!("Notes", TEXT),
        inner!("ServiceID", TEXT),
        plain!("service_id", TEXT),
        inner!("Token", TEXT),
        inner!("Status", TEXT),
        inner!("ScriptArgs", STRINGS),
        plain!("args", STRINGS),
        plain!("script_args", STRINGS),
        inner!("HTTP", TEXT),
        inner!("H2PING", TEXT),
        inner!("H2PingUseTLS", Kind::Bool),
        plain!("h2ping_use_tls", Kind::Bool),
        inner!("Header", Kind::Headers),
        inner!("Method", TEXT),
        inner!("Body", TEXT),
        inner!("DisableRedirects", Kind::Bool),
        plain!("disable_redirects", Kind::Bool),
        inner!("TCP", TEXT),
        inner!("TCPUseTLS", Kind::Bool),
        plain!("tcp_use_tls", Kind::Bool),
        inner!("UDP", TEXT),
        inner!("Interval", Kind::Any),
        inner!("AliasNode", TEXT),
        inner!("AliasService", TEXT),
        inner!("DockerContainerID", TEXT),
        plain!("docker_container_id", TEXT),
        inner!("Shell", TEXT),
        inner!("GRPC", TEXT),
        inner!("GRPCUseTLS", Kind::Bool),
        plain!("grpc_use_tls", Kind::Bool),
        inner!("OSService", TEXT),
        inner!("TLSServerName", TEXT),
        plain!("tls_server_name", TEXT),
        inner!("TLSSkipVerify", Kind::Bool),
        plain!("tls_skip_verify", Kind::Bool),
        inner!("Timeout", Kind::Any),
        inner!("TTL", Kind::Any),
        inner!("SuccessBeforePassing", Kind::Int),
        inner!("FailuresBeforeWarning", Kind::Int),
        inner!("FailuresBeforeCritical", Kind::Int),
        inner!("DeregisterCriticalServiceAfter", Kind::Any),
        plain!("deregister_critical_service_after", Kind::Any),
        inner!("OutputMaxSize", Kind::Int),
    ],
    durations: DURATIONS,
    closed: true,
};

/// `agent/check/update`.
pub(super) const CHECK_UPDATE: Shape = Shape {
    kind: "agent.checkUpdate",
    name: "checkUpdate",
    fields: &[plain!("Status", TEXT), plain!("Output", TEXT)],
    durations: &[],
    closed: true,
};

/// `catalog/register`.
pub(super) const REGISTER: Shape = Shape {
    kind: "structs.RegisterRequest",
    name: "RegisterRequest",
    fields: &[
        plain!("Datacenter", TEXT),
        plain!("ID", Kind::Text("types.NodeID")),
        plain!("Node", TEXT),
        plain!("Address", TEXT),
        plain!("TaggedAddresses", Kind::TextMap),
        plain!("NodeMeta", Kind::TextMap),
        plain!("Service", Kind::One(&NODE_SERVICE)),
        plain!("Check", Kind::One(&HEALTH_CHECK)),
        plain!("Checks", Kind::Many { list: "structs.HealthChecks", shape: &HEALTH_CHECK }),
        plain!("Locality", Kind::Any),
        plain!("SkipNodeUpdate", Kind::Bool),
        plain!("PeerName", TEXT),
        plain!("Token", TEXT),
        plain!("CreateIndex", Kind::Uint),
        plain!("ModifyIndex", Kind::Uint),
    ],
    durations: &[],
    closed: true,
};

const NODE_SERVICE: Shape = Shape {
    kind: "structs.NodeService",
    name: "NodeService",
    fields: &[
        plain!("Kind", Kind::Text("structs.ServiceKind")),
        plain!("ID", TEXT),
        plain!("Service", TEXT),
        plain!("Tags", STRINGS),
        plain!("Address", TEXT),
        plain!("TaggedAddresses", ADDRESSES),
        plain!("Meta", Kind::TextMap),
        plain!("Port", Kind::Int),
        plain!("Ports", Kind::Any),
        plain!("SocketPath", TEXT),
        plain!("Weights", Kind::One(&WEIGHTS)),
        plain!("EnableTagOverride", Kind::Bool),
        plain!("Locality", Kind::Any),
        plain!("Proxy", Kind::Any),
        plain!("Connect", Kind::Any),
        plain!("PeerName", TEXT),
        plain!("CreateIndex", Kind::Uint),
        plain!("ModifyIndex", Kind::Uint),
        // What only transactions take.
        plain!("ContentHash", TEXT),
        plain!("Datacenter", TEXT),
    ],
    durations: &[],
    closed: true,
};

const HEALTH_CHECK: Shape = Shape {
    kind: "structs.HealthCheck",
    name: "HealthCheck",
    fields: &[
        plain!("Node", TEXT),
        plain!("CheckID", Kind::Text("types.CheckID")),
        plain!("Name", TEXT),
        plain!("Status", TEXT),
        plain!("Notes", TEXT),
        plain!("Output", TEXT),
        plain!("ServiceID", TEXT),
        plain!("ServiceName", TEXT),
        plain!("ServiceTags", STRINGS),
        plain!("Type", TEXT),
        plain!("Interval", TEXT),
        plain!("Timeout", TEXT),
        plain!("ExposedPort", Kind::Int),
        plain!("PeerName", TEXT),
        plain!("Definition", Kind::One(&DEFINITION)),
        plain!("CreateIndex", Kind::Uint),
        plain!("ModifyIndex", Kind::Uint),
    ],
    durations: &[],
    closed: true,
};

/// Here, and only here and in sessions, Consul does not mind what it does not know.
const DEFINITION: Shape = Shape {
    kind: "structs.HealthCheckDefinition",
    name: "",
    fields: &[
        inner!("HTTP", TEXT),
        inner!("TLSServerName", TEXT),
        inner!("TLSSkipVerify", Kind::Bool),
        inner!("Header", Kind::Headers),
        inner!("Method", TEXT),
        inner!("Body", TEXT),
        inner!("DisableRedirects", Kind::Bool),
        inner!("TCP", TEXT),
        inner!("TCPUseTLS", Kind::Bool),
        inner!("UDP", TEXT),
        inner!("H2PING", TEXT),
        inner!("OSService", TEXT),
        inner!("ScriptArgs", STRINGS),
        inner!("DockerContainerID", TEXT),
        inner!("GRPC", TEXT),
        inner!("GRPCUseTLS", Kind::Bool),
        inner!("AliasNode", TEXT),
        inner!("AliasService", TEXT),
    ],
    durations: &["Interval", "Timeout", "DeregisterCriticalServiceAfter", "TTL"],
    closed: false,
};

/// `catalog/deregister`.
pub(super) const DEREGISTER: Shape = Shape {
    kind: "structs.DeregisterRequest",
    name: "",
    fields: &[
        plain!("Address", TEXT),
        inner!("Datacenter", TEXT),
        inner!("Node", TEXT),
        inner!("ServiceID", TEXT),
        inner!("CheckID", Kind::Text("types.CheckID")),
        inner!("PeerName", TEXT),
        inner!("Token", TEXT),
    ],
    durations: &[],
    closed: true,
};

/// `session/create`.
pub(super) const SESSION: Shape = Shape {
    kind: "structs.Session",
    name: "",
    fields: &[
        inner!("ID", TEXT),
        inner!("Name", TEXT),
        inner!("Node", TEXT),
        inner!("Behavior", Kind::Text("structs.SessionBehavior")),
        inner!("TTL", TEXT),
        inner!("NodeChecks", STRINGS),
        inner!("ServiceChecks", Kind::Many { list: "[]structs.ServiceCheck", shape: &SERVICE_CHECK }),
        inner!("Checks", Kind::Texts { list: "[]types.CheckID", item: "types.CheckID" }),
        inner!("CreateIndex", Kind::Uint),
        inner!("ModifyIndex", Kind::Uint),
    ],
    durations: &["LockDelay"],
    closed: false,
};

const SERVICE_CHECK: Shape = Shape {
    kind: "structs.ServiceCheck",
    name: "ServiceCheck",
    fields: &[plain!("ID", TEXT), plain!("Namespace", TEXT)],
    durations: &[],
    closed: false,
};

/// One operation of `txn`.
pub(super) const OPERATION: Shape = Shape {
    kind: "api.TxnOp",
    name: "TxnOp",
    fields: &[
        plain!("KV", Kind::One(&KV_OPERATION)),
        plain!("Node", Kind::One(&NODE_OPERATION)),
        plain!("Service", Kind::One(&SERVICE_OPERATION)),
        plain!("Check", Kind::One(&CHECK_OPERATION)),
    ],
    durations: &[],
    closed: true,
};

const KV_OPERATION: Shape = Shape {
    kind: "api.KVTxnOp",
    name: "KVTxnOp",
    fields: &[
        plain!("Verb", Kind::Text("api.KVOp")),
        plain!("Key", TEXT),
        plain!("Value", Kind::Bytes),
        plain!("Flags", Kind::Uint),
        plain!("Index", Kind::Uint),
        plain!("Session", TEXT),
        plain!("Namespace", TEXT),
        plain!("Partition", TEXT),
    ],
    durations: &[],
    closed: true,
};

const NODE: Shape = Shape {
    kind: "api.Node",
    name: "Node",
    fields: &[
        plain!("ID", TEXT),
        plain!("Node", TEXT),
        plain!("Address", TEXT),
        plain!("Datacenter", TEXT),
        plain!("TaggedAddresses", Kind::TextMap),
        plain!("Meta", Kind::TextMap),
        plain!("CreateIndex", Kind::Uint),
        plain!("ModifyIndex", Kind::Uint),
        plain!("Partition", TEXT),
        plain!("PeerName", TEXT),
        plain!("Locality", Kind::Any),
    ],
    durations: &[],
    closed: true,
};

const NODE_OPERATION: Shape = Shape {
    kind: "api.NodeTxnOp",
    name: "NodeTxnOp",
    fields: &[plain!("Verb", Kind::Text("api.NodeOp")), plain!("Node", Kind::One(&NODE))],
    durations: &[],
    closed: true,
};

const SERVICE_OPERATION: Shape = Shape {
    kind: "api.ServiceTxnOp",
    name: "ServiceTxnOp",
    fields: &[
        plain!("Verb", Kind::Text("api.ServiceOp")),
        plain!("Node", TEXT),
        plain!("Service", Kind::One(&NODE_SERVICE)),
    ],
    durations: &[],
    closed: true,
};

const CHECK_OPERATION: Shape = Shape {
    kind: "api.CheckTxnOp",
    name: "CheckTxnOp",
    fields: &[plain!("Verb", Kind::Text("api.CheckOp")), plain!("Check", Kind::One(&HEALTH_CHECK))],
    durations: &[],
    closed: true,
};
