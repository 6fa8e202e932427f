//! An agent as the hub's Argo CD knows it: a cluster Secret.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use thane_api::code;
use thane_hub::registration::Registration;
use thane_runtime::pki::{self, Details};
use thane_sync::mapping::is_dns_label;
use thane_sync::object::AGENT_NAME;

use crate::failure::Failure;

pub(crate) use thane_hub::registration::secret_name;

/// Selects the Secrets that stand for agents.
pub(crate) const SELECTOR: &str = AGENT_NAME;

/// An agent as its Secret has it.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) agent: String,
    pub(crate) server: String,
    pub(crate) labels: Map<String, Value>,
    /// The certificate Argo CD shows to the resource proxy, or why it cannot be read.
    pub(crate) certificate: Result<Details, String>,
}

/// Refuses names that no agent can have.
pub(crate) fn check_name(agent: &str, hub_namespace: &str) -> Result<(), Failure> {
    if !is_dns_label(agent) {
        let message = format!("{agent:?} cannot be an agent: use up to 63 lowercase letters, digits and '-'");
        return Err(Failure::new(code::USAGE, message));
    }
    if agent == hub_namespace {
        return Err(Failure::new(code::USAGE, format!("{agent:?} is the hub's own namespace")));
    }
    Ok(())
}

/// Where Argo CD finds the agent: at the resource proxy.
pub(crate) fn server_url(proxy: &str, agent: &str) -> Result<String, Failure> {
    let bad = || Failure::new(code::USAGE, format!("{proxy:?} is not HOST:PORT of a resource proxy"));
    let (host, port) = proxy.rsplit_once(':').ok_or_else(bad)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    if host.is_empty() || !host.chars().all(plain) || port.parse::<u16>().is_err() {
        return Err(bad());
    }
    Ok(format!("https://{proxy}?agentName={agent}"))
}

/// A new Secret for an agent.
pub(crate) fn secret(registration: &Registration<'_>, labels: &[(String, String)]) -> Value {
    let mut secret = registration.secret();
    for (name, value) in labels {
        let own = &mut secret["metadata"]["labels"];
        if own.get(name).is_none() {
            own[name.as_str()] = value.as_str().into();
        }
    }
    secret
}

impl Cluster {
    /// Reads a Secret; none if it names no agent.
    pub(crate) fn read(secret: &Value) -> Option<Self> {
        let labels = secret["metadata"]["labels"].as_object()?.clone();
        let agent = labels.get(AGENT_NAME)?.as_str()?.to_owned();
        let text = |key: &str| decoded(&secret["data"][key]);
        let certificate = text("config").ok_or("it has no config".to_owned()).and_then(|config| certificate(&config));
        Some(Self { agent, server: text("server").unwrap_or_default(), labels, certificate })
    }
}

fn certificate(config: &str) -> Result<Details, String> {
    let config: Value = serde_json::from_str(config).map_err(|error| format!("its config is not JSON: {error}"))?;
    let pem = decoded(&config["tlsClientConfig"]["certData"]).ok_or("its config has no certificate")?;
    let details = pki::inspect(&pem).map_err(|error| error.to_string())?;
    details.into_iter().next().ok_or_else(|| "its config has no certificate".to_owned())
}

fn decoded(field: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(field.as_str()?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_says_what_it_was_made_of() {
        let now = jiff::Timestamp::from_second(1_800_000_000).unwrap();
        let day = std::time::Duration::from_hours(24);
        let authority = pki::Authority::create("test", now, day).unwrap();
        let identity = authority.issue(&pki::Request::agent("blue"), now, day).unwrap();
        let ca_pem = authority.cert_pem();
        let (agent, proxy) = ("blue", "proxy:9090");
        let registration = Registration { agent, namespace: "argocd", proxy, ca_pem, identity: &identity };
        let secret = secret(&registration, &[("tier".to_owned(), "one".to_owned())]);
        assert_eq!(server_url(proxy, agent).unwrap(), "https://proxy:9090?agentName=blue");
        let cluster = Cluster::read(&secret).unwrap();
        assert_eq!((cluster.agent.as_str(), cluster.server.as_str()), ("blue", "https://proxy:9090?agentName=blue"));
        assert_eq!(cluster.labels["tier"], "one");
        assert_eq!(cluster.certificate.unwrap().subject.common_name, "blue");
        assert!(Cluster::read(&json!({"metadata": {"labels": {}}})).is_none());
    }

    #[test]
    fn names_and_addresses_are_checked() {
        for good in ["proxy:9090", "10.0.0.1:1", "[::1]:9090", "a.b.c:443"] {
            assert!(server_url(good, "a").is_ok(), "{good}");
        }
        for bad in ["proxy", ":1", "a b:1", "a:http", "a:70000", "https://a:1"] {
            assert!(server_url(bad, "a").is_err(), "{bad}");
        }
        assert!(check_name("blue-1", "argocd").is_ok());
        for bad in ["", "Blue", "a.b", "argocd", "-a"] {
            assert!(check_name(bad, "argocd").is_err(), "{bad}");
        }
    }
}
