//! `thane up`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use thane_api::code;
use tokio::runtime::{Builder, Runtime};

use crate::cli::Global;
use crate::failure::Failure;
use crate::settings::{self, Flags};

/// Run a hub and its clusters in this process
///
/// Each has a Kubernetes API of its own, and each cluster an agent that keeps its Applications in step with
/// the hub. Writes DIR/kubeconfig with the contexts hub and
/// cluster-1, cluster-2 and so on, and DIR/endpoints.json. Data survives restarts. Ends with Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Where everything is kept
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How many clusters run beside the hub
    #[arg(long, value_name = "N")]
    clusters: Option<u16>,
    /// How many of them, the last ones, decide for themselves what they run
    #[arg(long, value_name = "K")]
    autonomous: Option<u16>,
    /// Encrypt Secrets with the keys in this file, the first of which encrypts
    ///
    /// YAML: `keys`, a list of objects with `id` and `secret` (32 random bytes in base64). To rotate,
    /// put a new key first and start again; what is written then is encrypted with it, and once every
    /// Secret was written again the old key can go.
    #[arg(long, value_name = "FILE")]
    encryption_keys: Option<PathBuf>,
    /// Let in whoever shows a bearer token of this file
    ///
    /// CSV as kube-apiserver's: a token, a user's name, its uid and, where it is in some, its groups in
    /// quotes with commas between them. Read when the process starts.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Pods of one API that run on this machine at once
    #[arg(long, value_name = "N")]
    max_pods: Option<usize>,
    /// The hub's Redis, which Argo CD's questions about its own applications go to
    ///
    /// With it, a proxy listens that asks agents about theirs.
    #[arg(long, value_name = "HOST:PORT")]
    redis: Option<String>,
    /// The Redis of cluster 1, 2 and so on; given once for each
    #[arg(long, value_name = "HOST:PORT")]
    cluster_redis: Vec<String>,
    /// Every listener takes a free loopback port, new at each start
    #[arg(long)]
    ephemeral_ports: bool,
}

impl Up {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        let settings = settings::load(global, self.flags())?;
        let levels = thane_runtime::telemetry::init(&settings.value.log)?;
        for variable in &settings.unknown_variables {
            tracing::warn!(variable, "an environment variable sets nothing");
        }
        thane_runtime::open_files::lift();
        let runtime = threads("thane")?;
        // Making and clearing pods waits for the disk and the kernel; nobody else is to wait with it.
        let pods = threads("pods")?;
        runtime.block_on(crate::up::run(settings, levels, pods.handle()))
    }

    fn flags(&self) -> Flags {
        vec![
            ("up.data", "data", self.data.as_ref().map(|data| json!(data))),
            ("up.clusters", "clusters", self.clusters.map(|clusters| json!(clusters))),
            ("up.autonomous", "autonomous", self.autonomous.map(|number| json!(number))),
            ("up.encryptionKeys", "encryption-keys", self.encryption_keys.as_ref().map(|file| json!(file))),
            ("up.tokenFile", "token-file", self.token_file.as_ref().map(|file| json!(file))),
            ("up.maxPods", "max-pods", self.max_pods.map(|number| json!(number))),
            ("up.redis", "redis", self.redis.as_ref().map(|address| json!(address))),
            ("up.clusterRedis", "cluster-redis", (!self.cluster_redis.is_empty()).then(|| json!(self.cluster_redis))),
            ("up.ephemeralPorts", "ephemeral-ports", self.ephemeral_ports.then_some(true.into())),
        ]
    }
}

fn threads(name: &str) -> Result<Runtime, Failure> {
    let built = Builder::new_multi_thread().thread_name(name).enable_all().build();
    built.map_err(|error| Failure::new(code::BUG, format!("start the runtime: {error}")))
}
