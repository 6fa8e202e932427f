//! RBAC: the rule book follows the objects, and aggregated roles follow their parts.

use serde_json::Value;
use thane_kv::Query;

use super::change::Change;
use super::edit::edit;
use super::queue::{Queue, Work};
use crate::authz::{RuleBook, aggregated_rules};
use crate::failure::Result;
use crate::objects::storage_failure;
use crate::server::Inner;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Reads all roles and bindings.
pub(super) async fn load(server: &Inner) -> Result<()> {
    let mut objects = Vec::new();
    for plural in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
        objects.extend(all(server, plural).await?);
    }
    server.rules.replace(RuleBook::new(&objects));
    Ok(())
}

async fn all(server: &Inner, plural: &str) -> Result<Vec<Value>> {
    let kind = server.catalog.builtin(RBAC, plural);
    let page = server.objects.store().range(Query::prefix(kind.prefix().to_owned())).await.map_err(storage_failure)?;
    page.entries.iter().map(|entry| server.objects.open(&kind, entry)?.value(&kind)).collect()
}

/// Names the work a change of a role asks for.
pub(super) fn take(change: &Change, queue: &mut Queue) {
    if change.kind.group == RBAC && !change.kind.is_custom() {
        queue.push(Work::Aggregate);
    }
}

/// Writes the rules of roles that are made of others, and puts the rule book in force.
pub(super) async fn aggregate(server: &Inner) -> Result<()> {
    let kind = server.catalog.builtin(RBAC, "clusterroles");
    let roles = all(server, "clusterroles").await?;
    for role in &roles {
        let Some(wanted) = aggregated_rules(role, &roles) else { continue };
        if role.get("rules").and_then(Value::as_array) == Some(&wanted) {
            continue;
        }
        edit(server, &kind, "", crate::metadata::name(role), |object| {
            object["rules"] = wanted.clone().into();
            true
        })
        .await?;
    }
    load(server).await
}
