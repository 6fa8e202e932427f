//! Who may do what, in process as over TLS.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role, RoleBinding};
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

use crate::{Cluster, config_map, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_may_do_what_roles_say_and_nothing_else() {
    let cluster = Cluster::start().await;
    let (admin, ann) = (cluster.admin(), cluster.client_of("ann"));
    let maps: Api<ConfigMap> = Api::namespaced(ann.clone(), "default");
    let refused = maps.list(&ListParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!(status.code, 403);
    assert_eq!(
        status.message,
        "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \
         \"default\""
    );

    let role: Role = serde_json::from_value(json!({
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
    }))
    .unwrap();
    Api::<Role>::namespaced(admin.clone(), "default").create(&PostParams::default(), &role).await.unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "ann-reads"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
    }))
    .unwrap();
    Api::<RoleBinding>::namespaced(admin.clone(), "default").create(&PostParams::default(), &binding).await.unwrap();
    eventually("ann may list", || async { maps.list(&ListParams::default()).await.is_ok() }).await;
    assert!(maps.create(&PostParams::default(), &config_map("a", "1")).await.is_err());
    assert!(Api::<Secret>::namespaced(ann.clone(), "default").list(&ListParams::default()).await.is_err());
    assert!(Api::<ConfigMap>::namespaced(ann, "kube-system").list(&ListParams::default()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregated_roles_follow_their_parts() {
    let cluster = Cluster::start().await;
    let roles: Api<ClusterRole> = Api::all(cluster.admin());
    let part: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": "toys-view", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["toys"], "verbs": ["get"]}],
    }))
    .unwrap();
    roles.create(&PostParams::default(), &part).await.unwrap();
    eventually("view includes toys", || async {
        let granted = roles.get("view").await.unwrap().rules.unwrap_or_default();
        granted.iter().any(|rule| rule.resources.as_ref().is_some_and(|names| names.contains(&"toys".to_owned())))
    })
    .await;
}
