//! Whether an object is Argo CD's: by its own mark, or by that of whatever owns it.

use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use thane_runtime::SharedClock;

use super::resource::{self, SETTINGS_AGE_MAX};
use super::room::Room;

/// How far owners are followed.
const LEVELS_MAX: usize = 5;
/// Owners looked at for one object, on all levels together.
const OWNERS_MAX: usize = 32;
/// Argo CD's settings.
const SETTINGS: &str = "argocd-cm";
const ANNOTATION: &str = "argocd.argoproj.io/tracking-id";
const LABEL: &str = "app.kubernetes.io/instance";

/// How Argo CD marks its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mark {
    Annotation,
    Label(String),
    /// Nothing is recognised by a method nobody knows.
    Unknown(String),
}

impl Mark {
    /// What the settings say; without them what Argo CD does by itself.
    fn of(settings: &Value) -> Self {
        let text = |key: &str| settings["data"][key].as_str().unwrap_or_default();
        match text("application.resourceTrackingMethod") {
            "" | "annotation" | "annotation+label" => Self::Annotation,
            "label" => {
                let key = text("application.instanceLabelKey");
                Self::Label(if key.is_empty() { LABEL } else { key }.to_owned())
            }
            other => Self::Unknown(other.to_owned()),
        }
    }

    fn is_on(&self, object: &Value) -> Result<bool, String> {
        let has = |field: &str, key: &str| object["metadata"][field].get(key).is_some();
        match self {
            Self::Annotation => Ok(has("annotations", ANNOTATION)),
            Self::Label(key) => Ok(has("labels", key)),
            Self::Unknown(method) => Err(format!("tracking method {method:?} is unknown")),
        }
    }
}

/// Tells Argo CD's objects from others.
pub(super) struct Tracking {
    client: Client,
    settings: String,
    clock: SharedClock,
    /// Beside that of answers: whoever waits here may hold one.
    room: Room,
    known: Mutex<Option<(Duration, Mark)>>,
}

/// Who owns an object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    /// Where the kinds of its group are told.
    group: String,
    kind: String,
    name: String,
}

impl Tracking {
    pub(super) fn new(client: Client, namespace: &str, clock: SharedClock) -> Self {
        let settings = format!("/api/v1/namespaces/{namespace}/configmaps/{SETTINGS}");
        Self { client, settings, clock, room: Room::default(), known: Mutex::new(None) }
    }

    /// Whether the object or one of its owners bears Argo CD's mark.
    pub(super) async fn is_managed(&self, object: &Value) -> Result<bool, String> {
        let mark = self.mark().await?;
        let mut level = vec![object.clone()];
        let mut looked_at = 0;
        for _ in 0..LEVELS_MAX {
            let mut owners = Vec::new();
            for object in &level {
                if mark.is_on(object)? {
                    return Ok(true);
                }
                for owner in owners_of(object) {
                    looked_at += 1;
                    if looked_at > OWNERS_MAX {
                        return Err("it has too many owners".to_owned());
                    }
                    owners.extend(self.owner(object, &owner).await?);
                }
            }
            if owners.is_empty() {
                return Ok(false);
            }
            level = owners;
        }
        Err("its owners have owners that go on for too long".to_owned())
    }

    async fn mark(&self) -> Result<Mark, String> {
        let now = self.clock.monotonic();
        let known = self.known.lock().clone();
        if let Some((at, mark)) = known
            && now.saturating_sub(at) < SETTINGS_AGE_MAX
        {
            return Ok(mark);
        }
        let answer = resource::get(&self.client, &self.room, &self.settings).await;
        let settings = match answer.status {
            200 => serde_json::from_str(&answer.body).map_err(|error| format!("Argo CD's settings: {error}"))?,
            404 => Value::Null,
            status => return Err(format!("Argo CD's settings cannot be read ({status})")),
        };
        let mark = Mark::of(&settings);
        *self.known.lock() = Some((now, mark.clone()));
        Ok(mark)
    }

