//! What is in the git repository, and the Applications that say so.

use serde_json::{Value, json};
use thane_testkit::fleet::object::CASCADE;
use thane_testkit::peer::Node;

/// A Deployment of one pod that does nothing, under a label with its name and one with its version.
pub(crate) fn deployment(name: &str, version: &str) -> (String, String) {
    let labels = json!({"app": name, "version": version});
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": idle()},
        },
    });
    (format!("{name}/deployment.yaml"), object.to_string())
}

/// A Job that must end before anything is applied, and never does.
pub(crate) fn endless_hook(name: &str) -> (String, String) {
    let mut pod = idle();
    pod["restartPolicy"] = json!("Never");
    let object = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": format!("{name}-hook"), "annotations": {"argocd.argoproj.io/hook": "PreSync"}},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": {"app": name}}, "spec": pod}},
    });
    (format!("{name}/hook.yaml"), object.to_string())
}

fn idle() -> Value {
    json!({
        // The first process of a container does not hear a polite request to end.
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "containers": [{"name": "idle", "image": Node::BUSYBOX, "args": ["sleep", "100000"]}],
    })
}

/// Whether Argo CD syncs by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    Automated,
    OnRequest,
}

/// An Application for the folder and the namespace of its own name, deleted with everything it made.
pub(crate) fn application(name: &str, repository: &str, sync: Sync) -> Value {
    let mut policy = json!({"syncOptions": ["CreateNamespace=true"]});
    if sync == Sync::Automated {
        policy["automated"] = json!({"prune": true, "selfHeal": true});
    }
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd", "finalizers": [CASCADE]},
        "spec": {
            "project": "default",
            "source": {"repoURL": repository, "path": name, "targetRevision": "main"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": name},
            "syncPolicy": policy,
        },
    })
}

/// The project of all these Applications, which allows everything.
pub(crate) fn project() -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "default"},
        "spec": {
            "sourceRepos": ["*"],
            "sourceNamespaces": ["*"],
            "destinations": [{"name": "*", "namespace": "*", "server": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
    })
}

/// A request to sync, as Argo CD's API server writes it: with the options of the policy.
pub(crate) fn sync_now() -> Value {
    let sync = json!({"syncStrategy": {"hook": {}}, "syncOptions": ["CreateNamespace=true"]});
    json!({"operation": {"initiatedBy": {"username": "admin"}, "sync": sync}})
}

/// A request to end an operation, as Argo CD's API server writes it.
pub(crate) fn terminate_now() -> Value {
    json!({"status": {"operationState": {"phase": "Terminating"}}})
}
