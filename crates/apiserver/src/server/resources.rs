//! Requests about resources: to the verb that answers them.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;

use super::pipeline::{Admitted, resolve};
use crate::admission;
use crate::authn::{BoundObject, Identity, TokenRequest, token_request};
use crate::authz::User;
use crate::body;
use crate::catalog::Types;
use crate::discovery::VIRTUAL;
use crate::failure::{Failure, Result};
use crate::media::Encoding;
use crate::request::RequestInfo;
use crate::resource::Behaviour;
use crate::response::{self, Answer};
use crate::review::{self, TokenQuestion, Verified};
use crate::verbs::update::Part;
use crate::verbs::{self, Call, create, delete, list, patch, pod, pod_access, scale, update, watch};

pub(super) async fn answer(request: Admitted<'_>, body: Bytes) -> Result<Answer> {
    let Admitted { server, info, query, parts, accepted, user, now } = request;
    let is_virtual = VIRTUAL.iter().any(|virt| {
        virt.group == info.group && virt.plural == info.resource && info.version == "v1" && !virt.group.is_empty()
    });
    let (types, writing) = server.catalog.types_to_write();
    let Some(kind) = types.find(&info.group, &info.version, &info.resource).cloned() else {
        if is_virtual {
            if info.verb != "create" || !info.name.is_empty() {
                return Err(Failure::method_not_allowed());
            }
            let kind = VIRTUAL.iter().find(|virt| virt.plural == info.resource).map_or("", |virt| virt.kind);
            let version = format!("{}/v1", info.group);
            let body = body::decode(&parts.headers, &body, &version, kind)?.value;
            return review(server, info, &user, body, now).await;
        }
        return unknown(&types, info);
    };
    // whoever changes a definition waits for writes by the old one, and for nothing else
    let _writing =
        Some(writing).filter(|_| kind.is_custom() && !matches!(info.verb.as_str(), "get" | "list" | "watch"));
    let call = Call {
        server,
        info,
        query,
        headers: &parts.headers,
        accepted,
        body,
        upgrade: parts.extensions.get::<hyper::upgrade::OnUpgrade>().cloned(),
        user: &user,
        kind,
        types: Arc::clone(&types),
        now,
        warnings: Mutex::new(Vec::new()),
    };
    if let Some(answer) = check_scope(&call)? {
        return Ok(answer);
    }
    if let Behaviour::Custom(custom) = &call.kind.behaviour
        && let Some(warning) = &custom.version.deprecation
    {
        call.warn(warning);
    }
    let mut answer = dispatch(&call).await;
    let warnings = call.warnings.lock();
    match &mut answer {
        Ok(answer) => response::warn(answer, &warnings),
        Err(failure) if !warnings.is_empty() => {
            let mut refused = response::failure(failure);
            response::warn(&mut refused, &warnings);
            return Ok(refused);
        }
        Err(_) => {}
    }
    answer
}

/// A path below a group that is served here gets a `Status`, any other a plain page.
fn unknown(types: &Types, info: &RequestInfo) -> Result<Answer> {
    let custom = types.all().any(|kind| kind.group == info.group && kind.is_custom());
    let known = types.groups().iter().any(|group| group.name == info.group);
    if known && !custom { Err(Failure::no_such_path()) } else { Ok(response::text(404, "404 page not found\n")) }
}

/// A namespaced object is only reached through its namespace, and the others never.
fn check_scope(call: &Call<'_>) -> Result<Option<Answer>> {
    let info = call.info;
    let in_namespace = !info.namespace.is_empty() && !call.kind.is("", "namespaces");
    let one = !info.name.is_empty() && !matches!(info.verb.as_str(), "list" | "watch");
    if in_namespace && !call.kind.namespaced {
        if call.kind.is_custom() {
            return Ok(Some(response::text(404, "404 page not found\n")));
        }
        return Err(Failure::no_such_path());
    }
    if call.kind.namespaced && !in_namespace {
        if one {
            return Err(Failure::no_such_path());
        }
        if matches!(info.verb.as_str(), "create" | "deletecollection") {
            return Err(Failure::method_not_allowed());
        }
    }
    Ok(None)
}

async fn dispatch(call: &Call<'_>) -> Result<Answer> {
    let info = call.info;
    match (info.subresource.as_str(), info.verb.as_str()) {
        ("", "get") => verbs::get(call).await,
        ("", "list") => list::list(call).await,
        ("", "watch") => watch::watch(call).await,
        ("", "create") if info.name.is_empty() => create::create(call).await,
        ("", "update") if !info.name.is_empty() => update::update(call, Part::Main).await,
        ("", "patch") if !info.name.is_empty() => patch::patch(call, Part::Main).await,
        ("", "delete") => {
            admission::delete(call)?;
            delete::delete(call).await
        }
        ("", "deletecollection") if !call.kind.is("", "namespaces") => delete::collection(call).await,
        ("", _) => Err(Failure::method_not_allowed()),
        (subresource, verb) => part(call, subresource, verb).await,
    }
}

