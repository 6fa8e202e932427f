//! Who makes a request: client certificates, bearer tokens and impersonation.
//!
//! Everything here is synchronous. A service-account token also needs a look at the store (is the account still there?):
//! [`Authenticator::identify`] hands back [`Claims`], the caller reads what [`Claims::references`] names and asks
//! [`Claims::user`].

mod certificate;
mod csv;
mod discovery;
mod impersonation;
mod issuer;
mod token;
mod token_file;
mod token_request;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::authz::User;

pub use certificate::ClientCertificate;
pub use discovery::{JWKS_PATH, OPENID_CONFIGURATION_PATH, openid_configuration};
pub use impersonation::{Impersonation, impersonation};
pub use issuer::{KeyError, TokenIssuer};
pub use token::{Claims, Found, Kubernetes, NamedUid, Reference, TokenError};
pub use token_file::{TokenFile, TokenFileError};
pub use token_request::{BoundObject, TokenRequest, token_request};

/// Everyone who proved who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everyone who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of whoever sent no credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// All service accounts.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The ways by which this server knows its clients.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// Static tokens.
    pub token_file: Option<TokenFile>,
    /// Service-account tokens.
    pub issuer: Option<TokenIssuer>,
    /// Whether a request without credentials is let in as `system:anonymous`; off by default.
    pub anonymous: bool,
}

/// What the credentials of a request say.
#[derive(Debug, Clone, PartialEq)]
pub enum Identity {
    /// Known.
    User(User),
    /// A valid service-account token; its objects must still be looked up.
    Claims(Box<Claims>),
    /// Refuse with [`crate::failure::Failure::unauthorized`]; the errors are for the log, and for a `TokenReview`.
    Refused(Vec<TokenError>),
}

impl Authenticator {
    /// Who sends this request. `certificate` is the client's, `authorization` the header's value.
    pub fn identify(
        &self,
        certificate: Option<&ClientCertificate>,
        authorization: Option<&str>,
        now: Timestamp,
    ) -> Identity {
        let by_certificate = certificate.map_or(Ok(None), |certificate| certificate.user(now));
        if let Ok(Some(user)) = by_certificate {
            return Identity::User(user);
        }
        let mut errors = by_certificate.err().into_iter().collect::<Vec<_>>();
        if let Some(token) = authorization.and_then(bearer_token) {
            match self.identify_token(token, &[], now) {
                Identity::Refused(more) => errors.extend(more),
                known => return known,
            }
        }
        if errors.is_empty() && self.anonymous {
            return Identity::User(anonymous_user());
        }
        Identity::Refused(errors)
    }

    /// Whose token this is, for the audiences given (none: the server's own).
    pub fn identify_token(&self, token: &str, audiences: &[String], now: Timestamp) -> Identity {
        // A static token is for whatever this server is for.
        let for_us = self.issuer.as_ref().is_none_or(|issuer| !issuer.common_audiences(&[], audiences).is_empty());
        if let Some(user) = self.token_file.as_ref().filter(|_| for_us).and_then(|file| file.user(token)) {
            return Identity::User(user);
        }
        match self.issuer.as_ref().map_or(Ok(None), |issuer| issuer.read(token, audiences, now)) {
            Ok(Some(claims)) => Identity::Claims(Box::new(claims)),
            Ok(None) => Identity::Refused(vec![TokenError::Unknown]),
            Err(error) => Identity::Refused(vec![error]),
        }
    }
}

/// The token in an `Authorization` header, if it is a bearer token.
pub fn bearer_token(authorization: &str) -> Option<&str> {
    let mut parts = authorization.trim().split(' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Whoever sends no credentials.
pub fn anonymous_user() -> User {
    User { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..User::default() }
}

/// The user name of a service account.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups of a service account, `system:authenticated` aside.
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![SERVICE_ACCOUNTS.into(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// Namespace and name in the user name of a service account.
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let label = |text: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        !text.is_empty()
            && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            && edge(text.as_bytes().first())
            && edge(text.as_bytes().last())
    };
    (namespace.len() <= 63 && label(namespace) && name.len() <= 253 && name.split('.').all(label))
        .then_some((namespace, name))
}

/// Adds `system:authenticated`, which every authenticated user is in.
fn authenticated(mut user: User) -> User {
    if !user.is_in(AUTHENTICATED) && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.into());
    }
    user
}

fn extra(pairs: impl IntoIterator<Item = (&'static str, String)>) -> BTreeMap<String, Vec<String>> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), vec![value])).collect()
}

#[cfg(test)]
mod tests;
