//! An embedded API with the kinds of sandboxes, and somebody who plays the kubelet.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thane_runtime::pki::Authority;
use thane_runtime::tasks::Supervisor;
use thane_runtime::tls::{ClientOptions, ClientTls};
use thane_runtime::{Clock, SystemClock, Tasks};
use thane_sandbox::kinds::{Sandbox, WarmPool};
use thane_sandbox::{admission, names};
use thane_testkit::peer::EmbeddedApi;

/// Nothing here takes long; this is for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// A pool whose image is this one never comes up.
pub(crate) const ABSENT: &str = "absent";

pub(crate) struct Bed {
    pub(crate) client: Client,
    pub(crate) tasks: Tasks,
    api: EmbeddedApi,
    _supervisor: Supervisor,
}

impl Bed {
    pub(crate) async fn new() -> Self {
        let api = EmbeddedApi::start().await.unwrap();
        let client = api.in_process("default");
        api.server().review_by(vec![Arc::new(admission::Rules)]);
        define(&client).await;
        let (tasks, supervisor) = Tasks::root("test");
        Self { client, tasks, api, _supervisor: supervisor }
    }

    /// Makes pods ready as they come, unless their image is absent.
    pub(crate) fn play_kubelet(&self) {
        let (api, tasks) = (self.api::<Pod>(), self.tasks.clone());
        self.tasks.spawn("kubelet", async move {
            let stream = watcher(api.clone(), watcher::Config::default().labels(names::POOL)).applied_objects();
            let mut stream = std::pin::pin!(stream);
            loop {
                let pod = tokio::select! {
                    pod = stream.try_next() => pod.unwrap().unwrap(),
                    () = tasks.cancelled() => return,
                };
                let started = pod
                    .status
                    .as_ref()
                    .is_some_and(|status| status.pod_ip.is_some() || status.phase.as_deref() == Some("Failed"));
                if !started && pod.metadata.deletion_timestamp.is_none() {
                    let absent = pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some(ABSENT);
                    run(&api, pod.metadata.name.as_deref().unwrap(), absent).await;
                }
            }
        });
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn pool(&self, name: &str, replicas: i32, more: Value) -> WarmPool {
        let mut spec = json!({
            "replicas": replicas,
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "host"}]}},
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        self.create("WarmPool", name, spec).await
    }

    pub(crate) async fn sandbox(&self, name: &str, pool: &str) -> Sandbox {
        self.create("Sandbox", name, json!({"poolRef": pool})).await
    }

    async fn create<K>(&self, kind: &str, name: &str, spec: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + serde::Serialize,
    {
        let object =
            json!({"apiVersion": "arl.infra.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    /// Waits until an object is like that.
    pub(crate) async fn until<K>(&self, name: &str, what: &str, wanted: impl Fn(&K) -> bool + Send + Sync) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        let condition = |object: Option<&K>| object.is_some_and(&wanted);
        let found = tokio::time::timeout(PATIENCE, await_condition(self.api::<K>(), name, condition)).await;
        match found {
            Ok(object) => object.unwrap().unwrap(),
            Err(late) => panic!("{late}: {name} is not {what}: {:?}", self.api::<K>().get_opt(name).await),
        }
    }

    /// Waits until an object is gone.
    pub(crate) async fn gone<K>(&self, name: &str, uid: &str)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        let gone = await_condition(self.api::<K>(), name, conditions::is_deleted(uid));
        drop(tokio::time::timeout(PATIENCE, gone).await.expect("it goes").unwrap());
    }

    pub(crate) async fn pods(&self, pool: &str) -> Vec<Pod> {
        let of = ListParams::default().labels(&format!("{}={pool}", names::POOL));
        self.api::<Pod>().list(&of).await.unwrap().items
    }

    pub(crate) async fn stop(self) {
        assert!(self.tasks.shutdown(PATIENCE).await.is_empty());
        self.api.stop().await.unwrap();
    }
}

/// Installs the kinds of sandboxes.
pub(crate) async fn define(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in thane_sandbox::definitions() {
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
        api.create(&PostParams::default(), &definition).await.unwrap();
        let established = await_condition(api.clone(), &name, conditions::is_crd_established());
        tokio::time::timeout(PATIENCE, established).await.unwrap().unwrap();
    }
}

/// Says that a pod runs, or why it never will. Somebody may have deleted it.
pub(crate) async fn run(api: &Api<Pod>, name: &str, absent: bool) {
    let status = if absent {
        json!({"phase": "Failed", "message": "no such image"})
    } else {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        json!({"phase": "Running", "podIP": "127.64.0.9", "podIPs": [{"ip": "127.64.0.9"}], "conditions": ready})
    };
    let _ = api.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await;
}

/// The present.
pub(crate) fn now() -> jiff::Timestamp {
    SystemClock::new().now()
}

/// Certificates nobody is asked for here.
pub(crate) fn nobodys_certificates() -> ClientTls {
    let authority = Authority::create("nobody", now(), Duration::from_hours(1)).unwrap();
    ClientTls::from_pem(authority.cert_pem(), None, &ClientOptions::default()).unwrap()
}
