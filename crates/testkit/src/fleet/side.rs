//! One side of a pair as its users see it: objects that are written and waited for.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use serde_json::Value;

use super::program::NAMESPACE;

/// The longest anything may take to come true, unless a side says otherwise.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The hub's or the spoke's API.
#[derive(Clone)]
pub struct Side {
    name: &'static str,
    client: kube::Client,
    applications: String,
    patience: Duration,
}

impl Side {
    /// A side whose Applications are in the namespace `applications`.
    pub fn new(name: &'static str, client: kube::Client, applications: &str) -> Self {
        Self { name, client, applications: applications.to_owned(), patience: PATIENCE }
    }

    /// The same with another bound on how long anything may take to come true.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The Applications of the agent.
    pub fn applications(&self) -> Objects {
        self.objects(&argo("Application"), &self.applications)
    }

    /// The Applications in any namespace.
    pub fn applications_in(&self, namespace: &str) -> Objects {
        self.objects(&argo("Application"), namespace)
    }

    /// The `AppProjects` in Argo CD's namespace.
    pub fn projects(&self) -> Objects {
        self.objects(&argo("AppProject"), NAMESPACE)
    }

    /// The Secrets in Argo CD's namespace.
    pub fn secrets(&self) -> Objects {
        self.objects(&ApiResource::erase::<Secret>(&()), NAMESPACE)
    }

    /// Makes a namespace.
    pub async fn make_namespace(&self, name: &str) -> Result<()> {
        super::api::make_namespace(&self.client, name).await
    }

    /// A client for everything else.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The objects of any kind in a namespace.
    pub fn objects(&self, resource: &ApiResource, namespace: &str) -> Objects {
        let api = Api::namespaced_with(self.client.clone(), namespace, resource);
        Objects { side: self.name, kind: resource.kind.clone(), api, patience: self.patience }
    }
}

fn argo(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("argoproj.io", "v1alpha1", kind))
}

/// The objects of a kind on one side, in the one namespace where tests expect them.
#[derive(Clone)]
pub struct Objects {
    side: &'static str,
    kind: String,
    api: Api<DynamicObject>,
    patience: Duration,
}

impl Objects {
    /// Creates an object.
    pub async fn create(&self, object: &Value) -> Result<Value> {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let name = object.metadata.name.clone().unwrap_or_default();
        let created = self.api.create(&PostParams::default(), &object).await;
        value(&created.with_context(|| format!("creating {}", self.label(&name)))?)
    }

    /// Merges a patch into an object.
    pub async fn patch(&self, name: &str, patch: &Value) -> Result<Value> {
        let patched = self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        value(&patched.with_context(|| format!("patching {}", self.label(name)))?)
    }

    /// Deletes an object.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let deleted = self.api.delete(name, &DeleteParams::default()).await;
        deleted.with_context(|| format!("deleting {}", self.label(name)))?;
        Ok(())
    }

    /// The object as it is.
    pub async fn get(&self, name: &str) -> Result<Option<Value>> {
        self.api.get_opt(name).await?.as_ref().map(value).transpose()
    }

    /// Waits until the object is there and as wanted.
    pub async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let condition = |object: Option<&DynamicObject>| object.is_some_and(|it| value(it).is_ok_and(|it| wanted(&it)));
        match tokio::time::timeout(self.patience, await_condition(self.api.clone(), name, condition)).await {
            Ok(found) => value(&found?.context("the condition wants an object")?),
            Err(_) => Err(self.disappointed(name, what).await),
        }
    }

    /// Waits until the object is not there.
    pub async fn until_gone(&self, name: &str) -> Result<()> {
        let condition = |object: Option<&DynamicObject>| object.is_none();
        match tokio::time::timeout(self.patience, await_condition(self.api.clone(), name, condition)).await {
            Ok(gone) => gone.map(|_| ()).map_err(Into::into),
            Err(_) => Err(self.disappointed(name, "gone").await),
        }
    }

    /// Fails if the object is there.
    pub async fn ensure_absent(&self, name: &str) -> Result<()> {
        match self.get(name).await? {
            None => Ok(()),
            Some(found) => Err(anyhow!("{} is there: {found}", self.label(name))),
        }
    }

    /// The API itself, for watches.
    pub fn watchable(&self) -> Api<DynamicObject> {
        self.api.clone()
    }

    async fn disappointed(&self, name: &str, what: &str) -> anyhow::Error {
        let found = match self.get(name).await {
            Ok(Some(mut object)) => {
                // Who wrote which field does not help a reader.
                if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("managedFields");
                }
                object.to_string()
            }
            Ok(None) => "it is not there".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        anyhow!("{} is not {what} within {:?}: {found}", self.label(name), self.patience)
    }

    fn label(&self, name: &str) -> String {
        format!("{} {name} on the {}", self.kind, self.side)
    }
}

fn value(object: &DynamicObject) -> Result<Value> {
    Ok(serde_json::to_value(object)?)
}
