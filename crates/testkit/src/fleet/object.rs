//! Objects that the suites write, and the parts of objects that they look at.

use serde_json::{Value, json};

/// The annotation that names the object a copy was made of.
pub const SOURCE_UID: &str = "argocd.argoproj.io/source-uid";
/// The annotation that asks for a refresh.
pub const REFRESH: &str = "argocd.argoproj.io/refresh";
/// The finalizer of a cascading delete.
pub const CASCADE: &str = "resources-finalizer.argocd.argoproj.io";

/// An Application of the project `default`.
pub fn application(name: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://git.example.com/apps.git", "path": name, "targetRevision": "v1"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "guestbook"},
        },
    })
}

/// A change of an Application's revision.
pub fn revision(revision: &str) -> Value {
    json!({"spec": {"source": {"targetRevision": revision}}})
}

/// What Argo CD's controller writes when it has compared an Application.
pub fn status(sync: &str, health: &str, revision: &str) -> Value {
    json!({"status": {
        "sync": {"status": sync, "revision": revision},
        "health": {"status": health},
        "reconciledAt": "2026-01-02T03:04:05Z",
    }})
}

/// The text at a JSON pointer, or nothing.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The object's own identity.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// The identity of the object that this one is a copy of.
pub fn source_uid(object: &Value) -> &str {
    annotation(object, SOURCE_UID).unwrap_or_default()
}

/// An annotation's value.
pub fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// Whether the Application is at this revision.
pub fn at_revision(object: &Value, revision: &str) -> bool {
    text(object, "/spec/source/targetRevision") == revision
}

/// Whether the Application's status is for this revision.
pub fn status_at(object: &Value, revision: &str) -> bool {
    text(object, "/status/sync/revision") == revision
}

/// The phase of the operation that runs or ran last.
pub fn phase(object: &Value) -> &str {
    text(object, "/status/operationState/phase")
}
