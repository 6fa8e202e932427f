//! The keys and certificates of one server, made once and renewed when they are due.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use thane_runtime::pki::store::{self, Paths};
use thane_runtime::pki::{Identity, Request, Subject, kept};

use super::Error;
use crate::authn::TokenIssuer;

/// Names every server certificate answers for.
const OWN_NAMES: &[&str] =
    &["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1"];

/// Where a server keeps its keys and certificates, and what they should say.
#[derive(Debug, Clone)]
pub(super) struct Identities {
    directory: PathBuf,
    wanted: Request,
}

/// What clients of a server need: whom to trust, and who they are themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// What clients trust the server by.
    pub ca_pem: String,
    /// The administrator's certificate and key.
    pub admin: Identity,
}

/// The certificates as they are now.
pub(super) struct Current {
    pub credentials: Credentials,
    /// When the first of them should be renewed.
    pub renewal_at: Timestamp,
}

impl Identities {
    /// Identities in a directory, for a server with these names besides those that every one has.
    pub(super) fn open(directory: PathBuf, names: &[String]) -> Result<Self, Error> {
        store::create_directory(&directory)?;
        let mut all: Vec<String> = OWN_NAMES.iter().map(|name| (*name).to_owned()).collect();
        all.extend(names.iter().filter(|name| !OWN_NAMES.contains(&name.as_str())).cloned());
        Ok(Self { directory, wanted: Request::server("kube-apiserver", all) })
    }

    /// The authority that signs this server's own clients only.
    pub(super) fn ca(&self) -> Paths {
        Paths::new(&self.directory, "ca")
    }

    /// The server's own certificate.
    pub(super) fn server(&self) -> Paths {
        Paths::new(&self.directory, "server")
    }

    /// Makes what is missing, due or not as wanted, and reads the rest.
    pub(super) fn refresh(&self, now: Timestamp) -> Result<Current, Error> {
        let authority = kept::authority(&self.ca(), "thane-apiserver", now)?;
        let (_, server_due) = kept::identity(&self.server(), &authority, &self.wanted, now)?;
        let subject = Subject {
            common_name: "admin".to_owned(),
            organization: Some(crate::authz::MASTERS.to_owned()),
            organizational_unit: None,
        };
        let (admin, admin_due) =
            kept::identity(&Paths::new(&self.directory, "admin"), &authority, &Request::client(subject), now)?;
        let renewal_at = server_due.min(admin_due).min(authority.details().renewal_at());
        let credentials = Credentials { ca_pem: authority.cert_pem().to_owned(), admin };
        Ok(Current { credentials, renewal_at })
    }

    /// The key that signs tokens of service accounts.
    pub(super) fn token_key(&self) -> Result<String, Error> {
        token_key(&self.directory)
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thane_runtime::pki::inspect;

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn certificates_stay_until_they_are_due_and_the_authority_keeps_its_key() {
        let directory = tempfile::tempdir().unwrap();
        let identities = Identities::open(directory.path().join("pki"), &[]).unwrap();
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        let first = identities.refresh(start).unwrap();
        assert!(first.renewal_at > start + 240 * DAY && first.renewal_at < start + 245 * DAY);
        let same = identities.refresh(start + 200 * DAY).unwrap();
        assert_eq!((&same.credentials, same.renewal_at), (&first.credentials, first.renewal_at));

        let renewed = identities.refresh(start + 300 * DAY).unwrap();
        assert_ne!(renewed.credentials.admin, first.credentials.admin);
        assert_eq!(renewed.credentials.ca_pem, first.credentials.ca_pem);
        assert!(renewed.renewal_at > first.renewal_at);

        // Clients that trust the authority as it was believe certificates it signs after its own renewal.
        let late = identities.refresh(start + 2500 * DAY).unwrap();
        assert_ne!(late.credentials.ca_pem, first.credentials.ca_pem);
        let old = thane_runtime::pki::Trust::from_pem(&first.credentials.ca_pem).unwrap();
        old.verify(&late.credentials.admin.cert_pem, start + 2500 * DAY).unwrap();
    }

    #[test]
    fn a_new_name_makes_a_new_server_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let open = |names: &[String]| Identities::open(directory.path().to_owned(), names).unwrap();
        open(&[]).refresh(now).unwrap();
        let identities = open(&["hub.example.com".to_owned()]);
        identities.refresh(now).unwrap();
        let pem = store::read(&identities.server().cert).unwrap();
        assert!(inspect(&pem).unwrap()[0].names.contains(&"hub.example.com".to_owned()));
    }
}
