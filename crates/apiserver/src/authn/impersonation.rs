//! Acting as someone else: the `Impersonate-*` headers.

use http::HeaderMap;

use super::{
    ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, service_account_groups, service_account_name, split_service_account,
};
use crate::authz::{Action, User};
use crate::failure::{Failure, Result};
use crate::go;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Whom a request wants to act as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonation {
    /// Each must be allowed to the real user; else [`crate::authz::forbidden`] with the real user and that action.
    pub actions: Vec<Action>,
    /// Who the request then is.
    pub user: User,
}

/// One thing to act as.
enum Part {
    Account { namespace: String, name: String },
    User(String),
    Group(String),
    Extra { key: String, value: String },
    Uid(String),
}

/// What the headers ask for; `None` when nothing. `uri` is the request's, for the message.
pub fn impersonation(headers: &HeaderMap, uri: impl std::fmt::Display) -> Result<Option<Impersonation>> {
    let parts = parts(headers);
    if parts.is_empty() {
        return Ok(None);
    }
    if !matches!(parts.first(), Some(Part::User(_) | Part::Account { .. })) {
        let shown = parts.iter().map(Part::shown).collect::<Vec<_>>().join(" ");
        let text = format!(
            "Internal Server Error: {}: requested [{shown}] without impersonating a user",
            go::quoted(&uri.to_string())
        );
        return Err(Failure::new(500, "InternalError", crate::authz::sanitised(&text)).as_text());
    }
    let grouped = headers.contains_key(GROUP);
    let mut user = User::default();
    for part in &parts {
        match part {
            Part::Account { namespace, name } => {
                user.name = service_account_name(namespace, name);
                if !grouped {
                    user.groups = service_account_groups(namespace);
                }
            }
            Part::User(name) => user.name.clone_from(name),
            Part::Group(group) => user.groups.push(group.clone()),
            Part::Extra { key, value } => user.extra.entry(key.clone()).or_default().push(value.clone()),
            Part::Uid(uid) => user.uid.clone_from(uid),
        }
    }
    let implied = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !user.is_in(implied) && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(implied.into());
    }
    Ok(Some(Impersonation { actions: parts.into_iter().map(Part::action).collect(), user }))
}

fn parts(headers: &HeaderMap) -> Vec<Part> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).filter(|value| !value.is_empty());
    let mut parts = Vec::new();
    if let Some(name) = first(USER) {
        parts.push(match split_service_account(&name) {
            Some((namespace, name)) => Part::Account { namespace: namespace.into(), name: name.into() },
            None => Part::User(name),
        });
    }
    parts.extend(headers.get_all(GROUP).iter().map(|group| Part::Group(text(group))));
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            parts.push(Part::Extra { key: unescaped(key), value: text(value) });
        }
    }
    parts.extend(first(UID).map(Part::Uid));
    parts
}

impl Part {
    fn action(self) -> Action {
        let core = |resource: &str, name: String| Action {
            verb: "impersonate".into(),
            version: "v1".into(),
            resource: resource.into(),
            name,
            ..Action::default()
        };
        match self {
            Self::Account { namespace, name } => Action { namespace, ..core("serviceaccounts", name) },
            Self::User(name) => core("users", name),
            Self::Group(name) => core("groups", name),
            Self::Extra { key, value } => {
                Action { group: AUTHENTICATION.into(), subresource: key, ..core("userextras", value) }
            }
            Self::Uid(uid) => Action { group: AUTHENTICATION.into(), ..core("uids", uid) },
        }
    }

    /// As Kubernetes prints the reference: kind, namespace, name, uid, version, resource version, field path.
    fn shown(&self) -> String {
        match self {
            Self::Account { namespace, name } => format!("{{ServiceAccount {namespace} {name}    }}"),
            Self::User(name) => format!("{{User  {name}    }}"),
            Self::Group(name) => format!("{{Group  {name}    }}"),
            Self::Extra { key, value } => format!("{{UserExtra  {value}  {AUTHENTICATION}/v1  {key}}}"),
            Self::Uid(uid) => format!("{{UID  {uid}  {AUTHENTICATION}/v1  }}"),
        }
    }
}

/// A key with `%` escapes resolved, or as it is when they are malformed.
fn unescaped(key: &str) -> String {
    let bytes = key.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'%' {
            out.push(byte);
            at += 1;
            continue;
        }
        let digit = |offset: usize| bytes.get(at + offset).and_then(|digit| char::from(*digit).to_digit(16));
        let decoded = digit(1).zip(digit(2)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        let Some(decoded) = decoded else { return key.to_owned() };
        out.push(decoded);
        at += 3;
    }
    String::from_utf8_lossy(&out).into_owned()
}
