//! One controller, written as any other with `kube`, on our server in this process, on ours over TLS, and on the real one.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, watcher};
use kube::{Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use thane_testkit::peer::{EmbeddedApi, kubernetes_or_skip};
use tokio::sync::oneshot;

/// Who owns the fields the controller writes.
const MANAGER: &str = "greeter";
/// The longest any one expectation may take to come true.
const PATIENCE: Duration = Duration::from_mins(1);

/// What should be greeted.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "greeter.example.com", version = "v1", kind = "Greeting", namespaced, status = "GreetingStatus")]
struct GreetingSpec {
    /// Whom to greet.
    name: String,
    /// How often.
    #[serde(default = "once")]
    times: u32,
}

fn once() -> u32 {
    1
}

/// What was greeted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GreetingStatus {
    /// The generation that was acted upon.
    observed_generation: i64,
    /// What was said.
    said: String,
}

fn said(spec: &GreetingSpec) -> String {
    vec![format!("hello {}", spec.name); spec.times as usize].join(", ")
}

async fn reconcile(
    greeting: Arc<Greeting>,
    client: Arc<Client>,
) -> Result<Action, kube::runtime::finalizer::Error<kube::Error>> {
    let namespace = greeting.namespace().unwrap_or_default();
    let greetings: Api<Greeting> = Api::namespaced((*client).clone(), &namespace);
    let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), &namespace);
    finalizer(&greetings, "greeter.example.com/farewell", greeting, async |event| match event {
        Event::Apply(greeting) => apply(&greetings, &maps, &greeting).await,
        Event::Cleanup(greeting) => {
            let name = format!("{}-farewell", greeting.name_any());
            maps.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(map(&name, "bye"))).await?;
            Ok(Action::await_change())
        }
    })
    .await
}

async fn apply(greetings: &Api<Greeting>, maps: &Api<ConfigMap>, greeting: &Greeting) -> Result<Action, kube::Error> {
    let name = greeting.name_any();
    let mut child = map(&name, &said(&greeting.spec));
    child.metadata.owner_references = greeting.controller_owner_ref(&()).map(|owner| vec![owner]);
    let applying = PatchParams::apply(MANAGER).force();
    maps.patch(&name, &applying, &Patch::Apply(child)).await?;
    let status =
        GreetingStatus { observed_generation: greeting.meta().generation.unwrap_or(0), said: said(&greeting.spec) };
    greetings.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
    Ok(Action::await_change())
}

fn map(name: &str, text: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("text".to_owned(), text.to_owned())])),
        ..ConfigMap::default()
    }
}

/// Waits until an object is as wanted.
async fn until<K>(api: &Api<K>, name: &str, what: &str, wanted: impl Fn(&K) -> bool)
where
    K: Resource + Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + 'static,
{
    let condition = |object: Option<&K>| object.is_some_and(&wanted);
    let came = tokio::time::timeout(PATIENCE, await_condition(api.clone(), name, condition)).await;
    assert!(matches!(came, Ok(Ok(_))), "{what}: {:?}", api.get_opt(name).await);
}

/// Waits until an object is gone.
async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + 'static,
{
    let gone = |object: Option<&K>| object.is_none();
    let waited = tokio::time::timeout(PATIENCE, await_condition(api.clone(), name, gone)).await;
    assert!(matches!(waited, Ok(Ok(_))), "{name} stays: {:?}", api.get_opt(name).await);
}

/// The kind, applied as an operator's installer does.
async fn install(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = Greeting::crd();
    let name = definition.name_any();
    definitions.patch(&name, &PatchParams::apply("installer").force(), &Patch::Apply(definition)).await.unwrap();
    let established = await_condition(definitions, &name, conditions::is_crd_established());
    tokio::time::timeout(PATIENCE, established).await.unwrap().unwrap();
}

/// Leader election: one holds the lease, the other cannot take it until the holder has given it up.
async fn elect(leases: &Api<Lease>) {
    let held_by = |who: &str, version: Option<String>| Lease {
        metadata: ObjectMeta { name: Some("leader".to_owned()), resource_version: version, ..ObjectMeta::default() },
        spec: Some(LeaseSpec {
            holder_identity: Some(who.to_owned()),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        }),
    };
    let conflict = |result: Result<Lease, kube::Error>| match result {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 409, "{status:?}"),
        other => panic!("{other:?}"),
    };
    let post = PostParams::default();
    let first = leases.create(&post, &held_by("one", None)).await.unwrap();
    conflict(leases.create(&post, &held_by("two", None)).await);
    let renewed = leases.replace("leader", &post, &held_by("one", first.resource_version())).await.unwrap();
    // Renewing without a change is no write; with one it is.
    let mut later = renewed.clone();
    later.spec.as_mut().unwrap().lease_transitions = Some(1);
    let renewed = leases.replace("leader", &post, &later).await.unwrap();
    conflict(leases.replace("leader", &post, &held_by("two", first.resource_version())).await);
    let given_up = leases.replace("leader", &post, &held_by("", renewed.resource_version())).await.unwrap();
    let taken = leases.replace("leader", &post, &held_by("two", given_up.resource_version())).await.unwrap();
    assert_eq!(taken.spec.unwrap().holder_identity.as_deref(), Some("two"));
}

