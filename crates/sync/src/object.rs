//! Kubernetes objects as JSON: which one it is, and what its metadata says.

use std::sync::Arc;

use serde_json::{Map, Value};
use thane_api::event::Target;

/// An object that caches and queues share.
pub type Object = Arc<Value>;

/// Annotation with the uid of the object this one mirrors.
pub const SOURCE_UID: &str = "argocd.argoproj.io/source-uid";
/// Annotation with the id of the hub an Application came from.
pub const PRINCIPAL_UID: &str = "argocd.argoproj.io/principal-uid";
/// Annotation on an Application that an agent keeps in another namespace than the hub.
pub const NAMESPACE_REMAPPED: &str = "argocd.argoproj.io/namespace-remapped";
/// Annotation with the time of the hub's last write.
pub const LAST_UPDATED: &str = "argocd-agent.argoproj.io/last-updated";
/// Annotation that asks Argo CD to look again.
pub const REFRESH: &str = "argocd.argoproj.io/refresh";
/// Annotation in which notifications keep what they have sent.
pub const NOTIFIED: &str = "notified.notifications.argoproj.io";
/// Annotation of kubectl with what was last applied.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotation: what to do about an object whose source was recreated.
pub const MISMATCH_POLICY: &str = "argocd.argoproj.io/source-uid-mismatch-policy";
/// Annotation: what to do about an object that was there before the hub's.
pub const ADOPTION_POLICY: &str = "argocd.argoproj.io/adoption-policy";
/// Label of objects that are left alone.
pub const IGNORE_SYNC: &str = "argocd-agent.argoproj-labs.io/ignore-sync";
/// Label of cluster secrets with the agent's name.
pub const AGENT_NAME: &str = "argocd-agent.argoproj-labs.io/agent-name";
/// Label with what an Argo CD Secret holds.
pub const SECRET_TYPE: &str = "argocd.argoproj.io/secret-type";
/// Ours: annotation with the id of the operation an Application last got from the hub.
pub const OPERATION_ID: &str = "thane.dev/operation-id";

/// The kinds that are kept in step; what others need comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An Argo CD `AppProject`.
    AppProject,
    /// A Secret with a repository or its credentials.
    Repository,
    /// An Argo CD Application.
    Application,
}

impl Kind {
    /// All of them, what others need first.
    pub const ALL: [Self; 3] = [Self::AppProject, Self::Repository, Self::Application];

    /// The target of events about it.
    pub fn target(self) -> Target {
        match self {
            Self::AppProject => Target::AppProject,
            Self::Repository => Target::Repository,
            Self::Application => Target::Application,
        }
    }

    /// The kind that events with this target are about.
    pub fn of_target(target: &Target) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.target() == *target)
    }

    /// Its name in messages that compare what both sides have.
    pub fn name(self) -> &'static str {
        match self {
            Self::AppProject => "AppProject",
            Self::Repository => "Repository",
            Self::Application => "Application",
        }
    }

    /// The kind of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Which object, on one side.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What it is.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of an object of that kind.
    pub fn of(kind: Kind, object: &Value) -> Self {
        Self { kind, namespace: text(object, "namespace").to_owned(), name: text(object, "name").to_owned() }
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Its name.
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// Its namespace.
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// Its uid.
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// Its resource version.
pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// Whether it is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether a finalizer keeps it from being gone.
pub fn is_held(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

/// One annotation, if it is there and not empty.
pub fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][name].as_str().filter(|text| !text.is_empty())
}

/// One label.
pub fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["labels"][name].as_str()
}

/// The uid of the object this one mirrors, if it is a mirror.
pub fn source_uid(object: &Value) -> Option<&str> {
    annotation(object, SOURCE_UID)
}

/// The uid that both sides know the object by.
pub fn origin_uid(object: &Value) -> &str {
    source_uid(object).unwrap_or_else(|| uid(object))
}

/// Whether its owner wants it left alone.
pub fn is_ignored(object: &Value) -> bool {
    label(object, IGNORE_SYNC) == Some("true")
}

/// The metadata to write into; an object without any gets some.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_mut(object, "metadata")
}

/// A field that is to be an object; anything else there is replaced.
pub fn map_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(fields) = object else { unreachable!("it was just made an object") };
    let inner = fields.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if !inner.is_object() {
        *inner = Value::Object(Map::new());
    }
    let Value::Object(inner) = inner else { unreachable!("it was just made an object") };
    inner
}

/// Sets an annotation.
pub fn set_annotation(object: &mut Value, name: &str, value: impl Into<String>) {
    // So that there is some.
    metadata_mut(object);
    if let Some(metadata) = object.get_mut("metadata") {
        map_mut(metadata, "annotations").insert(name.to_owned(), Value::String(value.into()));
    }
}

/// Removes an annotation.
pub fn remove_annotation(object: &mut Value, name: &str) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(name);
    }
}
