//! What all pods of a node share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::Resource;
use kube::runtime::events::{Event, EventType, Recorder};
use thane_runtime::SharedClock;

use crate::addresses::Addresses;
use crate::cgroups::Layout;
use crate::changes::Changes;
use crate::disks::Disks;
use crate::images::{self, Host, Images, Own};
use crate::layers::Layers;
use crate::metrics::Metrics;
use crate::program::Program;
use crate::record::PodDirectory;
use crate::state::BackoffRule;

/// What a node is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its name in the API.
    pub name: String,
    /// Where it keeps its pods.
    pub directory: PathBuf,
    /// Where images are.
    pub images: PathBuf,
    /// The program in the image `thane`.
    pub program: PathBuf,
    /// Pods at once; further ones fail with `OutOfpods`.
    pub pods_max: usize,
    /// The wait before a container's second restart; it doubles up to the other.
    pub restart_first: Duration,
    /// The longest wait before a restart.
    pub restart_most: Duration,
    /// How long containers may take to end when the node itself ends.
    pub stop_within: Duration,
    /// Bytes a pod may write if it does not say itself.
    pub disk_bytes_max: u64,
    /// How often that is looked at.
    pub disk_every: Duration,
    /// Bytes that have to be free where pods write, or the one that has the most is ended; if none is said, 1 GiB, and on
    /// a small disk a twentieth of it.
    pub disk_free_min: Option<u64>,
}

impl Config {
    /// Everything at its default.
    pub fn new(name: impl Into<String>, directory: impl Into<PathBuf>, images: impl Into<PathBuf>) -> Self {
        let rule = BackoffRule::default();
        Self {
            name: name.into(),
            directory: directory.into(),
            images: images.into(),
            program: images::running(),
            pods_max: 1000,
            restart_first: rule.first,
            restart_most: rule.most,
            stop_within: Duration::from_secs(5),
            disk_bytes_max: 16 << 30,
            disk_every: Duration::from_secs(10),
            disk_free_min: None,
        }
    }
}

/// What all pods of a node share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) client: Client,
    pub(crate) clock: SharedClock,
    pub(crate) program: Program,
    pub(crate) layout: Layout,
    pub(crate) images: Images,
    pub(crate) host: Host,
    /// Our own program, if it is still there.
    pub(crate) own: Option<Own>,
    pub(crate) addresses: Arc<Addresses>,
    /// Of objects that volumes are made from.
    pub(crate) changes: Arc<Changes>,
    pub(crate) layers: Layers,
    pub(crate) disks: Disks,
    pub(crate) memory: u64,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    /// The top of this node's control groups.
    pub(crate) group: String,
}

impl Shared {
    pub(crate) fn rule(&self) -> BackoffRule {
        BackoffRule { first: self.config.restart_first, most: self.config.restart_most }
    }

    pub(crate) fn pod(&self, uid: &str) -> PodDirectory {
        PodDirectory::new(&self.config.directory.join("pods"), uid)
    }

    pub(crate) fn claims(&self) -> PathBuf {
        self.config.directory.join("claims")
    }

    /// Tells people what happened to a pod. Nobody depends on it.
    pub(crate) async fn tell(&self, pod: &Pod, warning: bool, reason: &str, note: String) {
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &pod.object_ref(&())).await {
            tracing::debug!(%error, reason, "an event was not recorded");
        }
    }
}
