//! Certificates of a fleet, signed by the authority in the hub's Secret.

use std::time::Duration;

use jiff::Timestamp;
use thane_api::code;
use thane_runtime::pki::{Authority, Identity, Request};

use super::objects::{Objects, Put};
use super::{CA, CLIENT_TLS};
use crate::failure::Failure;
use crate::roles::secrets::Wanted;

const TLS: &str = "kubernetes.io/tls";
const OPAQUE: &str = "Opaque";

/// Keeps a new authority on the hub.
pub(crate) async fn save_authority(hub: &Objects<'_>, authority: &Authority, replace: bool) -> Result<Put, Failure> {
    save(hub, CA, authority.identity(), replace).await
}

/// The hub's authority.
pub(crate) async fn authority(hub: &Objects<'_>) -> Result<Authority, Failure> {
    let what = format!("Secret {}/{CA}", hub.namespace());
    let remedy = "make it with `thane pki init --context CONTEXT`";
    let secret = hub.secret(CA).await?;
    let secret =
        secret.ok_or_else(|| Failure::new(code::SECRET_MISSING, format!("{what} is not there")).with_hint(remedy))?;
    let unusable = |why: String| Failure::new(code::SECRET_UNUSABLE, format!("{what}: {why}")).with_hint(remedy);
    let texts = Wanted::Identity.read(&secret).map_err(unusable)?;
    Authority::from_pem(&texts[0], &texts[1]).map_err(|error| unusable(error.to_string()))
}

/// Keeps a certificate in a Secret of the kind for them.
pub(crate) async fn save(
    objects: &Objects<'_>,
    name: &str,
    identity: &Identity,
    replace: bool,
) -> Result<Put, Failure> {
    objects.put_secret(name, TLS, &[("tls.crt", &identity.cert_pem), ("tls.key", &identity.key_pem)], replace).await
}

/// Gives an agent its certificate and its hub's authority.
pub(crate) async fn give_to_agent(
    agent: &Objects<'_>,
    name: &str,
    authority: &Authority,
    now: Timestamp,
    lifetime: Duration,
    replace: bool,
) -> Result<Identity, Failure> {
    let identity = authority.issue(&Request::agent(name), now, lifetime)?;
    save(agent, CLIENT_TLS, &identity, replace).await?;
    // An agent beside its hub finds the hub's own Secret, whose key must not be lost.
    let is_hubs = agent.secret(CA).await?.is_some_and(|secret| secret["data"].get("tls.key").is_some());
    if !is_hubs {
        agent.put_secret(CA, OPAQUE, &[("ca.crt", authority.cert_pem())], true).await?;
    }
    Ok(identity)
}
