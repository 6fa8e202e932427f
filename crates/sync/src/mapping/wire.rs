//! What travels: objects without what the other side has no use for.

use serde_json::{Value, json};

use super::Mode;
use super::copy::local_note;
use super::same::same;
use crate::object::{
    self, Key, Kind, LAST_APPLIED, NAMESPACE_REMAPPED, OPERATION_ID, REFRESH, SOURCE_UID, metadata_mut,
};

/// Hub: an Application as it is to be. Its operation and status travel on their own.
pub fn application_for_agent(app: &Value) -> Value {
    let mut wire = bare(app);
    object::remove_annotation(&mut wire, OPERATION_ID);
    drop_fields(&mut wire, &["operation", "status"]);
    wire
}

/// Hub: an Application with the operation to start, under that id.
pub fn operation_for_agent(app: &Value, id: &str) -> Value {
    let mut wire = bare(app);
    object::set_annotation(&mut wire, OPERATION_ID, id);
    drop_fields(&mut wire, &["status"]);
    wire
}

/// Hub: an Application whose operation is to end.
pub fn terminate_for_agent(app: &Value) -> Value {
    bare(app)
}

/// Hub: a repository; see `project_for_agent` for projects.
pub fn repository_for_agent(secret: &Value) -> Value {
    bare(secret)
}

/// Agent: an Application as it is seen, with status and operation.
pub fn application_for_hub(app: &Value) -> Value {
    bare(app)
}

/// Autonomous agent: a project as it is.
pub fn project_for_hub(project: &Value) -> Value {
    bare(project)
}

/// Either side: the least that says which object is gone.
pub fn deletion(kind: Kind, object: &Value) -> Value {
    let mut wire = deletion_of(&Key::of(kind, object), object::uid(object));
    metadata_mut(&mut wire).insert("resourceVersion".to_owned(), json!(object::resource_version(object)));
    for name in [SOURCE_UID, NAMESPACE_REMAPPED] {
        if let Some(value) = object::annotation(object, name) {
            object::set_annotation(&mut wire, name, value);
        }
    }
    wire
}

/// Either side: the same for an object that was only ever heard of, by the name and uid the other side knows it by.
pub fn deletion_of(key: &Key, uid: &str) -> Value {
    let (api_version, kind) = type_of(key.kind);
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "namespace": key.namespace, "name": key.name, "uid": uid },
    })
}

/// Hub: whether a change of an object is one its agents have to hear of. That a refresh is done they know.
pub fn is_news_for_agent(kind: Kind, before: &Value, after: &Value) -> bool {
    let form = |object: &Value| {
        let mut wire = if kind == Kind::Application { application_for_agent(object) } else { bare(object) };
        unversioned(&mut wire);
        wire
    };
    let mut before = before.clone();
    if local_note(after, REFRESH).is_none() {
        object::remove_annotation(&mut before, REFRESH);
    }
    !same(&form(&before), &form(after))
}

/// Agent: whether a change of an object is one the hub has to hear of.
pub fn is_news_for_hub(kind: Kind, mode: Mode, before: &Value, after: &Value) -> bool {
    match (mode, kind) {
        (Mode::Managed, Kind::Application) => {
            let said = [REFRESH, OPERATION_ID, SOURCE_UID];
            ["status", "operation"].iter().any(|field| !same(&before[*field], &after[*field]))
                || said.iter().any(|name| local_note(before, name) != local_note(after, name))
        }
        (Mode::Autonomous, Kind::Application | Kind::AppProject) => {
            let form = |object: &Value| {
                let mut wire = bare(object);
                unversioned(&mut wire);
                wire
            };
            !same(&form(before), &form(after))
        }
        (Mode::Managed, Kind::AppProject) | (_, Kind::Repository) => false,
    }
}

/// The API version and kind an object of that kind has.
pub(super) fn type_of(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::AppProject => ("argoproj.io/v1alpha1", "AppProject"),
        Kind::Repository => ("v1", "Secret"),
        Kind::Application => ("argoproj.io/v1alpha1", "Application"),
    }
}

fn bare(object: &Value) -> Value {
    let mut wire = object.clone();
    metadata_mut(&mut wire).remove("managedFields");
    object::remove_annotation(&mut wire, LAST_APPLIED);
    wire
}

fn unversioned(object: &mut Value) {
    let metadata = metadata_mut(object);
    metadata.remove("resourceVersion");
    metadata.remove("generation");
    metadata.retain(|_, value| *value != json!({}));
}

fn drop_fields(object: &mut Value, names: &[&str]) {
    if let Value::Object(fields) = object {
        for name in names {
            fields.remove(*name);
        }
    }
}
