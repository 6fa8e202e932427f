//! What every cluster has from the start.

use futures::future::try_join_all;
use serde_json::Value;

use super::edit::{edit, ensure};
use crate::bootstrap;
use crate::failure::Result;
use crate::metadata;
use crate::server::Inner;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Creates the first namespaces and the default roles, and completes those of an older version.
pub(super) async fn seed(server: &Inner) -> Result<()> {
    let namespaces = server.catalog.builtin("", "namespaces");
    // at once, so that they share commits
    try_join_all(bootstrap::namespaces().into_iter().map(|object| ensure(server, &namespaces, "", object))).await?;
    let roles = [
        ("clusterroles", bootstrap::cluster_roles()),
        ("clusterrolebindings", bootstrap::cluster_role_bindings()),
        ("roles", bootstrap::roles()),
        ("rolebindings", bootstrap::role_bindings()),
    ];
    let all = roles.into_iter().flat_map(|(plural, objects)| objects.into_iter().map(move |object| (plural, object)));
    try_join_all(all.map(|(plural, object)| seed_role(server, plural, object))).await?;
    Ok(())
}

async fn seed_role(server: &Inner, plural: &str, wanted: Value) -> Result<()> {
    let kind = server.catalog.builtin(RBAC, plural);
    let (namespace, name) = (metadata::namespace(&wanted).to_owned(), metadata::name(&wanted).to_owned());
    if ensure(server, &kind, &namespace, wanted.clone()).await? {
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
