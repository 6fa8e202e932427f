//! What a write must pass before it is validated: rules that look at other objects.

mod address;
mod roles;
mod service_account;

pub(crate) use address::{Addresses, Claim};

use serde_json::Value;
use thane_runtime::admission::{Write, Writer};

use crate::authz::Action;
use crate::builtin::pod::admission::priority_refusal;
use crate::failure::{Cause, Failure, Result};
use crate::metadata;
use crate::objects::Home;
use crate::verbs::Call;

/// What the JSON of an object contains whose deletion was asked for.
const DELETION: &[u8] = b"\"deletionTimestamp\"";
/// Namespaces that cannot be deleted.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

/// Admits a new object, completing it where Kubernetes would; the namespace that lets it in.
pub(crate) async fn create(call: &Call<'_>, object: &mut Value) -> Result<Option<Home>> {
    if call.kind.is_terminating() {
        let kind = &call.kind;
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Failure::forbidden(&kind.group, &kind.plural, metadata::name(object), why));
    }
    let home = home(call, metadata::name(object)).await?;
    if call.kind.is("", "pods") {
        if let Some(why) = priority_refusal(object) {
            return Err(Failure::forbidden("", "pods", metadata::name(object), &why));
        }
        service_account::admit(call, object).await?;
    }
    roles::admit(call, object, None)?;
    Ok(home)
}

/// Admits a change. What it claims is to be held until the object is stored.
pub(crate) async fn update<'a>(call: &Call<'a>, object: &mut Value, old: &Value) -> Result<Option<Claim<'a>>> {
    roles::admit(call, object, Some(old))?;
    allocate(call, object, Some(old)).await
}

/// Gives an object that is ready to be checked what the cluster has to give, such as addresses. What it claims is to be
/// held until the object is stored.
pub(crate) async fn allocate<'a>(
    call: &Call<'a>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<Option<Claim<'a>>> {
    if call.kind.is("", "services") { address::give(call, object, old).await } else { Ok(None) }
}

/// Has an object that is valid looked at by whoever knows more about its kind.
pub(crate) fn review(call: &Call<'_>, object: &Value, old: Option<&Value>) -> Result<()> {
    let kind = &call.kind;
    let may = |verb: &str| is_allowed(call, verb, metadata::name(object));
    let writer = Writer { name: &call.user.name, may: &may };
    let write = Write { group: &kind.group, plural: &kind.plural, object, old };
    for reviewer in call.server.reviewers.get().into_iter().flatten().filter(|_| kind.is_custom()) {
        reviewer
            .review(&kind.group, &kind.plural, object, old)
            .and_then(|()| reviewer.review_writer(&writer, &write))
            .map_err(|why| Failure::forbidden(&kind.group, &kind.plural, metadata::name(object), &why))?;
    }
    Ok(())
}

/// Whether whoever calls has a verb on an object of this kind.
fn is_allowed(call: &Call<'_>, verb: &str, name: &str) -> bool {
    let kind = &call.kind;
    let action = Action {
        verb: verb.to_owned(),
        group: kind.group.clone(),
        version: kind.version.clone(),
        resource: kind.plural.clone(),
        namespace: if kind.namespaced { call.namespace().to_owned() } else { String::new() },
        name: name.to_owned(),
        ..Action::default()
    };
    call.server.rules.current().decide(call.user, &action).allowed
}

/// Refuses the deletion of what must stay.
pub(crate) fn delete(call: &Call<'_>) -> Result<()> {
    if call.kind.is("", "namespaces") && IMMORTAL.contains(&call.info.name.as_str()) {
        return Err(Failure::forbidden("", "namespaces", &call.info.name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// New objects need a namespace that exists and is not going away, if they live in one at all.
pub(crate) async fn home(call: &Call<'_>, name: &str) -> Result<Option<Home>> {
    if !call.kind.namespaced {
        return Ok(None);
    }
    let namespace = call.namespace();
    let namespaces = call.server.catalog.builtin("", "namespaces");
    let found = call.objects().get(&namespaces, "", namespace).await?;
    let Some(stored) = found else { return Err(Failure::not_found("", "namespaces", namespace)) };
    // nearly all namespaces are open, which is seen without reading them
    let marked = memchr::memmem::find(stored.bytes(), DELETION).is_some();
    if !marked || metadata::deletion_timestamp(&stored.value(&namespaces)?).is_none() {
        return Ok(Some(Home::new(&namespaces, namespace, &stored)));
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut failure = Failure::forbidden(&call.kind.group, &call.kind.plural, name, &why);
    if let Some(details) = &mut failure.details {
        details.causes = vec![Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        }];
    }
    Err(failure)
}
