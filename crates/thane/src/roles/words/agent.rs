//! The agent's options: those of `argocd-agent agent`.

use super::Meaning::{Duration, List, Number, Read, Switch, Text};
use super::{Assigned, Given, Table, Word, values};

/// Options of an agent.
#[derive(Debug, Clone)]
pub(crate) struct Agent;

/// Flags of an agent as they were given.
pub(crate) type AgentWords = Given<Agent>;

const UNVERIFIED: &str = "the hub's certificate is always verified here; give its authority with --root-ca-path";
const MESH: &str = "every connection has TLS here; a service mesh in between has to pass it through";

impl Table for Agent {
    const WORDS: &'static [Word] = &[
        Word::new(
            "discovery-data",
            "",
            "Folder for what is registered here; turns discovery on",
            Text("agent.discovery.data"),
        ),
        Word::new("discovery-config", "", "File with the node's settings for discovery", Text("agent.discovery.file")),
        Word::new("discovery-address", "", "Where the discovery API listens", Text("agent.discovery.address")),
        Word::new("consul-address", "", "Where Consul's API listens besides", Text("agent.discovery.consulAddress")),
        Word::new("dns-address", "", "Where names are resolved", Text("agent.discovery.dnsAddress")),
        Word::new(
            "open-until-told",
            "",
            "Let everybody in until the hub has first said which tokens there are",
            Switch("agent.discovery.openUntilTold"),
        ),
        Word::new(
            "discovery-rate-limit",
            "",
            "Requests each second that one client may make; 0 is no limit",
            Number("agent.discovery.rateLimit"),
        ),
        Word::new("node-name", "", "The node's name", Text("agent.discovery.nodeName")),
        Word::new(
            "node-address",
            "",
            "Where the node is reached; else where its route to the hub begins",
            Text("agent.discovery.nodeAddress"),
        ),
        Word::new(
            "fleet",
            "",
            "Keep a cluster's Applications in step; false on a plain machine",
            Switch("agent.fleet"),
        ),
        Word::new(
            "server-address",
            "ARGOCD_AGENT_REMOTE_SERVER",
            "Host name or address of the hub; for discovery several, separated by commas",
            Text("agent.server"),
        ),
        Word::new("server-port", "ARGOCD_AGENT_REMOTE_PORT", "Port of the hub", Number("agent.serverPort")),
        Word::new(
            "agent-mode",
            "ARGOCD_AGENT_MODE",
            "Who decides: managed (the hub) or autonomous (the cluster)",
            Text("agent.mode"),
        ),
        Word::new(
            "creds",
            "ARGOCD_AGENT_CREDS",
            "How it proves who it is: mtls:any or userpass:FILE",
            Text("agent.credentials"),
        ),
        Word::new(
            "namespace",
            "ARGOCD_AGENT_NAMESPACE",
            "Namespace of its Argo CD and its Secrets",
            Text("agent.namespace"),
        ),
        Word::new(
            "root-ca-secret-name",
            "ARGOCD_AGENT_TLS_ROOT_CA_SECRET_NAME",
            "Secret with the authorities of the hub's certificate",
            Text("agent.tls.caSecret"),
        ),
        Word::new(
            "root-ca-path",
            "ARGOCD_AGENT_TLS_ROOT_CA_PATH",
            "File with those authorities, instead of the Secret",
            Text("agent.tls.ca"),
        ),
        Word::new(
            "tls-secret-name",
            "ARGOCD_AGENT_TLS_SECRET_NAME",
            "Secret with its certificate and key",
            Text("agent.tls.secret"),
        ),
        Word::new(
            "tls-client-cert",
            "ARGOCD_AGENT_TLS_CLIENT_CERT_PATH",
            "File with its certificate, instead of the Secret",
            Text("agent.tls.cert"),
        ),
        Word::new("tls-client-key", "ARGOCD_AGENT_TLS_CLIENT_KEY_PATH", "File with its key", Text("agent.tls.key")),
        Word::new(
            "tls-min-version",
            "ARGOCD_AGENT_TLS_MIN_VERSION",
            "Oldest TLS version: tls1.3 or tls1.2",
            Read(min_version),
        ),
        Word::new("tls-max-version", "ARGOCD_AGENT_TLS_MAX_VERSION", "", Read(values::max_version)),
        Word::new(
            "destination-based-mapping",
            "ARGOCD_AGENT_DESTINATION_BASED_MAPPING",
            "Keep Applications in the namespaces they have on the hub; the same as the hub's",
            Read(placement),
        )
        .switched(),
        Word::new(
            "allowed-namespaces",
            "ARGOCD_AGENT_ALLOWED_NAMESPACES",
            "Further namespaces that Applications may be in, such as 'team-*'",
            List("agent.allowedNamespaces"),
        ),
        Word::new(
            "create-namespace",
            "ARGOCD_AGENT_CREATE_NAMESPACE",
            "Make the namespaces of Applications",
            Switch("agent.createNamespaces"),
        ),
        Word::new(
            "label-selector",
            "ARGOCD_AGENT_LABEL_SELECTOR",
            "Labels that Applications must have",
            Text("agent.selector"),
        ),
        Word::new(
            "source-uid-mismatch-policy",
            "ARGOCD_AGENT_SOURCE_UID_MISMATCH_POLICY",
            "What to do with a copy whose source was made anew: recreate or upsert",
            Text("agent.sourceMismatch"),
        ),
        Word::new(
            "adoption-policy",
            "ARGOCD_AGENT_ADOPTION_POLICY",
            "Whether an Application that was there before becomes the copy: always or never",
            Text("agent.adoption"),
        ),
        Word::new(
            "on-application-recreate",
            "ARGOCD_AGENT_ON_APPLICATION_RECREATE",
            "After a deleted copy was made again: ignore, clear-status or resync",
            Text("agent.onRecreate"),
        ),
        Word::new(
            "enable-websocket",
            "ARGOCD_AGENT_ENABLE_WEBSOCKET",
            "Speak gRPC over WebSockets",
            Switch("agent.websocket"),
        ),
        Word::new(
            "enable-compression",
            "ARGOCD_AGENT_ENABLE_COMPRESSION",
            "Compress what is sent",
            Switch("agent.compression"),
        ),
        Word::new(
            "keep-alive-ping-interval",
            "ARGOCD_AGENT_KEEP_ALIVE_PING_INTERVAL",
            "How often a silent hub is asked for a sign of life; 0 for never",
            Duration("agent.keepaliveInterval"),
        ),
        Word::new(
            "heartbeat-interval",
            "ARGOCD_AGENT_HEARTBEAT_INTERVAL",
            "How often to send a sign of life as an event; 0 for never",
            Duration("agent.heartbeatInterval"),
        ),
        Word::new(
            "grpc-max-message-size",
            "ARGOCD_AGENT_GRPC_MAX_MESSAGE_SIZE",
            "Bytes of one message",
            Read(message_bytes),
        ),
        Word::new(
            "metrics-port",
            "ARGOCD_AGENT_METRICS_PORT",
            "Port of metrics and health",
            Read(values::metrics_port),
        ),
        Word::new(
            "healthz-port",
            "ARGOCD_AGENT_HEALTH_CHECK_PORT",
            "Port of another listener for /healthz",
            Number("agent.healthPort"),
        ),
        Word::new("", "ARGOCD_AGENT_LOG_LEVEL", "", Read(values::log_level)),
        Word::new("", "ARGOCD_AGENT_LOG_FORMAT", "", Text("log.format")),
        Word::new("", "ARGOCD_AGENT_SEND_QUEUE_SIZE", "", Number("agent.link.queueMax")),
        Word::new("", "ARGOCD_AGENT_RECV_QUEUE_SIZE", "", Number("agent.link.incomingMax")),
        Word::refused("insecure-tls", "ARGOCD_AGENT_TLS_INSECURE", UNVERIFIED),
        Word::refused("insecure-plaintext", "ARGOCD_AGENT_INSECURE_PLAINTEXT", MESH),
        Word::idle("ignore-unmanaged-apps", "ARGOCD_AGENT_IGNORE_UNMANAGED_APPS").switched(),
        Word::new(
            "enable-resource-proxy",
            "ARGOCD_AGENT_ENABLE_RESOURCE_PROXY",
            "Let the hub reach into the cluster: its API, logs, terminals",
            Switch("agent.live"),
        ),
        Word::idle("cache-refresh-interval", "ARGOCD_AGENT_CACHE_REFRESH_INTERVAL"),
        Word::idle("informer-sync-timeout", "ARGOCD_AGENT_INFORMER_SYNC_TIMEOUT"),
        Word::idle("buffer-informer-event-interval", "ARGOCD_AGENT_BUFFER_INFORMER_EVENT_INTERVAL"),
        Word::idle("full-detail", "ARGOCD_AGENT_FULL_DETAIL"),
        Word::idle("tls-ciphersuites", "ARGOCD_AGENT_TLS_CIPHERSUITES"),
        Word::idle("pprof-port", "ARGOCD_AGENT_PPROF_PORT"),
        Word::idle("otlp-address", "ARGOCD_AGENT_OTLP_ADDRESS"),
        Word::idle("otlp-insecure", "ARGOCD_AGENT_OTLP_INSECURE").switched(),
        Word::new("redis-addr", "REDIS_ADDR", "Host and port of the Redis of its Argo CD", Text("agent.redis.address")),
        Word::new("redis-username", "REDIS_USERNAME", "The user there", Text("agent.redis.username")),
        Word::new("redis-password", "", "", Read(values::password)),
        Word::new(
            "redis-creds-dir-path",
            "REDIS_CREDS_DIR_PATH",
            "Folder with the password in auth, and the user in auth_username",
            Text("agent.redis.credentials"),
        ),
        Word::new(
            "redis-tls-enabled",
            "ARGOCD_AGENT_REDIS_TLS_ENABLED",
            "Speak TLS with Redis",
            Switch("agent.redis.tls"),
        ),
        Word::new(
            "redis-tls-insecure",
            "ARGOCD_AGENT_REDIS_TLS_INSECURE",
            "Believe any certificate of Redis",
            Switch("agent.redis.unverified"),
        ),
        Word::new(
            "redis-tls-ca-path",
            "ARGOCD_AGENT_REDIS_TLS_CA_PATH",
            "File with the authorities of Redis' certificate",
            Text("agent.redis.ca"),
        ),
        Word::new(
            "redis-tls-ca-secret-name",
            "ARGOCD_AGENT_REDIS_TLS_CA_SECRET_NAME",
            "Secret with those authorities",
            Text("agent.redis.caSecret"),
        ),
        Word::idle("", "ARGOCD_AGENT_KUBE_QPS"),
        Word::idle("", "ARGOCD_AGENT_KUBE_BURST"),
    ];
}

fn placement(text: &str, _upstream: bool) -> Result<Assigned, String> {
    values::placement("agent.placement", text)
}

fn min_version(text: &str, _upstream: bool) -> Result<Assigned, String> {
    values::min_version("agent.tls.minVersion", text)
}

fn message_bytes(text: &str, _upstream: bool) -> Result<Assigned, String> {
    values::bytes("agent.messageBytesMax", text)
}