/// A life of a Greeting, seen from outside the controller.
async fn live(greetings: &Api<Greeting>, maps: &Api<ConfigMap>) {
    let post = PostParams::default();
    let spec = GreetingSpec { name: "world".to_owned(), times: 2 };
    let created = greetings.create(&post, &Greeting::new("hi", spec)).await.unwrap();
    until(greetings, "hi", "status", |greeting| {
        greeting.status.as_ref().is_some_and(|status| status.said == "hello world, hello world")
    })
    .await;
    let child = maps.get("hi").await.unwrap();
    assert_eq!(child.owner_references()[0].uid, created.uid().unwrap());
    assert!(child.managed_fields().iter().any(|entry| entry.manager.as_deref() == Some(MANAGER)), "{child:?}");

    // A new spec is a new generation; a status is not.
    let change = Patch::Merge(json!({"spec": {"name": "moon", "times": 1}}));
    greetings.patch("hi", &PatchParams::default(), &change).await.unwrap();
    until(greetings, "hi", "new generation", |greeting| {
        greeting.status.as_ref().is_some_and(|status| status.said == "hello moon" && status.observed_generation == 2)
    })
    .await;
    until(maps, "hi", "new text", |map| map.data.as_ref().is_some_and(|data| data["text"] == "hello moon")).await;

    // Whoever meddles with the child is overruled, and a child that is gone comes back.
    maps.patch("hi", &PatchParams::default(), &Patch::Merge(json!({"data": {"text": "boo"}}))).await.unwrap();
    until(maps, "hi", "text put back", |map| map.data.as_ref().is_some_and(|data| data["text"] == "hello moon")).await;
    let (old, _) = (maps.get("hi").await.unwrap().uid(), maps.delete("hi", &DeleteParams::default()).await.unwrap());
    until(maps, "hi", "recreated", |map| map.uid() != old).await;

    // Refused by the schema: nothing changes.
    let refused =
        greetings.patch("hi", &PatchParams::default(), &Patch::Merge(json!({"spec": {"times": "often"}}))).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 422));

    // The end waits for the finalizer; the child goes with its owner.
    greetings.delete("hi", &DeleteParams::default()).await.unwrap();
    until_gone(greetings, "hi").await;
    until(maps, "hi-farewell", "farewell", |map| map.data.as_ref().is_some_and(|data| data["text"] == "bye")).await;
    until_gone(maps, "hi").await;
}

/// The whole test, on any server.
async fn exercise(client: Client, namespace: &str) {
    install(&client).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta { name: Some(namespace.to_owned()), ..ObjectMeta::default() };
    namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await.unwrap();
    let greetings: Api<Greeting> = Api::namespaced(client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    elect(&Api::namespaced(client.clone(), namespace)).await;

    let (stop, stopped) = oneshot::channel::<()>();
    // One of the two ways to begin a watch for each kind: a streamed list, and a list and then a watch.
    let controller = Controller::new(greetings.clone(), watcher::Config::default().streaming_lists())
        .owns(maps.clone(), watcher::Config::default())
        .graceful_shutdown_on(async move {
            let _ = stopped.await;
        })
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(client))
        .for_each(async |_| {});
    let outside = async {
        live(&greetings, &maps).await;
        let _ = stop.send(());
    };
    tokio::join!(controller, outside);
    namespaces.delete(namespace, &DeleteParams::default()).await.unwrap();
    until_gone(&namespaces, namespace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_works_on_the_embedded_server_in_process() {
    let thane = EmbeddedApi::start().await.unwrap();
    exercise(thane.in_process("default"), "greetings").await;
    thane.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_works_on_the_embedded_server_over_tls() {
    let thane = EmbeddedApi::start().await.unwrap();
    exercise(thane.client().await.unwrap(), "greetings").await;
    thane.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_works_on_kubernetes() {
    let Some((_, kubernetes)) = kubernetes_or_skip(&[]).await else { return };
    exercise(kubernetes.client().await.unwrap(), "greetings").await;
}
