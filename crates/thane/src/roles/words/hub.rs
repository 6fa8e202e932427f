//! The hub's options: those of `argocd-agent principal`.

use serde_json::json;

use super::Meaning::{Duration, List, Number, Read, Switch, Text};
use super::{Assigned, Given, Table, Word, values};

/// Options of the hub.
#[derive(Debug, Clone)]
pub(crate) struct Hub;

/// Flags of the hub as they were given.
pub(crate) type HubWords = Given<Hub>;

const MESH: &str = "every connection has TLS here; a service mesh in between has to pass it through";
const GENERATED: &str =
    "agents could not verify a certificate made on the spot; make one with `thane pki issue principal`";
const REPLICAS: &str = "one hub serves all agents here, and takes seconds to start; run one replica without it";
const REGISTRATION: &str = "agents do not register themselves here; make them with `thane agents create`";

impl Table for Hub {
    const WORDS: &'static [Word] = &[
        Word::new(
            "discovery-data",
            "",
            "Folder for the registry of services; turns discovery on",
            Text("hub.discovery.data"),
        ),
        Word::new(
            "discovery-address",
            "",
            "Where clients without an agent find the registry",
            Text("hub.discovery.address"),
        ),
        Word::new(
            "discovery-rate-limit",
            "",
            "Requests each second that one client of it may make; 0 is no limit",
            Number("hub.discovery.rateLimit"),
        ),
        Word::new(
            "namespace",
            "ARGOCD_PRINCIPAL_NAMESPACE",
            "Namespace of its Argo CD and its Secrets",
            Text("hub.namespace"),
        ),
        Word::new(
            "listen-host",
            "ARGOCD_PRINCIPAL_LISTEN_HOST",
            "Address that agents call; else all",
            Text("hub.listenHost"),
        ),
        Word::new("listen-port", "ARGOCD_PRINCIPAL_LISTEN_PORT", "Port that agents call", Number("hub.listenPort")),
        Word::new(
            "metrics-port",
            "ARGOCD_PRINCIPAL_METRICS_PORT",
            "Port of metrics and health",
            Read(values::metrics_port),
        ),
        Word::new(
            "healthz-port",
            "ARGOCD_PRINCIPAL_HEALTH_CHECK_PORT",
            "Port of another listener for /healthz",
            Number("hub.healthPort"),
        ),
        Word::new(
            "allowed-namespaces",
            "ARGOCD_PRINCIPAL_ALLOWED_NAMESPACES",
            "Namespaces whose Applications are kept in step, such as 'team-*'",
            List("hub.allowedNamespaces"),
        ),
        Word::new(
            "destination-based-mapping",
            "ARGOCD_PRINCIPAL_DESTINATION_BASED_MAPPING",
            "Find an Application's agent by its destination instead of its namespace",
            Read(placement),
        )
        .switched(),
        Word::new(
            "label-selector",
            "ARGOCD_PRINCIPAL_LABEL_SELECTOR",
            "Labels that Applications must have",
            Text("hub.selector"),
        ),
        Word::new(
            "namespace-create-enable",
            "ARGOCD_PRINCIPAL_NAMESPACE_CREATE_ENABLE",
            "Make the namespaces of autonomous agents",
            Switch("hub.createNamespaces"),
        ),
        Word::new(
            "namespace-create-pattern",
            "ARGOCD_PRINCIPAL_NAMESPACE_CREATE_PATTERN",
            "Expression that such namespaces match",
            Text("hub.createNamespacesPattern"),
        ),
        Word::new(
            "namespace-create-labels",
            "ARGOCD_PRINCIPAL_NAMESPACE_CREATE_LABELS",
            "Labels of such namespaces, as name=value",
            List("hub.namespaceLabels"),
        ),
        Word::new(
            "auth",
            "ARGOCD_PRINCIPAL_AUTH",
            "How agents prove who they are: mtls:subject:REGEX, mtls:uri:REGEX or userpass:FILE",
            Read(auth),
        ),
        Word::new(
            "require-client-certs",
            "ARGOCD_PRINCIPAL_TLS_CLIENT_CERT_REQUIRE",
            "Ask for a trusted certificate besides a token",
            Read(trusted),
        )
        .switched(),
        Word::new(
            "client-cert-subject-match",
            "ARGOCD_PRINCIPAL_TLS_CLIENT_CERT_MATCH_SUBJECT",
            "Ask for a trusted certificate in the agent's name",
            Read(matching),
        )
        .switched(),
        Word::new(
            "tls-secret-name",
            "ARGOCD_PRINCIPAL_TLS_SECRET_NAME",
            "Secret with its certificate and key",
            Text("hub.tls.secret"),
        ),
        Word::new(
            "tls-cert",
            "ARGOCD_PRINCIPAL_TLS_SERVER_CERT_PATH",
            "File with its certificate, instead of the Secret",
            Text("hub.tls.cert"),
        ),
        Word::new("tls-key", "ARGOCD_PRINCIPAL_TLS_SERVER_KEY_PATH", "File with its key", Text("hub.tls.key")),
        Word::new(
            "tls-ca-secret-name",
            "ARGOCD_PRINCIPAL_TLS_SERVER_ROOT_CA_SECRET_NAME",
            "Secret with the authorities of agents' certificates",
            Text("hub.tls.caSecret"),
        ),
        Word::new(
            "root-ca-path",
            "ARGOCD_PRINCIPAL_TLS_SERVER_ROOT_CA_PATH",
            "File with those authorities, instead of the Secret",
            Text("hub.tls.ca"),
        ),
        Word::new(
            "tls-min-version",
            "ARGOCD_PRINCIPAL_TLS_MIN_VERSION",
            "Oldest TLS version: tls1.3 or tls1.2",
            Read(min_version),
        ),
        Word::new("tls-max-version", "ARGOCD_PRINCIPAL_TLS_MAX_VERSION", "", Read(values::max_version)),
        Word::new(
            "jwt-secret-name",
            "ARGOCD_PRINCIPAL_JWT_SECRET_NAME",
            "Secret with the key that signs tokens",
            Text("hub.jwt.secret"),
        ),
        Word::new(
            "jwt-key",
            "ARGOCD_PRINCIPAL_JWT_KEY_PATH",
            "File with that key, instead of the Secret",
            Text("hub.jwt.key"),
        ),
        Word::new(
            "insecure-jwt-generate",
            "ARGOCD_PRINCIPAL_JWT_ALLOW_GENERATE",
            "Sign tokens with a key made on the spot, for trying things out",
            Switch("hub.jwt.temporary"),
        ),
        Word::new(
            "enable-websocket",
            "ARGOCD_PRINCIPAL_ENABLE_WEBSOCKET",
            "Answer gRPC over WebSockets too",
            Switch("hub.websocket"),
        ),
        Word::new(
            "grpc-max-message-size",
            "ARGOCD_PRINCIPAL_GRPC_MAX_MESSAGE_SIZE",
            "Bytes of one message",
            Read(message_bytes),
        ),
        Word::new(
            "keepalive-interval",
            "",
            "How often a silent agent is asked for a sign of life",
            Duration("hub.keepaliveInterval"),
        ),
        Word::new("", "ARGOCD_PRINCIPAL_LOG_LEVEL", "", Read(values::log_level)),
        Word::new("", "ARGOCD_PRINCIPAL_LOG_FORMAT", "", Text("log.format")),
        Word::new("", "ARGOCD_AGENT_SEND_QUEUE_SIZE", "", Number("hub.link.queueMax")),
        Word::new("", "ARGOCD_AGENT_RECV_QUEUE_SIZE", "", Number("hub.link.incomingMax")),
        Word::refused("insecure-tls-generate", "ARGOCD_PRINCIPAL_TLS_SERVER_ALLOW_GENERATE", GENERATED),
        Word::refused("insecure-plaintext", "ARGOCD_PRINCIPAL_INSECURE_PLAINTEXT", MESH),
        Word::refused("ha-enabled", "ARGOCD_PRINCIPAL_HA_ENABLED", REPLICAS),
        Word::refused(
            "enable-self-cluster-registration",
            "ARGOCD_PRINCIPAL_ENABLE_SELF_CLUSTER_REGISTRATION",
            REGISTRATION,
        ),
        Word::idle("self-registration-client-cert-secret", "ARGOCD_PRINCIPAL_SELF_REGISTRATION_CLIENT_CERT_SECRET"),
        Word::idle("full-detail", "ARGOCD_PRINCIPAL_FULL_DETAIL"),
        Word::idle("tls-ciphersuites", "ARGOCD_PRINCIPAL_TLS_CIPHERSUITES"),
        Word::idle("keepalive-min-interval", "ARGOCD_PRINCIPAL_KEEP_ALIVE_MIN_INTERVAL"),
        Word::idle("event-processors", "ARGOCD_PRINCIPAL_EVENT_PROCESSORS"),
        Word::idle("pprof-port", "ARGOCD_PRINCIPAL_PPROF_PORT"),
        Word::idle("otlp-address", "ARGOCD_PRINCIPAL_OTLP_ADDRESS"),
        Word::idle("otlp-insecure", "ARGOCD_PRINCIPAL_OTLP_INSECURE").switched(),
        Word::new(
            "enable-resource-proxy",
            "ARGOCD_PRINCIPAL_ENABLE_RESOURCE_PROXY",
            "Live access to the clusters of agents",
            Switch("hub.proxy.enabled"),
        ),
        Word::idle("resource-proxy-address", "ARGOCD_PRINCIPAL_RESOURCE_PROXY_ADDRESS"),
        Word::new("resource-proxy-port", "", "Port of live access", Number("hub.proxy.listenPort")),
        Word::new(
            "resource-proxy-secret-name",
            "ARGOCD_PRINCIPAL_RESOURCE_PROXY_SECRET_NAME",
            "Secret with the certificate and key of live access",
            Text("hub.proxy.secret"),
        ),
        Word::new(
            "resource-proxy-cert-path",
            "ARGOCD_PRINCIPAL_RESOURCE_PROXY_TLS_CERT_PATH",
            "File with that certificate instead",
            Text("hub.proxy.cert"),
        ),
        Word::new(
            "resource-proxy-key-path",
            "ARGOCD_PRINCIPAL_RESOURCE_PROXY_TLS_KEY_PATH",
            "File with its key",
            Text("hub.proxy.key"),
        ),
        Word::new(
            "resource-proxy-ca-secret-name",
            "ARGOCD_PRINCIPAL_RESOURCE_PROXY_CA_SECRET_NAME",
            "Secret with the authorities that sign Argo CD's certificates",
            Text("hub.proxy.caSecret"),
        ),
        Word::new(
            "resource-proxy-ca-path",
            "ARGOCD_PRINCIPAL_RESOURCE_PROXY_TLS_CA_PATH",
            "File with those authorities instead",
            Text("hub.proxy.ca"),
        ),
        Word::new(
            "disable-redis-proxy",
            "ARGOCD_PRINCIPAL_DISABLE_REDIS_PROXY",
            "Do not take Argo CD's questions about agents' applications",
            Read(no_proxy),
        )
        .switched(),
        Word::new(
            "redis-server-address",
            "ARGOCD_PRINCIPAL_REDIS_SERVER_ADDRESS",
            "Host and port of the hub's Redis",
            Text("hub.redis.server.address"),
        ),
        Word::new("redis-password", "", "", Read(values::password)),
        Word::new("redis-proxy-address", "", "Where the Redis proxy listens", Text("hub.redis.listen")),
        Word::new(
            "redis-creds-dir-path",
            "REDIS_CREDS_DIR_PATH",
            "Folder with the password of Redis in auth",
            Text("hub.redis.server.credentials"),
        ),
        Word::new(
            "redis-compression-type",
            "ARGOCD_PRINCIPAL_REDIS_COMPRESSION_TYPE",
            "How Argo CD compresses what it keeps: gzip or none",
            Text("hub.redis.compression"),
        ),
        Word::new(
            "redis-tls-enabled",
            "ARGOCD_PRINCIPAL_REDIS_TLS_ENABLED",
            "Speak TLS with Redis, and on the proxy",
            Switch("hub.redis.server.tls"),
        ),
        Word::new(
            "redis-tls-insecure",
            "ARGOCD_PRINCIPAL_REDIS_TLS_INSECURE",
            "Believe any certificate of Redis",
            Switch("hub.redis.server.unverified"),
        ),
        Word::new(
            "redis-ca-path",
            "ARGOCD_PRINCIPAL_REDIS_CA_PATH",
            "File with the authorities of Redis' certificate",
            Text("hub.redis.server.ca"),
        ),
        Word::new(
            "redis-ca-secret-name",
            "ARGOCD_PRINCIPAL_REDIS_CA_SECRET_NAME",
            "Secret with those authorities",
            Text("hub.redis.server.caSecret"),
        ),
        Word::new(
            "redis-proxy-server-tls-cert",
            "ARGOCD_PRINCIPAL_REDIS_PROXY_SERVER_TLS_CERT_PATH",
            "File with the certificate of the Redis proxy",
            Text("hub.redis.cert"),
        ),
        Word::new(
            "redis-proxy-server-tls-key",
            "ARGOCD_PRINCIPAL_REDIS_PROXY_SERVER_TLS_KEY_PATH",
            "File with its key",
            Text("hub.redis.key"),
        ),
        Word::new(
            "redis-proxy-server-tls-secret-name",
            "ARGOCD_PRINCIPAL_REDIS_PROXY_SERVER_TLS_SECRET_NAME",
            "Secret with both",
            Text("hub.redis.secret"),
        ),
        Word::idle("ha-admin-port", "ARGOCD_PRINCIPAL_HA_ADMIN_PORT"),
        Word::idle("ha-allowed-replication-clients", "ARGOCD_PRINCIPAL_HA_ALLOWED_REPLICATION_CLIENTS"),
        Word::idle("ha-failover-timeout", "ARGOCD_PRINCIPAL_HA_FAILOVER_TIMEOUT"),
        Word::idle("ha-peer-address", "ARGOCD_PRINCIPAL_HA_PEER_ADDRESS"),
        Word::idle("ha-preferred-role", "ARGOCD_PRINCIPAL_HA_PREFERRED_ROLE"),
        Word::idle("ha-replication-initial-ack-timeout", "ARGOCD_PRINCIPAL_HA_REPLICATION_INITIAL_ACK_TIMEOUT"),
        Word::idle("", "ARGOCD_AGENT_KUBE_QPS"),
        Word::idle("", "ARGOCD_AGENT_KUBE_BURST"),
    ];
}

