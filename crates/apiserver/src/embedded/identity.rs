//! The keys and certificates of one server, made once and renewed when they are due.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use thane_runtime::pki::store::{self, Paths};
use thane_runtime::pki::{Authority, Identity, Request, Subject, inspect};

use super::Error;
use crate::authn::TokenIssuer;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const AUTHORITY_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Names every server certificate answers for.
const OWN_NAMES: &[&str] =
    &["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1"];

/// What a server shows and believes.
pub(super) struct Identities {
    pub ca: Paths,
    pub ca_pem: String,
    pub server: Paths,
    pub admin: Identity,
    pub token_key: String,
}

impl Identities {
    /// Reads them from a directory, making what is missing or due. The authority signs this server's own clients only.
    pub(super) fn open(directory: &Path, names: &[String], now: Timestamp) -> Result<Self, Error> {
        store::create_directory(directory)?;
        let ca = Paths::new(directory, "ca");
        let authority = if ca.exist() {
            store::load_authority(&ca)?
        } else {
            let authority = Authority::create("thane-apiserver", now, AUTHORITY_LIFE)?;
            store::save(&ca, authority.identity())?;
            authority
        };
        let mut all: Vec<String> = OWN_NAMES.iter().map(|name| (*name).to_owned()).collect();
        all.extend(names.iter().filter(|name| !OWN_NAMES.contains(&name.as_str())).cloned());
        let server = Paths::new(directory, "server");
        current(&server, &authority, &Request::server("kube-apiserver", all), now)?;
        let subject = Subject {
            common_name: "admin".to_owned(),
            organization: Some(crate::authz::MASTERS.to_owned()),
            organizational_unit: None,
        };
        let admin = current(&Paths::new(directory, "admin"), &authority, &Request::client(subject), now)?;
        let token_key = token_key(directory)?;
        Ok(Self { ca, ca_pem: authority.cert_pem().to_owned(), server, admin, token_key })
    }
}

/// The identity in the files if it is still what is wanted, otherwise a new one.
fn current(paths: &Paths, authority: &Authority, wanted: &Request, now: Timestamp) -> Result<Identity, Error> {
    if paths.exist() {
        let identity = store::load(paths)?;
        let details = inspect(&identity.cert_pem)?;
        let serves = details
            .first()
            .is_some_and(|leaf| !leaf.renewal_due(now) && wanted.names.iter().all(|name| leaf.names.contains(name)));
        if serves {
            return Ok(identity);
        }
    }
    let identity = authority.issue(wanted, now, YEAR)?;
    store::save(paths, &identity)?;
    Ok(identity)
}

fn token_key(directory: &Path) -> Result<String, Error> {
    let path = directory.join("service-account.key");
    if path.exists() {
        return Ok(store::read(&path)?);
    }
    let key = TokenIssuer::generate_key().map_err(|error| Error::Key(error.to_string()))?;
    thane_runtime::files::write_private(&path, key.as_bytes())
        .map_err(|source| Error::File { path: path.clone(), source })?;
    Ok(key)
}
