//! A node of a Kubernetes API: registers itself, takes pods on and looks after them.

mod claims;
mod placement;
mod register;
mod schedule;
mod strays;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::json;
use sha2::{Digest, Sha256};
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{mpsc, watch};

use crate::addresses::Addresses;
use crate::cgroups::Layout;
use crate::disks::Disks;
use crate::images::{Host, Images, Own};
use crate::layers::Layers;
use crate::metrics::Metrics;
use crate::pod::PodExt;
use crate::program::{Living, Program};
use crate::record::PodDirectory;
use crate::runner::Runner;
use crate::shared::{Config, Shared};
use crate::{changes, disks, files, host, images};
use placement::Place;

/// Pods that have ended and wait to be noticed.
const ENDED_MAX: usize = 64;

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the machine lacks.
    #[error("containers cannot be run here, missing: {}", .0.join("; "))]
    Missing(Vec<String>),
    /// A file or directory of its own.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The images.
    #[error(transparent)]
    Images(#[from] images::Error),
    /// The API.
    #[error("register the node: {0}")]
    Api(#[from] kube::Error),
}

/// A node that runs.
#[derive(Clone)]
pub struct Node {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tasks: Tasks,
}

impl Node {
    /// Registers the node and runs its pods until the tasks end; then all of them end.
    pub async fn start(
        config: Config,
        client: Client,
        clock: SharedClock,
        addresses: Arc<Addresses>,
        tasks: &Tasks,
    ) -> Result<Self, Error> {
        let missing = host::missing();
        if !missing.is_empty() {
            return Err(Error::Missing(missing));
        }
        let mut config = config;
        let given = config.directory.clone();
        let at = |source: io::Error| Error::File { path: given.clone(), source };
        files::private_directory(&given.join("pods")).map_err(at)?;
        // The executor works from elsewhere, so paths must mean the same everywhere.
        let directory = given.canonicalize().map_err(at)?;
        config.directory.clone_from(&directory);
        config.images = std::path::absolute(&config.images).map_err(at)?;
        let digest = Sha256::digest(directory.as_os_str().as_encoded_bytes());
        let group = images::hex(&digest[..6]);
        let reporter = Reporter { controller: "thane-node".to_owned(), instance: Some(config.name.clone()) };
        let program = Program::install(&directory.join("bin")).map_err(at)?;
        host::probe(&program, &directory).await.map_err(|why| Error::Missing(vec![why]))?;
        let host = Host::prepare(&directory.join("host")).map_err(at)?;
        let own = Own::prepare(&config.program, &directory.join("own"), &host);
        let own = own.inspect_err(|error| tracing::warn!(%error, "there is no image thane")).ok();
        let shared = Arc::new(Shared {
            program,
            host,
            own,
            images: Images::open(&config.images)?,
            layout: Layout::of_machine(),
            layers: Layers::open(directory.join("layers"), directory.join("pods")).map_err(at)?,
            addresses,
            disks: Disks::default(),
            changes: Arc::default(),
            memory: host::memory(),
            recorder: Recorder::new(client.clone(), reporter),
            metrics: Metrics::default(),
            group: format!("thane-{group}"),
            config,
            client,
            clock,
        });
        strays::end(&directory);
        let place = register::register(&shared).await?;
        let (renewing, top) = (register::renew(Arc::clone(&shared), tasks.clone()), Arc::clone(&shared));
        tasks.spawn("lease", async move {
            renewing.await;
            // Pods end before this does; what then is left of the groups is the top.
            crate::runner::stop::remove_groups(top.layout.directories(&[&top.group])).await;
        });
        for watching in changes::watches(&shared, tasks) {
            tasks.spawn("changes", watching);
        }
        tasks.spawn("disk-guard", disks::guard(Arc::clone(&shared), tasks.clone()));
        tasks.spawn("claims", claims::bind(Arc::clone(&shared), tasks.clone()));
        let following = Following::new(Arc::clone(&shared), place, tasks.child("pods"));
        tasks.spawn_essential("pods", following.run(tasks.clone()));
        Ok(Self { shared, tasks: tasks.child("access") })
    }
}

impl Node {
    /// Makes its counts visible.
    pub fn register(&self, registry: &mut Registry) {
        self.shared.metrics.register(registry);
    }
}

/// All pods of the node.
struct Following {
    shared: Arc<Shared>,
    place: Place,
    runners: BTreeMap<String, watch::Sender<Option<Arc<Pod>>>>,
    listed: BTreeSet<String>,
    ended: mpsc::Receiver<(String, bool)>,
    end: mpsc::Sender<(String, bool)>,
    tasks: Tasks,
}

impl Following {
    fn new(shared: Arc<Shared>, place: Place, tasks: Tasks) -> Self {
        let (end, ended) = mpsc::channel(ENDED_MAX);
        Self { shared, place, runners: BTreeMap::new(), listed: BTreeSet::new(), ended, end, tasks }
    }

    /// Follows the API until the node ends, then waits for its pods.
    async fn run(mut self, stopping: Tasks) {
        let api: Api<Pod> = Api::all(self.shared.client.clone());
        let stream = watcher(api, watcher::Config::default()).default_backoff();
        let mut stream = std::pin::pin!(stream);
        let mut places = std::pin::pin!(schedule::places(&self.shared));
        loop {
            tokio::select! {
                () = stopping.cancelled() => break,
                () = self.tasks.cancelled() => break,
                Some(place) = places.next() => self.moved(place).await,
                Some((uid, finished)) = self.ended.recv() => self.noticed(&uid, finished).await,
                event = stream.try_next() => match event {
                    Ok(Some(event)) => self.observe(event).await,
                    Ok(None) => break,
                    Err(error) => tracing::warn!(%error, "the watch of pods failed, trying again"),
                },
            }
        }
    }

    async fn observe(&mut self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(pod) => {
                self.listed.insert(PodExt::uid(&pod).to_owned());
                self.apply(pod).await;
            }
            watcher::Event::InitDone => self.forget_others().await,
            watcher::Event::Apply(pod) => self.apply(pod).await,
            watcher::Event::Delete(pod) => self.gone(PodExt::uid(&pod)).await,
        }
    }

    /// The node says otherwise than before which pods it takes: those that wait are looked at again.
    async fn moved(&mut self, place: Place) {
        if self.place == place {
            return;
        }
        self.place = place;
        match schedule::waiting(&self.shared).await {
            Ok(pods) => {
                for pod in &pods {
                    Box::pin(self.schedule(pod)).await;
                }
            }
            Err(error) => tracing::warn!(%error, "pods that wait for a node were not found; a change of one finds it"),
        }
    }

    async fn schedule(&self, pod: &Pod) {
        let Some(spec) = schedule::wanted(pod) else { return };
        match self.place.obstacle(spec) {
            None => schedule::bind(&self.shared, pod).await,
            Some(why) => schedule::tell(&self.shared, pod, why).await,
        }
    }

    async fn apply(&mut self, pod: Pod) {
        let name = &self.shared.config.name;
        let node = pod.spec().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        if node.is_empty() {
            Box::pin(self.schedule(&pod)).await;
            return;
        }
        if node != name {
            return;
        }
        let uid = PodExt::uid(&pod).to_owned();
        if let Some(runner) = self.runners.get(&uid) {
            runner.send_replace(Some(Arc::new(pod)));
            return;
        }
        if pod.is_finished() && !pod.is_deleting() {
            return;
        }
        if self.runners.len() >= self.shared.config.pods_max && !pod.is_deleting() {
            self.refuse(&pod).await;
            return;
        }
        let pod = Arc::new(pod);
        let (sender, receiver) = watch::channel(Some(Arc::clone(&pod)));
        self.runners.insert(uid.clone(), sender);
        self.shared.metrics.pods.inc();
        let runner = Runner::new(Arc::clone(&self.shared), pod, self.tasks.child("pod"));
        let (end, group) = (self.end.clone(), self.tasks.clone());
        self.tasks.spawn("pod", async move {
            let finished = runner.run(receiver, group).await;
            // Nobody listens once the node ends.
            let _ = end.send((uid, finished)).await;
        });
    }

    /// A pod is no longer looked after; what came for it meanwhile is looked at again.
    async fn noticed(&mut self, uid: &str, finished: bool) {
        self.shared.metrics.pods.dec();
        let Some(sender) = self.runners.remove(uid).filter(|_| finished) else { return };
        let last = sender.borrow().clone();
        match last {
            None => self.sweep(uid).await,
            Some(pod) if pod.is_deleting() => self.apply(Pod::clone(&pod)).await,
            Some(_) => {}
        }
    }

    /// A pod that was removed without us.
    async fn gone(&mut self, uid: &str) {
        match self.runners.get(uid) {
            Some(runner) => drop(runner.send_replace(None)),
            None => self.sweep(uid).await,
        }
    }

    /// Ends what is left of pods that no longer exist.
    async fn forget_others(&mut self) {
        let known: Vec<String> = self.runners.keys().filter(|uid| !self.listed.contains(*uid)).cloned().collect();
        for uid in known {
            self.gone(&uid).await;
        }
        let pods = self.shared.config.directory.join("pods");
        let entries = std::fs::read_dir(pods).into_iter().flatten().flatten();
        let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        for uid in names.iter().filter(|uid| !self.listed.contains(*uid) && !self.runners.contains_key(*uid)) {
            self.sweep(uid).await;
        }
    }

    /// Ends and removes what a pod left here that nobody looks after.
    async fn sweep(&self, uid: &str) {
        let directory: PodDirectory = self.shared.pod(uid);
        if !directory.path.exists() {
            return;
        }
        let containers = std::fs::read_dir(directory.path.join("containers")).into_iter().flatten().flatten();
        for name in containers.filter_map(|entry| entry.file_name().into_string().ok()) {
            if let Some((_, Some(living))) = directory.adopt(&name) {
                living.kill();
                living.ended().await;
            }
        }
        if let Some(holder) = directory.read().and_then(|record| Living::find(&record.holder)) {
            holder.kill();
            holder.ended().await;
        }
        crate::runner::stop::remove_groups(self.shared.layout.directories(&[&self.shared.group, uid])).await;
        if let Err(error) = files::remove_tree(&directory.path) {
            tracing::warn!(%error, uid, "what a pod left was not removed");
        }
        self.shared.layers.forget(uid).await;
    }

    /// A pod for which there is no room.
    async fn refuse(&self, pod: &Pod) {
        self.shared.metrics.refused.inc();
        let most = self.shared.config.pods_max;
        let message = format!(
            "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: {}, capacity: {most}",
            self.runners.len()
        );
        let status = json!({"phase": "Failed", "reason": "OutOfpods", "message": message});
        let patch = json!({"metadata": {"uid": PodExt::uid(pod)}, "status": status});
        let api: Api<Pod> = Api::namespaced(self.shared.client.clone(), PodExt::namespace(pod));
        if let Err(error) = api.patch_status(pod.name(), &PatchParams::default(), &Patch::Merge(&patch)).await {
            tracing::warn!(%error, pod = pod.name(), "a pod for which there is no room was not told");
        }
    }
}
