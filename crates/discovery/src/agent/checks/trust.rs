//! Whom checks believe over TLS.

use std::sync::Arc;

use rustls::ClientConfig;
use thane_runtime::tls;

/// Whom checks believe over TLS.
pub(in crate::agent) struct Trusted {
    /// What the agent itself believes; a check shows no certificate of its own.
    pub(super) ca: Option<Arc<ClientConfig>>,
}

impl Trusted {
    /// How TLS is spoken by a check.
    pub(super) fn config(&self, is_unseen: bool) -> Result<Arc<ClientConfig>, String> {
        if !is_unseen {
            return self.ca.clone().ok_or_else(|| {
                "the agent has no authority to verify certificates with: set tls.ca_cert, or TLSSkipVerify".to_owned()
            });
        }
        tls::unverified_client().map_err(|error| error.to_string())
    }
}
