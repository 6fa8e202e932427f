//! `thane step resource`: one action on one object, and what it is waited for.

use std::fs;
use std::time::Duration;

use futures::TryStreamExt;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::super::outcome::Phase;
use super::super::pod::{list, push, text};
use super::jsonpath;
use super::report::{self, Report};
use super::{Failure, Layout, Result, Told};

/// Who writes what is applied.
const MANAGER: &str = "thane-workflow";
/// How long one watch lasts before it begins anew.
const WATCH_SECONDS: u32 = 290;
/// Between two tries of a watch that fails.
const PAUSE: Duration = Duration::from_secs(1);
/// Tries of a watch that fails without a change in between.
const TRIES: u32 = 60;

/// What a template's conditions say about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is as it should be.
    Met,
    /// It will not be, and why.
    Failed(String),
    /// Neither yet.
    Open,
}

/// Does what a resource template asks for. What its conditions say is `judge`'s to know: the template's `resource` and
/// the object are given to it.
pub async fn resource(
    told: &Told,
    layout: &Layout,
    judge: impl Fn(&Value, &Value) -> Result<Verdict, String>,
) -> Result<()> {
    let template = told.template(layout)?;
    let client = report::client()?;
    let done = act(&client, told, layout, &template, &judge).await;
    let report = match &done {
        Ok(outputs) => Report { outputs: outputs.clone(), phase: Some(Phase::Succeeded), message: String::new() },
        Err(failure) => {
            let message = format!("main: Error (exit code 64): {failure}");
            Report { outputs: Value::Null, phase: Some(Phase::Failed), message }
        }
    };
    report::send(&client, told, &report).await?;
    done.map(drop)
}

async fn act(
    client: &Client,
    told: &Told,
    layout: &Layout,
    template: &Value,
    judge: &impl Fn(&Value, &Value) -> Result<Verdict, String>,
) -> Result<Value> {
    let wanted = &template["resource"];
    let action = text(wanted, "action");
    let parameters = list(&template["outputs"]["parameters"]);
    let waits = !text(wanted, "successCondition").is_empty() || !text(wanted, "failureCondition").is_empty();
    if action == "delete" && (waits || !parameters.is_empty()) {
        let why = "successCondition, failureCondition and outputs are not supported for delete action";
        return Err(Failure(why.to_owned()));
    }
    let mut manifest = manifest(template, layout)?;
    if wanted["setOwnerReference"] == true {
        let owner = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": told.workflow,
            "uid": told.workflow_uid});
        push(&mut manifest["metadata"], "ownerReferences", owner);
    }
    let mut api = Target::find(client, told, &manifest).await?;
    let Some(mut object) = api.act(action, text(wanted, "mergeStrategy"), &manifest).await? else {
        return Ok(Value::Null);
    };
    api.name = object.name_any();
    if waits {
        object = api.watch(wanted, object, judge).await?;
    }
    outputs(parameters, &object)
}

fn manifest(template: &Value, layout: &Layout) -> Result<Value> {
    let wanted = &template["resource"];
    if !list(&wanted["flags"]).is_empty() {
        return Err(Failure(
            "flags of resource templates are not supported: name the object in the manifest".to_owned(),
        ));
    }
    let words = match wanted["manifestFrom"]["artifact"]["name"].as_str() {
        Some(name) => {
            let path = layout.inputs.join(name.replace('/', "_"));
            fs::read_to_string(&path).map_err(|error| Failure::at(&path, &error))?
        }
        None => text(wanted, "manifest").to_owned(),
    };
    if words.trim().is_empty() {
        return Err(Failure("Must provide at least one of flags or manifest.".to_owned()));
    }
    let value: Value =
        serde_saphyr::from_str(&words).map_err(|error| Failure(format!("the manifest cannot be read: {error}")))?;
    if !value.is_object() {
        return Err(Failure("the manifest is no object".to_owned()));
    }
    Ok(value)
}

/// The object an action is about.
struct Target {
    api: Api<DynamicObject>,
    name: String,
}

