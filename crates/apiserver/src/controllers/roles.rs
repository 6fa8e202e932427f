//! RBAC: the rule book follows the objects, and aggregated roles follow their parts.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use thane_kv::Query;

use super::edit::edit;
use crate::authz::{RBAC_GROUP as RBAC, RuleBook, aggregated_rules};
use crate::failure::Result;
use crate::objects::storage_failure;
use crate::server::Inner;

/// All roles and bindings.
const PREFIX: &[u8] = b"/registry/rbac.authorization.k8s.io/";
/// How long what failed is left alone.
const PAUSE: Duration = Duration::from_millis(500);

/// Puts the rule book in force for the first time, with all that aggregated roles are made of; the revision to follow from.
pub(super) async fn settle(server: &Inner) -> Result<u64> {
    let revision = server.objects.store().revision();
    if aggregate(server).await? {
        aggregate(server).await?;
    }
    load(server).await?;
    Ok(revision)
}

/// Keeps the rule book as the objects are. It does nothing else, so that what was taken away is gone at once.
pub(super) async fn follow(server: &Inner, mut revision: u64) {
    loop {
        if let Ok(mut watch) = server.objects.store().watch(Bytes::from_static(PREFIX), revision) {
            while let Ok(batch) = watch.next().await {
                if batch.events.is_empty() {
                    continue;
                }
                if let Err(failure) = refresh(server).await {
                    tracing::warn!(%failure, "the rules are read again");
                    break;
                }
            }
        }
        revision = read_again(server).await;
    }
}

/// Reads the rules until that succeeds; the revision to follow from.
async fn read_again(server: &Inner) -> u64 {
    loop {
        tokio::time::sleep(PAUSE).await;
        let revision = server.objects.store().revision();
        match refresh(server).await {
            Ok(()) => return revision,
            Err(failure) => tracing::error!(%failure, "the rules in force may be old ones"),
        }
    }
}

/// Puts the rules in force, and then writes those of roles that are made of others, which is seen as a change in turn.
async fn refresh(server: &Inner) -> Result<()> {
    load(server).await?;
    aggregate(server).await?;
    Ok(())
}

/// Reads all roles and bindings.
async fn load(server: &Inner) -> Result<()> {
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

/// Writes the rules of roles that are made of others; whether any changed.
async fn aggregate(server: &Inner) -> Result<bool> {
    let kind = server.catalog.builtin(RBAC, "clusterroles");
    let roles = all(server, "clusterroles").await?;
    let mut changed = false;
    for role in &roles {
        let Some(wanted) = aggregated_rules(role, &roles) else { continue };
        if role.get("rules").and_then(Value::as_array) == Some(&wanted) {
            continue;
        }
        changed = true;
        edit(server, &kind, "", crate::metadata::name(role), |object| {
            object["rules"] = wanted.clone().into();
            true
        })
        .await?;
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use thane_kv::{Mutation, Txn};

    use super::*;
    use crate::authz::{Action, User};
    use crate::controllers::testing;

    fn may_list(server: &Inner) -> bool {
        let ann = User { name: "ann".to_owned(), ..User::default() };
        let list = Action {
            verb: "list".to_owned(),
            version: "v1".to_owned(),
            resource: "pods".to_owned(),
            ..Action::default()
        };
        server.rules.current().decide(&ann, &list).allowed
    }

    async fn create(server: &Inner, plural: &str, object: &Value) {
        let kind = server.catalog.builtin(RBAC, plural);
        let name = crate::metadata::name(object).to_owned();
        server.objects.create(&kind, "", &name, object, None).await.unwrap();
    }

    async fn until(server: &Inner, wanted: bool) {
        for _ in 0..1000 {
            if may_list(server) == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("whether ann may list pods never became {wanted}");
    }

    #[tokio::test]
    async fn rules_are_followed_while_nothing_else_is_done() {
        let server = testing::server();
        let server = server.inner();
        let from = settle(server).await.unwrap();
        let changes = async {
            let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
            create(server, "clusterroles", &json!({"metadata": {"name": "lists"}, "rules": rules})).await;
            let (role, ann) = (
                json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": "lists"}),
                json!([{"apiGroup": RBAC, "kind": "User", "name": "ann"}]),
            );
            let binding = json!({"metadata": {"name": "ann"}, "roleRef": role, "subjects": ann});
            create(server, "clusterrolebindings", &binding).await;
            until(server, true).await;
            let key = server.catalog.builtin(RBAC, "clusterrolebindings").key("", "ann");
            let txn = Txn { compares: Vec::new(), mutations: vec![Mutation::Delete { key }] };
            server.objects.store().txn(txn).await.unwrap();
            until(server, false).await;
        };
        tokio::select! {
            () = follow(server, from) => unreachable!("it never ends"),
            () = changes => {}
        }
    }
}
