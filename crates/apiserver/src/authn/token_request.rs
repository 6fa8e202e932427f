//! The `token` subresource of a service account.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Claims, Kubernetes, NamedUid, TokenIssuer, service_account_name};
use crate::failure::{Failure, Result};
use crate::field::{FieldError, Path};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const DEFAULT_SECONDS: i64 = 60 * 60;
const MIN_SECONDS: i64 = 10 * 60;
const MAX_SECONDS: i64 = 1 << 32;
/// What old kubelets ask for: such tokens live a year, and warn after this time.
const EXTENDED_FROM: i64 = 60 * 60 + 7;
const EXTENDED_TO: i64 = 365 * 24 * 60 * 60;

/// A request for a token.
pub struct TokenRequest<'a> {
    /// The posted object.
    pub body: &'a Value,
    /// Namespace in the path.
    pub namespace: &'a str,
    /// Name of the service account in the path.
    pub name: &'a str,
    /// The service account, if there is one.
    pub account: Option<&'a Value>,
    /// Finds what the token is to be bound to, by resource (`pods`, `secrets`, `nodes`) and name; [`BoundObject::of`]
    /// tells beforehand what will be asked (and, for a pod, its node).
    pub find: &'a dyn Fn(&str, &str) -> Option<Value>,
    /// The time.
    pub now: Timestamp,
    /// A new uuid for the token's id.
    pub id: String,
}

/// What a token is to be bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundObject {
    /// `pods`, `secrets` or `nodes`; the first two are in the account's namespace.
    pub resource: &'static str,
    /// Name.
    pub name: String,
    uid: String,
}

impl BoundObject {
    /// What the body asks for.
    pub fn of(body: &Value) -> Result<Option<Self>> {
        let reference = match body.pointer("/spec/boundObjectRef") {
            None | Some(Value::Null) => return Ok(None),
            Some(reference) => reference,
        };
        let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let resource = match (group, kind) {
            ("", "Pod") => "pods",
            ("", "Node") => "nodes",
            ("", "Secret") => "secrets",
            _ => {
                let version = version.split_once('/').map_or(version, |(_, version)| version);
                let shown = format!("{group}/{version}, Kind={kind}");
                return Err(Failure::bad_request(format!("cannot bind token to object of type {shown}")));
            }
        };
        Ok(Some(Self { resource, name: text("name").into(), uid: text("uid").into() }))
    }

    fn kind(&self) -> &'static str {
        match self.resource {
            "pods" => "Pod",
            "nodes" => "Node",
            _ => "Secret",
        }
    }
}

/// Issues a token: the answer to a POST to `serviceaccounts/NAME/token`.
pub fn token_request(issuer: &TokenIssuer, request: &TokenRequest<'_>) -> Result<Value> {
    let (namespace, name) = (request.namespace, request.name);
    let account = checked_account(request)?;
    let seconds = seconds(request.body)?;
    let asked = strings(request.body.pointer("/spec/audiences"));
    let audiences = if asked.is_empty() { issuer.audiences().to_vec() } else { asked };
    let mut kubernetes =
        Kubernetes { namespace: namespace.into(), serviceaccount: named(account), ..Kubernetes::default() };
    if let Some(bound) = BoundObject::of(request.body)? {
        bind(request, &bound, &mut kubernetes)?;
    }
    let own = audiences.iter().all(|audience| issuer.audiences().contains(audience));
    let mut lifetime = seconds;
    if kubernetes.pod.is_some() && seconds == EXTENDED_FROM && own {
        kubernetes.warnafter = Some(request.now.as_second() + seconds);
        lifetime = EXTENDED_TO;
    }
    let now = request.now.as_second();
    let claims = Claims {
        aud: audiences.clone(),
        exp: now + lifetime,
        iat: now,
        iss: issuer.issuer().to_owned(),
        jti: request.id.clone(),
        kubernetes,
        nbf: now,
        sub: service_account_name(namespace, name),
    };
    let token =
        issuer.sign(&claims).map_err(|error| Failure::internal(format!("failed to generate token: {error}")))?;
    Ok(json!({
        "kind": KIND,
        "apiVersion": format!("{GROUP}/v1"),
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": text(account, "/metadata/uid"),
            "creationTimestamp": shown(request.now),
        },
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": request.body.pointer("/spec/boundObjectRef").cloned().unwrap_or_default(),
        },
        "status": {
            "token": token,
            "expirationTimestamp": shown(request.now + SignedDuration::from_secs(seconds)),
        },
    }))
}

/// The account, when the request agrees with the path and the account is the one that is meant.
fn checked_account<'a>(request: &TokenRequest<'a>) -> Result<&'a Value> {
    let (body, name) = (request.body, request.name);
    let namespace = text(body, "/metadata/namespace");
    if !namespace.is_empty() && namespace != request.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let own = text(body, "/metadata/name");
    if !own.is_empty() && own != name {
        let why = "must match the service account name if specified";
        let error = FieldError::invalid(&Path::new("metadata.name"), own, why);
        return Err(Failure::invalid(GROUP, KIND, name, &[error]));
    }
    let account = request.account.ok_or_else(|| Failure::not_found("", "serviceaccounts", name))?;
    let (asked, found) = (text(body, "/metadata/uid"), text(account, "/metadata/uid"));
    if !asked.is_empty() && asked != found {
        let why =
            format!("the UID in the token request ({asked}) does not match the UID of the service account ({found})");
        return Err(Failure::conflict(GROUP, KIND, name, &why));
    }
    Ok(account)
}

fn seconds(body: &Value) -> Result<i64> {
    let seconds = match body.pointer("/spec/expirationSeconds") {
        None | Some(Value::Null) => DEFAULT_SECONDS,
        Some(value) => value.as_i64().ok_or_else(|| {
            Failure::bad_request("spec.expirationSeconds of a TokenRequest must be an integer of 64 bits")
        })?,
    };
    let why = if seconds < MIN_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > MAX_SECONDS {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(seconds);
    };
    let error = FieldError::invalid(&Path::new("spec.expirationSeconds"), seconds, why);
    Err(Failure::invalid(GROUP, KIND, "", &[error]))
}

fn bind(request: &TokenRequest<'_>, bound: &BoundObject, claims: &mut Kubernetes) -> Result<()> {
    let find = request.find;
    let object =
        find(bound.resource, &bound.name).ok_or_else(|| Failure::not_found("", bound.resource, &bound.name))?;
    if bound.resource == "pods" && text(&object, "/spec/serviceAccountName") != request.name {
        return Err(Failure::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            request.name
        )));
    }
    let target = named(&object);
    if !bound.uid.is_empty() && bound.uid != target.uid {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
             deleted and then recreated",
            bound.uid
        );
        return Err(Failure::conflict("", bound.kind(), &bound.name, &why));
    }
    match bound.resource {
        "pods" => {
            let node = text(&object, "/spec/nodeName");
            if !node.is_empty() {
                // A node that is gone still tells where the pod is.
                let gone = || NamedUid { name: node.to_owned(), uid: String::new() };
                claims.node = Some(find("nodes", node).as_ref().map_or_else(gone, named));
            }
            claims.pod = Some(target);
        }
        "nodes" => claims.node = Some(target),
        _ => claims.secret = Some(target),
    }
    Ok(())
}

fn named(object: &Value) -> NamedUid {
    NamedUid { name: text(object, "/metadata/name").to_owned(), uid: text(object, "/metadata/uid").to_owned() }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// To the second, as Kubernetes writes times.
fn shown(time: Timestamp) -> String {
    let whole = time.as_second();
    Timestamp::from_second(whole).unwrap_or(time).to_string()
}
