//! What every cluster has from the start.

use futures::future::try_join_all;
use serde_json::Value;

use super::edit::{complete, edit, ensure};
use super::namespaces::{default_account, published};
use crate::bootstrap;
use crate::failure::Result;
use crate::metadata;
use crate::objects::New;
use crate::server::Inner;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Creates the first namespaces and the default roles, and completes those of an older version.
pub(super) async fn seed(server: &Inner) -> Result<()> {
    // an empty store gets everything in one transaction, which is by far the quickest
    if server.objects.store().revision() == 0 && server.objects.create_all(&first_objects(server)).await? {
        return Ok(());
    }
    let namespaces = server.catalog.builtin("", "namespaces");
    // at once, so that they share commits
    try_join_all(bootstrap::namespaces().into_iter().map(|object| ensure(server, &namespaces, "", object, None)))
        .await?;
    try_join_all(roles().map(|(plural, object)| seed_role(server, plural, object))).await?;
    Ok(())
}

/// The default roles and bindings with their resources.
fn roles() -> impl Iterator<Item = (&'static str, Value)> {
    let roles = [
        ("clusterroles", bootstrap::cluster_roles()),
        ("clusterrolebindings", bootstrap::cluster_role_bindings()),
        ("roles", bootstrap::roles()),
        ("rolebindings", bootstrap::role_bindings()),
    ];
    roles.into_iter().flat_map(|(plural, objects)| objects.into_iter().map(move |object| (plural, object)))
}

/// Everything a new server begins with, ready to be stored.
fn first_objects(server: &Inner) -> Vec<New> {
    let new = |group: &str, plural: &str, namespace: &str, mut object: Value| {
        let kind = server.catalog.builtin(group, plural);
        complete(server, &kind, namespace, &mut object);
        New { kind, namespace: namespace.to_owned(), object }
    };
    let mut all: Vec<New> =
        bootstrap::namespaces().into_iter().map(|object| new("", "namespaces", "", object)).collect();
    for namespace in bootstrap::NAMESPACES {
        all.push(new("", "serviceaccounts", namespace, default_account()));
        all.extend(published(server, namespace).into_iter().map(|map| new("", "configmaps", namespace, map)));
    }
    all.extend(roles().map(|(plural, object)| {
        let namespace = metadata::namespace(&object).to_owned();
        new(RBAC, plural, &namespace, object)
    }));
    all
}

async fn seed_role(server: &Inner, plural: &str, wanted: Value) -> Result<()> {
    let kind = server.catalog.builtin(RBAC, plural);
    let (namespace, name) = (metadata::namespace(&wanted).to_owned(), metadata::name(&wanted).to_owned());
    if ensure(server, &kind, &namespace, wanted.clone(), None).await? {
        return Ok(());
    }
    edit(server, &kind, &namespace, &name, |object| match bootstrap::reconciled(object, &wanted) {
        Some(completed) => {
            *object = completed;
            true
        }
        None => false,
    })
    .await
}
