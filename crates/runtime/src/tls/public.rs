//! TLS towards anybody: believed is whom this machine believes.

use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore};

use super::provider;

/// A client that shows no certificate and believes the machine's authorities, and these.
pub fn public_client(besides: Option<&RootCertStore>) -> Result<Arc<ClientConfig>, super::Error> {
    let mut roots = RootCertStore::empty();
    roots.extend(machine().roots.iter().chain(besides.into_iter().flat_map(|own| &own.roots)).cloned());
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The machine's authorities, read once; a machine that has none believes nobody.
fn machine() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::debug!(%error, "authorities of this machine cannot be read");
        }
        roots.add_parsable_certificates(found.certs);
        roots
    })
}
