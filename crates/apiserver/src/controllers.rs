//! What keeps the state consistent behind the requests: default objects, definitions, garbage, namespaces.
//!
//! One watch over everything feeds pure deciders, which name work; one worker does it, so many pieces between two looks at
//! the watch. Work that fails is tried again with growing pauses. Roles have a watch and a worker of their own: who may no
//! longer do something must not wait for garbage.

mod change;
mod collect;
mod definitions;
mod edit;
mod graph;
mod namespaces;
mod queue;
mod remains;
mod roles;
mod seed;
mod sweep;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thane_kv::{Query, WatchBatch};
use thane_runtime::Tasks;
use tokio::time::Instant;

use crate::failure::Result;
use crate::objects::storage_failure;
use crate::server::{ApiServer, Inner};
use change::Change;
use definitions::Definitions;
use graph::Graph;
use namespaces::Going;
use queue::{Queue, Work};

/// Everything the API server stores.
const ALL: &[u8] = b"/registry/";
/// Entries read at once when everything is read.
const CHUNK: usize = 500;
/// Pieces of work between two looks at the watch.
const SLICE: usize = 64;

/// Creates what every cluster has, learns the state, and starts to keep it. When it returns, requests can be served.
pub(crate) async fn start(server: &ApiServer, tasks: &Tasks) -> Result<()> {
    let inner = Arc::clone(server.inner());
    let caught_up = inner.readiness.condition("controllers");
    seed::seed(&inner).await?;
    let rules_from = roles::settle(&inner).await?;
    let mut keeper = Keeper::new(Arc::clone(&inner));
    let revision = keeper.learn().await?;
    while keeper.queue.is_ready() {
        keeper.work_on().await;
    }
    caught_up.holds();
    let stop = tasks.token();
    tasks.spawn_essential("roles", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = roles::follow(&inner, rules_from) => {}
        }
    });
    let stop = tasks.token();
    tasks.spawn_essential("controllers", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = keeper.run(revision) => {}
        }
    });
    Ok(())
}

/// The state of all controllers.
struct Keeper {
    server: Arc<Inner>,
    graph: Graph,
    definitions: Definitions,
    /// Namespaces that are going away.
    going: BTreeMap<String, Going>,
    queue: Queue,
}

impl Keeper {
    fn new(server: Arc<Inner>) -> Self {
        Self {
            server,
            graph: Graph::default(),
            definitions: Definitions::default(),
            going: BTreeMap::new(),
            queue: Queue::default(),
        }
    }

    /// Reads the whole state, page by page, at one revision.
    async fn learn(&mut self) -> Result<u64> {
        self.graph = Graph::default();
        self.going.clear();
        self.definitions.load(&self.server).await?;
        let mut query = Query::prefix(Bytes::from_static(ALL));
        query.limit = Some(CHUNK);
        loop {
            let page = self.server.objects.store().range(query.clone()).await.map_err(storage_failure)?;
            query.at = Some(page.revision);
            for entry in &page.entries {
                if let Some(change) = Change::learned(&self.server, entry) {
                    self.take(&change);
                }
            }
            let Some(last) = page.entries.last().filter(|_| page.more) else { return Ok(page.revision) };
            let mut next = last.key.to_vec();
            next.push(0);
            query.start = next.into();
        }
    }

    async fn run(&mut self, mut revision: u64) {
        let mut authority = self.server.authority.subscribe();
        loop {
            let watch = self.server.objects.store().watch(Bytes::from_static(ALL), revision);
            if let Ok(mut watch) = watch {
                loop {
                    let (busy, wake) = (self.queue.is_ready(), self.queue.next_due());
                    tokio::select! {
                        biased;
                        batch = watch.next() => match batch {
                            Ok(batch) => self.take_batch(&batch),
                            Err(error) => {
                                tracing::warn!(%error, "controllers fell behind and read everything again");
                                break;
                            }
                        },
                        Ok(()) = authority.changed() => self.queue.push(Work::Authority),
                        () = std::future::ready(()), if busy => {}
                        () = sleep_until(wake), if wake.is_some() => {}
                    }
                    self.work_on().await;
                }
            }
            revision = loop {
                match self.learn().await {
                    Ok(revision) => break revision,
                    Err(failure) => tracing::error!(%failure, "controllers cannot read the state"),
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            };
        }
    }

    fn take_batch(&mut self, batch: &WatchBatch) {
        for event in &batch.events {
            if let Some(change) = Change::observed(&self.server, event) {
                self.take(&change);
            }
        }
    }

    /// Lets every decider see a change.
    fn take(&mut self, change: &Change) {
        self.graph.take(change, &mut self.queue);
        self.definitions.take(change, &mut self.queue);
        namespaces::take(change, &mut self.going, &mut self.queue);
    }

    /// Does work that is due, a slice of it.
    async fn work_on(&mut self) {
        for _ in 0..SLICE {
            let Some(work) = self.queue.pop(Instant::now()) else { return };
            match self.work(&work).await {
                Ok(()) => self.queue.done(&work),
                Err(failure) => {
                    tracing::debug!(%failure, ?work, "controller work is tried again");
                    self.queue.failed(work, Instant::now());
                }
            }
        }
    }

    async fn work(&mut self, work: &Work) -> Result<()> {
        match work {
            Work::Definition(name) => self.definitions.reconcile(&self.server, name).await,
            Work::Authority => {
                for namespace in namespaces::names(&self.server).await? {
                    self.queue.push(Work::Defaults(namespace));
                }
                Ok(())
            }
            Work::Defaults(namespace) => namespaces::defaults(&self.server, namespace).await,
            Work::Terminate(namespace) => {
                // It may be gone since it was named.
                let Some(going) = self.going.get_mut(namespace) else { return Ok(()) };
                if namespaces::terminate(&self.server, namespace, going).await? {
                    self.queue.push(work.clone());
                }
                Ok(())
            }
            Work::Dependent(key) => collect::dependent(&self.server, &self.graph, key).await,
            Work::Owner(key) => collect::owner(&self.server, &self.graph, key).await,
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at).await;
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use thane_kv::{MemoryOptions, MemoryStore};
    use thane_runtime::readiness::Readiness;
    use thane_runtime::{SystemClock, Tasks};

    use crate::authn::Authenticator;
    use crate::encryption::Encryption;
    use crate::server::{ApiServer, Options, Parts};

    /// A server without anything in it, whose controllers do not run.
    pub(crate) fn server() -> ApiServer {
        ApiServer::new(
            Parts {
                store: MemoryStore::new(MemoryOptions::default()),
                clock: SystemClock::shared(),
                authenticator: Authenticator::default(),
                encryption: Encryption::default(),
                audit: None,
                readiness: Readiness::new(),
                options: Options::default(),
            },
            Tasks::root("test").0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn much_work_is_done_in_slices() {
        let mut keeper = Keeper::new(Arc::clone(testing::server().inner()));
        for number in 0..=SLICE {
            keeper.queue.push(Work::Dependent(format!("/registry/core/configmaps/default/m-{number}").into()));
        }
        keeper.work_on().await;
        assert!(keeper.queue.is_ready(), "the watch is looked at before the last one");
        keeper.work_on().await;
        assert!(!keeper.queue.is_ready());
    }
}
