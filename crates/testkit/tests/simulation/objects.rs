//! Objects of an API as JSON, for users and for the verdict.

use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::Value;

/// One kind in one namespace of an API.
pub(crate) struct Objects(Api<DynamicObject>);

impl Objects {
    pub(crate) fn applications(client: &Client, namespace: &str) -> Self {
        Self::of(client, "Application", "applications", namespace)
    }

    pub(crate) fn projects(client: &Client, namespace: &str) -> Self {
        Self::of(client, "AppProject", "appprojects", namespace)
    }

    fn of(client: &Client, kind: &str, plural: &str, namespace: &str) -> Self {
        let resource = ApiResource {
            group: "argoproj.io".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "argoproj.io/v1alpha1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Self(Api::namespaced_with(client.clone(), namespace, &resource))
    }

    pub(crate) async fn all(&self) -> Vec<Value> {
        let list = self.0.list(&ListParams::default()).await.unwrap();
        list.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    pub(crate) async fn get(&self, name: &str) -> Option<Value> {
        self.0.get_opt(name).await.unwrap().map(|object| serde_json::to_value(object).unwrap())
    }

    /// Whether it was made.
    pub(crate) async fn create(&self, object: Value) -> bool {
        self.0.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.is_ok()
    }

    /// Whether it was written: someone else may have been faster.
    pub(crate) async fn replace(&self, object: Value) -> bool {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.0.replace(&name, &PostParams::default(), &serde_json::from_value(object).unwrap()).await.is_ok()
    }

    pub(crate) async fn delete(&self, name: &str) -> bool {
        self.0.delete(name, &DeleteParams::default()).await.is_ok()
    }
}
