//! Authorities and identities kept in files: made once, and made anew when they are due or not as wanted.

use jiff::Timestamp;

use super::store::{self, Error, Paths};
use super::{AUTHORITY_LIFETIME, Authority, Details, Identity, LEAF_LIFETIME, Request, inspect};

/// The authority in the files, a new one of that name, or the old one with the same key and new dates.
pub fn authority(paths: &Paths, name: &str, now: Timestamp) -> Result<Authority, Error> {
    let wrong = |source| Error::Pki { path: paths.cert.clone(), source };
    let authority = if paths.exist() {
        let known = store::load_authority(paths)?;
        if !known.details().renewal_due(now) {
            return Ok(known);
        }
        known.renew_self(now, AUTHORITY_LIFETIME).map_err(wrong)?
    } else {
        Authority::create(name, now, AUTHORITY_LIFETIME).map_err(wrong)?
    };
    store::save(paths, authority.identity())?;
    Ok(authority)
}

/// The identity in the files if it is still what is wanted, otherwise a new one; and when to renew it.
pub fn identity(
    paths: &Paths,
    authority: &Authority,
    wanted: &Request,
    now: Timestamp,
) -> Result<(Identity, Timestamp), Error> {
    let wrong = |source| Error::Pki { path: paths.cert.clone(), source };
    if paths.exist() {
        let identity = store::load(paths)?;
        let details = inspect(&identity.cert_pem).map_err(wrong)?;
        let serves = details
            .first()
            .filter(|leaf| !leaf.renewal_due(now) && wanted.names.iter().all(|name| leaf.names.contains(name)));
        if let Some(leaf) = serves {
            let renewal_at = leaf.renewal_at();
            return Ok((identity, renewal_at));
        }
    }
    let identity = authority.issue(wanted, now, LEAF_LIFETIME).map_err(wrong)?;
    store::save(paths, &identity)?;
    let renewal_at = inspect(&identity.cert_pem).map_err(wrong)?.first().map_or(now, Details::renewal_at);
    Ok((identity, renewal_at))
}
