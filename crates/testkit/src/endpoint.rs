//! Where a server is and how to prove to it who we are.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

/// A client certificate with its key, both PEM.
#[derive(Debug, Clone)]
pub struct ClientIdentity {
    /// The certificate chain.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// An HTTPS server and, unless calls are anonymous, the caller's certificate.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `host:port`, without scheme.
    pub address: String,
    /// The authority that signed the server's certificate, PEM.
    pub ca: String,
    /// Who calls; `None` is anonymous.
    pub client: Option<ClientIdentity>,
}

impl Endpoint {
    /// Reads the current context (or the named one) of a kubeconfig that uses a client certificate.
    pub fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let file: Kubeconfig =
            serde_saphyr::from_str(&text).map_err(|error| anyhow!("parsing {}: {error}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let wanted = context.or(file.current_context.as_deref()).context("the kubeconfig has no current context")?;
        let context = named(&file.contexts, wanted, |entry| &entry.name)?;
        let cluster = &named(&file.clusters, &context.context.cluster, |entry| &entry.name)?.cluster;
        let user = &named(&file.users, &context.context.user, |entry| &entry.name)?.user;
        let address = cluster.server.strip_prefix("https://").context("the kubeconfig's server is not https")?;
        Ok(Self {
            address: address.trim_end_matches('/').to_owned(),
            ca: pem(folder, cluster.authority_data.as_deref(), cluster.authority.as_deref())?,
            client: Some(ClientIdentity {
                certificate: pem(folder, user.certificate_data.as_deref(), user.certificate.as_deref())?,
                key: pem(folder, user.key_data.as_deref(), user.key.as_deref())?,
            }),
        })
    }

    /// A kubeconfig with everything in it and this namespace as the default; for callers with a certificate.
    pub fn kubeconfig(&self, namespace: &str) -> Result<String> {
        kubeconfig(&[("peer", self)], namespace)
    }

    /// The same server, called by nobody in particular.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        Self { client: None, ..self.clone() }
    }
}

/// One kubeconfig for several servers, as people who administer them have it; the first context is the current one.
pub fn kubeconfig(servers: &[(&str, &Endpoint)], namespace: &str) -> Result<String> {
    let (mut clusters, mut users, mut contexts) = (Vec::new(), Vec::new(), Vec::<Value>::new());
    for (name, endpoint) in servers {
        let client = endpoint.client.as_ref().context("an anonymous endpoint has no kubeconfig")?;
        clusters.push(json!({"name": name, "cluster": {
            "server": format!("https://{}", endpoint.address),
            "certificate-authority-data": STANDARD.encode(&endpoint.ca),
        }}));
        users.push(json!({"name": name, "user": {
            "client-certificate-data": STANDARD.encode(&client.certificate),
            "client-key-data": STANDARD.encode(&client.key),
        }}));
        contexts.push(json!({"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}));
    }
    let tree = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": servers.first().map(|(name, _)| name),
        "clusters": clusters,
        "users": users,
        "contexts": contexts,
    });
    // JSON is YAML.
    Ok(serde_json::to_string_pretty(&tree)?)
}

fn named<'a, T>(list: &'a [T], name: &str, of: impl Fn(&T) -> &str) -> Result<&'a T> {
    list.iter().find(|entry| of(entry) == name).with_context(|| format!("the kubeconfig has no entry {name:?}"))
}

fn pem(folder: &Path, data: Option<&str>, file: Option<&str>) -> Result<String> {
    match (data, file) {
        (Some(data), _) => Ok(String::from_utf8(STANDARD.decode(data.trim())?)?),
        (None, Some(file)) => {
            let path = folder.join(file);
            std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
        }
        (None, None) => Err(anyhow!("the kubeconfig lacks a certificate, key or authority")),
    }
}

#[derive(Deserialize)]
struct Kubeconfig {
    #[serde(rename = "current-context")]
    current_context: Option<String>,
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
    contexts: Vec<NamedContext>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: ContextEntry,
}

#[derive(Deserialize)]
struct ContextEntry {
    cluster: String,
    user: String,
}

#[derive(Deserialize)]
struct Cluster {
    server: String,
    #[serde(rename = "certificate-authority")]
    authority: Option<String>,
    #[serde(rename = "certificate-authority-data")]
    authority_data: Option<String>,
}

#[derive(Deserialize)]
struct User {
    #[serde(rename = "client-certificate")]
    certificate: Option<String>,
    #[serde(rename = "client-certificate-data")]
    certificate_data: Option<String>,
    #[serde(rename = "client-key")]
    key: Option<String>,
    #[serde(rename = "client-key-data")]
    key_data: Option<String>,
}