fn no_proxy(text: &str, _upstream: bool) -> Result<Assigned, String> {
    Ok(vec![("hub.redis.proxy", json!(!values::switch(text)?))])
}

fn placement(text: &str, _upstream: bool) -> Result<Assigned, String> {
    values::placement("hub.placement", text)
}

fn min_version(text: &str, _upstream: bool) -> Result<Assigned, String> {
    values::min_version("hub.tls.minVersion", text)
}

fn message_bytes(text: &str, _upstream: bool) -> Result<Assigned, String> {
    values::bytes("hub.messageBytesMax", text)
}

/// With passwords argocd-agent asks for no certificate unless told to.
fn auth(text: &str, upstream: bool) -> Result<Assigned, String> {
    if text.starts_with("header:") {
        return Err("a header proves nothing here; use mtls:subject:REGEX, mtls:uri:REGEX or userpass:FILE".to_owned());
    }
    let mut assigned = vec![("hub.auth", json!(text))];
    if upstream && text.starts_with("userpass:") {
        assigned.push(("hub.certificates", json!("unneeded")));
    }
    Ok(assigned)
}

/// Ours is the stricter default: a certificate in the agent's name.
fn trusted(text: &str, upstream: bool) -> Result<Assigned, String> {
    let required = values::switch(text)?;
    Ok(if upstream && required { vec![("hub.certificates", json!("trusted"))] } else { Vec::new() })
}

fn matching(text: &str, _upstream: bool) -> Result<Assigned, String> {
    Ok(if values::switch(text)? { vec![("hub.certificates", json!("matching"))] } else { Vec::new() })
}
