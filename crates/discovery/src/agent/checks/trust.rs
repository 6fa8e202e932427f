//! Whom checks believe over TLS: the machine's authorities, as Consul's checks do, and the agent's own.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore};
use thane_runtime::tls::{self, ClientTls};

/// Whom checks believe over TLS. A check shows no certificate of its own.
pub(in crate::agent) struct Trusted {
    /// What the agent itself calls its hub with; it follows its files.
    tls: Option<ClientTls>,
    /// What was made of those authorities last.
    made: Mutex<Option<Made>>,
}

struct Made {
    of: Option<Arc<RootCertStore>>,
    config: Arc<ClientConfig>,
}

impl Trusted {
    pub(super) fn new(tls: Option<ClientTls>) -> Self {
        Self { tls, made: Mutex::default() }
    }

    /// How TLS is spoken by a check.
    pub(super) fn config(&self, is_unseen: bool) -> Result<Arc<ClientConfig>, String> {
        if is_unseen {
            return tls::unverified_client().map_err(|error| error.to_string());
        }
        let own = self.tls.as_ref().map(ClientTls::authorities);
        let mut made = self.made.lock();
        if let Some(known) = &*made
            && same(known.of.as_ref(), own.as_ref())
        {
            return Ok(Arc::clone(&known.config));
        }
        let config = tls::public_client(own.as_deref()).map_err(|error| error.to_string())?;
        *made = Some(Made { of: own, config: Arc::clone(&config) });
        Ok(config)
    }
}

fn same(one: Option<&Arc<RootCertStore>>, other: Option<&Arc<RootCertStore>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}