    /// An owner as it is; none if it is gone or of a kind that is not there.
    async fn owner(&self, object: &Value, owner: &Owner) -> Result<Option<Value>, String> {
        let kinds = resource::get(&self.client, &self.room, &owner.group).await;
        if kinds.status == 404 {
            return Ok(None);
        }
        let kinds: Value = serde_json::from_str(&kinds.body).map_err(|error| format!("{}: {error}", owner.group))?;
        let namespace = object["metadata"]["namespace"].as_str();
        let Some(path) = path_of(&kinds, owner, namespace) else { return Ok(None) };
        let answer = resource::get(&self.client, &self.room, &path).await;
        match answer.status {
            200 => serde_json::from_str(&answer.body).map(Some).map_err(|error| format!("{path}: {error}")),
            404 => Ok(None),
            status => Err(format!("{path} cannot be read ({status})")),
        }
    }
}

fn owners_of(object: &Value) -> Vec<Owner> {
    let references = object["metadata"]["ownerReferences"].as_array();
    let text = |reference: &Value, field: &str| reference[field].as_str().map(str::to_owned);
    let owner = |reference: &Value| {
        let version = text(reference, "apiVersion").filter(|version| is_plain(version, "/"))?;
        let group = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let name = text(reference, "name").filter(|name| is_plain(name, ":"))?;
        Some(Owner { group, kind: text(reference, "kind")?, name })
    };
    references.into_iter().flatten().filter_map(owner).collect()
}

fn is_plain(text: &str, more: &str) -> bool {
    !text.is_empty()
        && !text.contains("..")
        && text.chars().all(|one| one.is_ascii_alphanumeric() || "-._".contains(one) || more.contains(one))
}

/// Where an owner is; an object without a namespace has no owner with one.
fn path_of(kinds: &Value, owner: &Owner, namespace: Option<&str>) -> Option<String> {
    let is_it = |kind: &&Value| {
        kind["kind"] == owner.kind.as_str() && kind["name"].as_str().is_some_and(|name| !name.contains('/'))
    };
    let kind = kinds["resources"].as_array()?.iter().find(is_it)?;
    let (group, resource, name) = (&owner.group, kind["name"].as_str()?, &owner.name);
    if kind["namespaced"].as_bool() == Some(true) {
        let namespace = namespace?;
        return Some(format!("{group}/namespaces/{namespace}/{resource}/{name}"));
    }
    Some(format!("{group}/{resource}/{name}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_say_how_objects_are_marked() {
        let settings = |method: &str, key: &str| json!({"data": {"application.resourceTrackingMethod": method, "application.instanceLabelKey": key}});
        let cases = [
            (Value::Null, Mark::Annotation),
            (settings("annotation+label", "x"), Mark::Annotation),
            (settings("label", ""), Mark::Label(LABEL.to_owned())),
            (settings("label", "example.com/app"), Mark::Label("example.com/app".to_owned())),
            (settings("sticker", ""), Mark::Unknown("sticker".to_owned())),
        ];
        for (settings, mark) in cases {
            assert_eq!(Mark::of(&settings), mark);
        }
        let object = json!({"metadata": {"annotations": {ANNOTATION: ""}, "labels": {"example.com/app": "a"}}});
        assert_eq!(Mark::Annotation.is_on(&object), Ok(true));
        assert_eq!(Mark::Label("example.com/app".to_owned()).is_on(&object), Ok(true));
        assert_eq!(Mark::Label(LABEL.to_owned()).is_on(&object), Ok(false));
        assert!(Mark::Unknown("sticker".to_owned()).is_on(&object).is_err());
    }

    #[test]
    fn owners_are_found_where_their_kind_is() {
        let reference =
            |version: &str, kind: &str, name: &str| json!({"apiVersion": version, "kind": kind, "name": name});
        let object = json!({"metadata": {"ownerReferences": [
            reference("apps/v1", "ReplicaSet", "web"), reference("v1", "Node", "n"), reference("../v1", "X", "x"),
            reference("v1", "X", "a/b"), {"kind": "X"},
        ]}});
        let owners = owners_of(&object);
        let kinds = json!({"resources": [
            {"name": "replicasets/status", "kind": "ReplicaSet", "namespaced": true},
            {"name": "replicasets", "kind": "ReplicaSet", "namespaced": true},
            {"name": "nodes", "kind": "Node", "namespaced": false},
        ]});
        let paths: Vec<_> = owners.iter().map(|owner| path_of(&kinds, owner, Some("shop"))).collect();
        let expected = ["/apis/apps/v1/namespaces/shop/replicasets/web", "/api/v1/nodes/n"];
        assert_eq!(paths, expected.map(|path| Some(path.to_owned())));
        assert_eq!(path_of(&kinds, &owners[0], None), None, "what has no namespace has no owner with one");
    }
}