async fn part(call: &Call<'_>, subresource: &str, verb: &str) -> Result<Answer> {
    let kind = &call.kind;
    match (subresource, verb) {
        ("status", "get") if kind.status => verbs::get(call).await,
        ("status", "update") if kind.status => update::update(call, Part::Status).await,
        ("status", "patch") if kind.status => patch::patch(call, Part::Status).await,
        ("finalize", "update") if kind.is("", "namespaces") => update::update(call, Part::Finalize).await,
        ("binding", "create") if kind.is("", "pods") => pod::bind(call).await,
        ("eviction", "create") if kind.is("", "pods") => pod::evict(call).await,
        ("log", "get") if kind.is("", "pods") => pod_access::log(call).await,
        ("exec", "get" | "create") if kind.is("", "pods") => pod_access::exec(call, false).await,
        ("attach", "get" | "create") if kind.is("", "pods") => pod_access::exec(call, true).await,
        ("portforward", "get" | "create") if kind.is("", "pods") => pod_access::port_forward(call).await,
        ("token", "create") if kind.is("", "serviceaccounts") => token(call).await,
        ("scale", _) if kind.scale.is_some() => match (&kind.scale, verb) {
            (Some(paths), "get") => scale::get(call, paths).await,
            (Some(paths), "update" | "patch") => scale::write(call, paths).await,
            _ => Err(Failure::method_not_allowed()),
        },
        ("status", _) if kind.status => Err(Failure::method_not_allowed()),
        _ if kind.is_custom() => Err(call.not_found()),
        _ => Err(Failure::no_such_path()),
    }
}

async fn token(call: &Call<'_>) -> Result<Answer> {
    let Some(issuer) = call.server.authenticator.issuer.as_ref() else { return Err(Failure::no_such_path()) };
    let body = body::decode(call.headers, &call.body, "authentication.k8s.io/v1", "TokenRequest")?.value;
    let account = match call.objects().get(&call.kind, call.namespace(), &call.info.name).await? {
        Some(stored) => Some(stored.value(&call.kind)?),
        None => None,
    };
    let mut bound: Vec<(&'static str, String, Value)> = Vec::new();
    if let Some(wanted) = BoundObject::of(&body)? {
        let mut next = Some((wanted.resource, wanted.name.clone()));
        while let Some((resource, name)) = next.take() {
            let kind = call.server.catalog.builtin("", resource);
            let namespace = if kind.namespaced { call.namespace() } else { "" };
            if let Some(stored) = call.objects().get(&kind, namespace, &name).await? {
                let object = stored.value(&kind)?;
                let node = object["spec"]["nodeName"].as_str().filter(|_| resource == "pods").map(str::to_owned);
                next = node.map(|node| ("nodes", node));
                bound.push((resource, name, object));
            }
        }
    }
    let find = |resource: &str, name: &str| {
        bound.iter().find(|(r, n, _)| *r == resource && n == name).map(|(_, _, object)| object.clone())
    };
    let request = TokenRequest {
        body: &body,
        namespace: call.namespace(),
        name: &call.info.name,
        account: account.as_ref(),
        find: &find,
        now: call.now,
        id: crate::random::uid(),
    };
    Ok(response::value(201, &token_request(issuer, &request)?, call.accepted.encoding))
}

async fn review(
    server: &Arc<super::Inner>,
    info: &RequestInfo,
    user: &User,
    body: Value,
    now: jiff::Timestamp,
) -> Result<Answer> {
    let book = server.rules.current();
    let object = match info.resource.as_str() {
        "tokenreviews" => token_review(server, &body, now).await?,
        "selfsubjectreviews" => review::self_subject_review(user, now),
        "selfsubjectaccessreviews" => review::self_subject_access_review(&book, user, &body)?,
        "subjectaccessreviews" => review::subject_access_review(&book, &body)?,
        "localsubjectaccessreviews" => review::local_subject_access_review(&book, &info.namespace, &body)?,
        _ => review::self_subject_rules_review(&book, user, &body)?,
    };
    Ok(response::value(201, &object, Encoding::Json))
}

async fn token_review(server: &super::Inner, body: &Value, now: jiff::Timestamp) -> Result<Value> {
    let wanted = TokenQuestion::from_body(body)?;
    let issuer = server.authenticator.issuer.as_ref();
    let outcome = match server.authenticator.identify_token(&wanted.token, &wanted.audiences, now) {
        Identity::User(user) => {
            let audiences = issuer.map(|issuer| issuer.common_audiences(&[], &wanted.audiences)).unwrap_or_default();
            Ok(Verified { user, audiences })
        }
        Identity::Claims(claims) => {
            let audiences =
                issuer.map(|issuer| issuer.common_audiences(&claims.aud, &wanted.audiences)).unwrap_or_default();
            let user = resolve(server, &claims, now).await?;
            user.map(|user| Verified { user, audiences }).map_err(|error| vec![error])
        }
        Identity::Refused(errors) => Err(errors),
    };
    Ok(review::token_review(body, &outcome))
}