impl Target {
    async fn find(client: &Client, told: &Told, manifest: &Value) -> Result<Self> {
        let (version, kind) = (text(manifest, "apiVersion"), text(manifest, "kind"));
        let meta = &manifest["metadata"];
        if kind.is_empty()
            || version.is_empty()
            || (text(meta, "name").is_empty() && text(meta, "generateName").is_empty())
        {
            let why = "Kind and name are both required but at least one of them is missing from the manifest";
            return Err(Failure(why.to_owned()));
        }
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities): (ApiResource, _) =
            discovery::pinned_kind(client, &kind).await.map_err(|error| {
                Failure(format!("no matches for kind {:?} in version {:?}: {error}", kind.kind, kind.api_version()))
            })?;
        let namespace = Some(text(meta, "namespace")).filter(|name| !name.is_empty()).unwrap_or(&told.namespace);
        let api = match capabilities.scope {
            Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
            Scope::Cluster => Api::all_with(client.clone(), &resource),
        };
        Ok(Self { api, name: text(meta, "name").to_owned() })
    }

    /// Does it; nothing is left of what was deleted.
    async fn act(&self, action: &str, strategy: &str, manifest: &Value) -> Result<Option<DynamicObject>> {
        let refused = |error: kube::Error| match error {
            kube::Error::Api(status) => Failure(format!("Error from server ({}): {}", status.reason, status.message)),
            other => Failure(other.to_string()),
        };
        let object = || -> Result<DynamicObject> {
            serde_json::from_value(manifest.clone()).map_err(|error| Failure(format!("the manifest: {error}")))
        };
        let done = match action {
            "get" => self.api.get(&self.name).await,
            "create" => self.api.create(&PostParams::default(), &object()?).await,
            "apply" => {
                let how = PatchParams::apply(MANAGER).force();
                self.api.patch(&self.name, &how, &Patch::Apply(manifest)).await
            }
            "patch" => {
                let how = PatchParams::default();
                match strategy {
                    "" | "strategic" => self.api.patch(&self.name, &how, &Patch::Strategic(manifest)).await,
                    "merge" => self.api.patch(&self.name, &how, &Patch::Merge(manifest)).await,
                    other => {
                        return Err(Failure(format!("merge strategy {other:?} needs flags, which are not supported")));
                    }
                }
            }
            "replace" => {
                let known = self.api.get(&self.name).await.map_err(refused)?;
                let mut new = object()?;
                if new.metadata.resource_version.is_none() {
                    new.metadata.resource_version = known.metadata.resource_version;
                }
                self.api.replace(&self.name, &PostParams::default(), &new).await
            }
            "delete" => {
                return match self.api.delete(&self.name, &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                    other => other.map(|_| None).map_err(refused),
                };
            }
            other => return Err(Failure(format!("{other:?} is no action on a resource"))),
        };
        done.map(Some).map_err(refused)
    }

    /// Waits until a condition holds.
    async fn watch(
        &self,
        wanted: &Value,
        mut object: DynamicObject,
        judge: &impl Fn(&Value, &Value) -> Result<Verdict, String>,
    ) -> Result<DynamicObject> {
        let mut failures = 0;
        loop {
            let shown = serde_json::to_value(&object).map_err(|error| Failure(error.to_string()))?;
            match judge(wanted, &shown).map_err(Failure)? {
                Verdict::Met => return Ok(object),
                Verdict::Failed(why) => return Err(Failure(why)),
                Verdict::Open => {}
            }
            let since = object.metadata.resource_version.clone().unwrap_or_default();
            match self.next(&since).await {
                Ok(Some(next)) => {
                    object = next;
                    failures = 0;
                }
                Ok(None) => object = self.again(object).await?,
                Err(error) => {
                    failures += 1;
                    if failures > TRIES {
                        return Err(Failure(format!("the resource cannot be watched: {error}")));
                    }
                    tokio::time::sleep(PAUSE).await;
                    object = self.again(object).await?;
                }
            }
        }
    }

    /// The object as it is now, where a watch said nothing.
    async fn again(&self, known: DynamicObject) -> Result<DynamicObject> {
        match self.api.get_opt(&self.name).await {
            Ok(Some(object)) => Ok(object),
            Ok(None) => Err(gone()),
            // The next watch says whether it stays that way.
            Err(_) => Ok(known),
        }
    }

    /// The next change; nothing when the watch ran out.
    async fn next(&self, since: &str) -> Result<Option<DynamicObject>, kube::Error> {
        let how = WatchParams::default().fields(&format!("metadata.name={}", self.name)).timeout(WATCH_SECONDS);
        let mut events = Box::pin(self.api.watch(&how, since).await?);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => return Ok(Some(object)),
                WatchEvent::Deleted(_) | WatchEvent::Error(_) => return Ok(None),
                WatchEvent::Bookmark(_) => {}
            }
        }
        Ok(None)
    }
}

fn gone() -> Failure {
    Failure("The resource has been deleted while its status was still being checked. Will not be retried".to_owned())
}

fn outputs(parameters: &[Value], object: &DynamicObject) -> Result<Value> {
    if parameters.is_empty() {
        return Ok(Value::Null);
    }
    let object = serde_json::to_value(object).map_err(|error| Failure(error.to_string()))?;
    let mut found = Vec::new();
    for parameter in parameters {
        let mut parameter = parameter.clone();
        let from = &parameter["valueFrom"];
        let value = match (from["jsonPath"].as_str(), from["jqFilter"].as_str()) {
            (Some(path), _) if !path.is_empty() => jsonpath::render(path, &object),
            (_, Some(filter)) if !filter.is_empty() => filtered(filter, &object),
            _ => {
                found.push(parameter);
                continue;
            }
        };
        let value = match (value, from["default"].as_str()) {
            (Ok(value), _) => value,
            (Err(_), Some(default)) => default.to_owned(),
            (Err(why), None) => return Err(Failure(format!("output parameter {}: {why}", text(&parameter, "name")))),
        };
        parameter["value"] = json!(value);
        found.push(parameter);
    }
    Ok(json!({"parameters": found}))
}

/// The paths of jq; the rest of its language is refused.
fn filtered(filter: &str, object: &Value) -> Result<String, String> {
    let is_path = filter.starts_with('.') && !filter.contains([' ', '|', '(', '{', ',']);
    if !is_path {
        return Err(format!("jqFilter {filter:?}: only paths such as .status.phase are supported"));
    }
    jsonpath::render(&filter.replace("[]", "[*]"), object)
}
