//! What a service-account token says, and whether it still holds.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{CREDENTIAL_ID, authenticated, extra, service_account_groups, service_account_name};
use crate::authz::User;
use crate::go;

/// How far clocks may differ.
const LEEWAY: SignedDuration = SignedDuration::from_mins(1);

/// Why credentials were refused, worded as a `TokenReview` shows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Nobody's token.
    #[error("invalid bearer token")]
    Unknown,
    /// Not signed by a key of this server.
    #[error("invalid signature, no keys found")]
    NoKey,
    /// The signature does not verify.
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
    /// Signed by this server in another name.
    #[error("token issuer {0:?} is invalid")]
    Issuer(String),
    /// Claims that Kubernetes would not write.
    #[error("service account token claims could not be validated: {0}")]
    Malformed(String),
    /// For someone else.
    #[error("token audiences {} is invalid for the target audiences {}", go::quoted_list(.0), go::quoted_list(.1))]
    Audience(Vec<String>, Vec<String>),
    /// Too late.
    #[error("service account token has expired")]
    Expired,
    /// Too early.
    #[error("service account token is not valid yet")]
    NotYet,
    /// From the future.
    #[error("service account token is issued in the future")]
    FromFuture,
    /// The account is gone.
    #[error("serviceaccounts {0:?} not found")]
    NoServiceAccount(String),
    /// The account is on its way out.
    #[error("service account {0} has been deleted")]
    Deleted(String),
    /// An object of the name exists, but it is another one.
    #[error("{what} UID ({found}) does not match {claim} ({wanted})")]
    Uid {
        /// What was looked up.
        what: &'static str,
        /// Its uid now.
        found: String,
        /// Which claim says otherwise.
        claim: &'static str,
        /// The uid in the token.
        wanted: String,
    },
    /// What the token is bound to is gone.
    #[error("service account token has been invalidated")]
    Invalidated,
    /// A client certificate that cannot be used.
    #[error("client certificate {0}")]
    Certificate(String),
}

/// The claims Kubernetes writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// Whom the token is for.
    #[serde(default, with = "audience", skip_serializing_if = "Vec::is_empty")]
    pub aud: Vec<String>,
    /// Expiry, in seconds.
    pub exp: i64,
    /// When it was issued.
    #[serde(default)]
    pub iat: i64,
    /// Issuer.
    pub iss: String,
    /// Id of the token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jti: String,
    /// What is particular to Kubernetes.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Kubernetes,
    /// When it starts to hold.
    #[serde(default)]
    pub nbf: i64,
    /// The user name of the account.
    pub sub: String,
}

/// The claim `kubernetes.io`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kubernetes {
    /// Namespace of the account.
    pub namespace: String,
    /// The node of the pod, or the node the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NamedUid>,
    /// The pod the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<NamedUid>,
    /// The secret the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<NamedUid>,
    /// The account.
    pub serviceaccount: NamedUid,
    /// When to warn of use, where the expiry was extended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// An object by name and uid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedUid {
    /// Name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// An object that must exist for a token to hold; all are in the core group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `serviceaccounts`, `secrets`, `pods` or `nodes`.
    pub resource: &'static str,
    /// Namespace; empty for a node.
    pub namespace: String,
    /// Name.
    pub name: String,
    uid: String,
}

/// What was found under a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
}

impl Found {
    /// Of an object.
    pub fn of(object: &serde_json::Value) -> Self {
        let text = |key: &str| object.get("metadata")?.get(key)?.as_str();
        Self {
            uid: text("uid").unwrap_or_default().to_owned(),
            deleted: text("deletionTimestamp").and_then(|time| time.parse().ok()),
        }
    }
}

impl Claims {
    /// The objects that must still exist, the account first.
    pub fn references(&self) -> Vec<Reference> {
        let claims = &self.kubernetes;
        let local = |resource, target: &NamedUid| Reference {
            resource,
            namespace: claims.namespace.clone(),
            name: target.name.clone(),
            uid: target.uid.clone(),
        };
        let mut out = vec![local("serviceaccounts", &claims.serviceaccount)];
        out.extend(claims.secret.iter().map(|secret| local("secrets", secret)));
        out.extend(claims.pod.iter().map(|pod| local("pods", pod)));
        if claims.pod.is_none() {
            // With a pod, the node only tells where it runs.
            out.extend(claims.node.iter().map(|node| Reference { namespace: String::new(), ..local("nodes", node) }));
        }
        out
    }

    /// The user, given what `find` says of each of [`Claims::references`].
    pub fn user(&self, now: Timestamp, find: impl Fn(&Reference) -> Option<Found>) -> Result<User, TokenError> {
        for reference in self.references() {
            reference.check(now, find(&reference))?;
        }
        let claims = &self.kubernetes;
        let mut facts = Vec::new();
        if !self.jti.is_empty() {
            facts.push((CREDENTIAL_ID, format!("JTI={}", self.jti)));
        }
        if let Some(pod) = claims.pod.as_ref().filter(|pod| !pod.name.is_empty() && !pod.uid.is_empty()) {
            facts.push(("authentication.kubernetes.io/pod-name", pod.name.clone()));
            facts.push(("authentication.kubernetes.io/pod-uid", pod.uid.clone()));
        }
        if let Some(node) = claims.node.as_ref().filter(|node| !node.name.is_empty()) {
            facts.push(("authentication.kubernetes.io/node-name", node.name.clone()));
            if !node.uid.is_empty() {
                facts.push(("authentication.kubernetes.io/node-uid", node.uid.clone()));
            }
        }
        Ok(authenticated(User {
            name: service_account_name(&claims.namespace, &claims.serviceaccount.name),
            uid: claims.serviceaccount.uid.clone(),
            groups: service_account_groups(&claims.namespace),
            extra: extra(facts),
        }))
    }

    /// Whether the token holds at this time.
    pub(super) fn check_times(&self, now: Timestamp) -> Result<(), TokenError> {
        let (now, leeway) = (now.as_second(), LEEWAY.as_secs());
        if now + leeway < self.nbf {
            return Err(TokenError::NotYet);
        }
        if now - leeway > self.exp {
            return Err(TokenError::Expired);
        }
        if now + leeway < self.iat { Err(TokenError::FromFuture) } else { Ok(()) }
    }
}

impl Reference {
    fn check(&self, now: Timestamp, found: Option<Found>) -> Result<(), TokenError> {
        let account = self.resource == "serviceaccounts";
        let Some(found) = found else {
            let gone = TokenError::NoServiceAccount(self.name.clone());
            return Err(if account { gone } else { TokenError::Invalidated });
        };
        if found.uid != self.uid {
            let (what, claim) = match self.resource {
                "serviceaccounts" => ("service account", "claim"),
                "secrets" => ("secret", "service account secret ref claim"),
                "pods" => ("pod", "service account pod ref claim"),
                _ => ("node", "service account node ref claim"),
            };
            return Err(TokenError::Uid { what, found: found.uid, claim, wanted: self.uid.clone() });
        }
        match found.deleted {
            Some(deleted) if now.duration_since(deleted) > LEEWAY => {
                let gone = TokenError::Deleted(format!("{}/{}", self.namespace, self.name));
                Err(if account { gone } else { TokenError::Invalidated })
            }
            _ => Ok(()),
        }
    }
}

/// `aud` is one string or a list of them.
mod audience {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }

    pub(super) fn serialize<S: Serializer>(list: &[String], serializer: S) -> Result<S::Ok, S::Error> {
        list.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
        Ok(match OneOrMany::deserialize(deserializer)? {
            OneOrMany::One(text) => vec![text],
            OneOrMany::Many(list) => list,
        })
    }
}
