//! What a fleet is made of on a Kubernetes API: authority, certificates, keys, agents. Made as argocd-agentctl makes
//! it, so that either can read the other's.

pub(crate) mod cluster;
pub(crate) mod issue;
pub(crate) mod objects;
pub(crate) mod troubles;

/// Secret with the authority: its certificate and key on the hub, its certificate alone beside an agent.
pub(crate) const CA: &str = "argocd-agent-ca";
/// Secret with the hub's certificate.
pub(crate) const PRINCIPAL_TLS: &str = "argocd-agent-principal-tls";
/// Secret with the resource proxy's certificate.
pub(crate) const PROXY_TLS: &str = "argocd-agent-resource-proxy-tls";
/// Secret with an agent's certificate.
pub(crate) const CLIENT_TLS: &str = "argocd-agent-client-tls";
/// Secret with the key that signs tokens.
pub(crate) const JWT: &str = "argocd-agent-jwt";
/// `ConfigMap` with the fingerprints of certificates that are no longer believed.
pub(crate) const BLOCKLIST: &str = "argocd-agent-tls-blocklist";
/// Where agents are as the hub last saw them.
pub(crate) const AGENTS: &str = "/apis/thane.dev/v1alpha1/agents";
