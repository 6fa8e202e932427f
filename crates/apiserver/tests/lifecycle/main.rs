//! The server through a `kube::Client` in this process, on a store in memory: what a controller sees.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

mod access;
mod definitions;
mod depth;
mod garbage;
mod lists;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ObjectMeta, PostParams};
use thane_apiserver::authz::User;
use thane_apiserver::{ApiServer, Options, Parts};
use thane_kv::{ManualTime, MemoryOptions, MemoryStore, RedbOptions, RedbStore, Store};
use thane_runtime::{SystemClock, Tasks};

/// A live server, its store and the store's clock.
struct Cluster {
    server: ApiServer,
    store: Arc<dyn Store>,
    time: Arc<ManualTime>,
    tasks: Tasks,
}

impl Cluster {
    /// A new server on a new store.
    async fn start() -> Self {
        let time = Arc::new(ManualTime::default());
        let store = MemoryStore::new(MemoryOptions { time: time.clone(), ..MemoryOptions::default() });
        Self::on(store, time).await
    }

    /// A new server on a new file.
    async fn start_on_disk(folder: &std::path::Path) -> Self {
        let time = Arc::new(ManualTime::default());
        let options = RedbOptions { time: time.clone(), ..RedbOptions::default() };
        Self::on(RedbStore::open(folder.join("data.redb"), options).unwrap(), time).await
    }

    /// A new server on a store that has been used before.
    async fn on(store: Arc<dyn Store>, time: Arc<ManualTime>) -> Self {
        let (tasks, _) = Tasks::root("test");
        let parts = Parts {
            store: store.clone(),
            clock: SystemClock::shared(),
            authenticator: thane_apiserver::authn::Authenticator::default(),
            encryption: thane_apiserver::encryption::Encryption::default(),
            audit: None,
            readiness: thane_runtime::readiness::Readiness::default(),
            options: Options::default(),
        };
        let server = ApiServer::start(parts, &tasks).await.unwrap();
        Self { server, store, time, tasks }
    }

    /// A client that may do everything.
    fn admin(&self) -> kube::Client {
        let user = User { name: "admin".into(), groups: vec!["system:masters".into()], ..User::default() };
        self.server.client(user, "default")
    }

    /// A client that may do what roles allow.
    fn client_of(&self, name: &str) -> kube::Client {
        let user = User { name: name.into(), groups: vec!["system:authenticated".into()], ..User::default() };
        self.server.client(user, "default")
    }
}

/// A `ConfigMap` with one entry.
fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some([("k".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

/// Creates a namespace.
async fn namespace(client: &kube::Client, name: &str) {
    let object =
        Namespace { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..Namespace::default() };
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
}

/// Waits until `check` holds; the bound only keeps a broken test from hanging.
async fn eventually<F: Future<Output = bool>>(what: &str, check: impl Fn() -> F) {
    for _ in 0..1000 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} never came true");
}
