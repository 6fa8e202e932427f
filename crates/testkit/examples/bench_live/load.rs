//! What is asked, and how long it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::StreamExt;
use http::Request;
use http_body_util::{BodyStream, Full};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::api::{Api, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::json;
use thane_testkit::client::HttpsClient;
use thane_testkit::endpoint::Endpoint;
use thane_testkit::fleet::{LivePair, Program};
use tokio::task::JoinSet;

const OBJECT: &str = "/api/v1/namespaces/default/configmaps/ours";
/// The only list that argocd-agent has.
const LIST: &str = "/api/v1/namespaces/default/events";
const LOG: &str = "/api/v1/namespaces/default/pods/writer/log?container=main";
/// The longest a pod may take.
const PATIENCE: Duration = Duration::from_mins(2);
/// How Argo CD's objects are told.
const TRACKED: &str = "argocd.argoproj.io/tracking-id";

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    events: usize,
    log_lines: usize,
    /// Requests one after the other.
    alone: usize,
    /// Clients that ask together, and how often in all.
    clients: usize,
    together: usize,
    /// Requests at once.
    crowd: usize,
    lists: usize,
}

impl Scale {
    pub(crate) fn of(quick: bool) -> Self {
        let full = Self {
            events: 2_000,
            log_lines: 120_000,
            alone: 1_000,
            clients: 64,
            together: 20_000,
            crowd: 1_000,
            lists: 9,
        };
        if !quick {
            return full;
        }
        Self { events: 400, log_lines: 24_000, alone: 200, together: 4_000, lists: 3, ..full }
    }

    /// Go's hub looks for answers ten times a second, and its agent takes one request after the other.
    pub(crate) fn through(self, program: Program) -> Self {
        match program {
            Program::Thane => self,
            Program::Go => Self { alone: self.alone / 20, together: self.together / 40, lists: 3, ..self },
        }
    }
}

/// The numbers of one way to the cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) get_p50: Duration,
    pub(crate) get_p99: Duration,
    pub(crate) gets: f64,
    /// All requests of a crowd, and how many of them were answered well.
    pub(crate) crowd: Duration,
    pub(crate) crowd_answered: usize,
    pub(crate) list: Duration,
    /// Megabytes of a log a second.
    pub(crate) log: f64,
}

/// Makes what is asked for.
pub(crate) async fn fill(pair: &LivePair, scale: Scale) -> Result<()> {
    let client = pair.spoke_client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map = json!({"metadata": {"name": "ours", "annotations": {TRACKED: "a:/ConfigMap:default/ours"}}, "data": {"a": "x".repeat(400)}});
    maps.create(&PostParams::default(), &serde_json::from_value(map)?).await?;
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let make = |number: usize| {
        let event = json!({
            "metadata": {"name": format!("event-{number}")}, "reason": "Bench", "message": "m".repeat(200),
            "type": "Normal", "involvedObject": {"kind": "ConfigMap", "name": "ours", "namespace": "default"},
        });
        let events = events.clone();
        async move { anyhow::Ok(events.create(&PostParams::default(), &serde_json::from_value(event)?).await?) }
    };
    let mut creating = futures::stream::iter((0..scale.events).map(make)).buffer_unordered(16);
    while let Some(one) = creating.next().await {
        one?;
    }
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let write = format!("yes {} | head -n {}; touch /tmp/written; sleep 100000", "y".repeat(150), scale.log_lines);
    let pod = json!({
        "metadata": {"name": "writer", "annotations": {TRACKED: "a:/Pod:default/writer"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
            "name": "main", "image": "host", "command": ["sh", "-c", write],
            "readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/written"]}, "periodSeconds": 1},
        }]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    let ready = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|it| it.type_ == "Ready" && it.status == "True"))
    };
    tokio::time::timeout(PATIENCE, await_condition(pods.clone(), "writer", conditions::is_pod_running())).await??;
    tokio::time::timeout(PATIENCE, await_condition(pods, "writer", ready)).await??;
    Ok(())
}

/// Asks for everything in turn.
pub(crate) async fn measure(endpoint: &Endpoint, scale: Scale) -> Result<Figures> {
    let client = HttpsClient::new(endpoint)?;
    for _ in 0..scale.alone / 10 {
        get(&client).await?;
    }
    let mut times = Vec::with_capacity(scale.alone);
    for _ in 0..scale.alone {
        times.push(get(&client).await?);
    }
    times.sort();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    let (get_p50, get_p99) = (at(50), at(99));
    let gets = together(&client, scale).await?;
    let (crowd, crowd_answered) = crowd(&client, scale.crowd).await;
    let list = list(&client, scale).await?;
    let log = log(&client, scale).await?;
    Ok(Figures { get_p50, get_p99, gets, crowd, crowd_answered, list, log })
}

fn request(client: &HttpsClient, path: &str) -> Result<Request<Full<bytes::Bytes>>> {
    Ok(Request::get(path).header("host", client.address()).body(Full::default())?)
}

async fn get(client: &HttpsClient) -> Result<Duration> {
    let started = Instant::now();
    let answer = client.exchange(request(client, OBJECT)?).await?;
    ensure!(answer.status == 200, "{OBJECT}: {}", answer.status);
    Ok(started.elapsed())
}

/// Requests a second of many clients.
async fn together(client: &HttpsClient, scale: Scale) -> Result<f64> {
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let mut asking = JoinSet::new();
    for _ in 0..scale.clients {
        let (client, next) = (client.clone(), Arc::clone(&next));
        asking.spawn(async move {
            while next.fetch_add(1, Ordering::Relaxed) < scale.together {
                get(&client).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = asking.join_next().await {
        done??;
    }
    Ok(f64::from(u32::try_from(scale.together)?) / started.elapsed().as_secs_f64())
}

/// Many requests at once, each on a connection of its own.
async fn crowd(client: &HttpsClient, count: usize) -> (Duration, usize) {
    let started = Instant::now();
    let mut asking = JoinSet::new();
    for _ in 0..count {
        let client = client.clone();
        asking.spawn(async move { get(&client).await.is_ok() });
    }
    let mut answered = 0;
    while let Some(done) = asking.join_next().await {
        answered += usize::from(done.unwrap_or_default());
    }
    (started.elapsed(), answered)
}

async fn list(client: &HttpsClient, scale: Scale) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..scale.lists {
        let started = Instant::now();
        let answer = client.exchange(request(client, LIST)?).await?;
        ensure!(answer.status == 200 && answer.body.len() > scale.events * 300, "{LIST}: {}", answer.status);
        times.push(started.elapsed());
    }
    times.sort();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

async fn log(client: &HttpsClient, scale: Scale) -> Result<f64> {
    let started = Instant::now();
    let response = client.stream(request(client, LOG)?).await?;
    ensure!(response.status() == 200, "{LOG}: {}", response.status());
    let mut body = BodyStream::new(response.into_body());
    let mut count = 0;
    while let Some(frame) = body.next().await {
        count += frame?.into_data().map_or(0, |data| data.len());
    }
    ensure!(count >= scale.log_lines * 150, "the log has only {count} bytes");
    Ok(f64::from(u32::try_from(count)?) / 1e6 / started.elapsed().as_secs_f64())
}
