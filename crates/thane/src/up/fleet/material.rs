//! Keys and certificates of the fleet of `thane up`, kept in its data directory.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use thane_api::code;
use thane_hub::gate::generate_short_key;
use thane_runtime::files::write_private;
use thane_runtime::pki::store::{self, Paths, create_directory};
use thane_runtime::pki::{Identity, Request, kept};

use crate::failure::Failure;

/// Everything hub and agents prove themselves with.
pub(in crate::up) struct Material {
    pub(in crate::up) ca_pem: String,
    pub(super) hub: Identity,
    /// One for each agent, in their order.
    pub(in crate::up) agents: Vec<Identity>,
    /// What Argo CD shows to the resource proxy, one for each agent.
    pub(super) proxies: Vec<Identity>,
    /// The key that signs tokens.
    pub(super) token_key: String,
}

impl Material {
    /// Reads what is there, and makes what is missing or due.
    pub(super) async fn keep(directory: PathBuf, agents: &[&String], now: Timestamp) -> Result<Self, Failure> {
        let agents: Vec<String> = agents.iter().map(ToString::to_string).collect();
        // Making an RSA key takes a moment.
        let made = tokio::task::spawn_blocking(move || Self::make(&directory, &agents, now)).await;
        made.map_err(|error| Failure::new(code::BUG, format!("make the fleet's keys: {error}")))?
    }

    fn make(directory: &Path, agents: &[String], now: Timestamp) -> Result<Self, Failure> {
        create_directory(directory)?;
        let authority = kept::authority(&Paths::new(directory, "ca"), "thane-fleet", now)?;
        let issue = |name: &str, request: &Request| -> Result<Identity, Failure> {
            Ok(kept::identity(&Paths::new(directory, name), &authority, request, now)?.0)
        };
        let hub = issue("hub", &Request::server("thane-hub", ["localhost", "127.0.0.1", "::1"]))?;
        let mut made = (Vec::new(), Vec::new());
        for agent in agents {
            made.0.push(issue(&format!("agent-{agent}"), &Request::agent(agent))?);
            made.1.push(issue(&format!("proxy-{agent}"), &Request::proxy(agent))?);
        }
        let path = directory.join("tokens.key");
        let token_key = if path.exists() {
            store::read(&path)?
        } else {
            let key = generate_short_key().map_err(|error| Failure::new(code::BUG, error.to_string()))?;
            let written = write_private(&path, key.as_bytes());
            written.map_err(|error| Failure::new(code::FILE_FAILED, format!("{}: {error}", path.display())))?;
            key
        };
        Ok(Self { ca_pem: authority.cert_pem().to_owned(), hub, agents: made.0, proxies: made.1, token_key })
    }
}
