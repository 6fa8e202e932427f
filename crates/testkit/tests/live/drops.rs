//! Agents that die in the middle: whoever waits is told, and nothing stays behind on the hub.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures::StreamExt;
use http::Request;
use http_body_util::{BodyExt, BodyStream, Full};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::json;
use thane_testkit::bench::resident_bytes;
use thane_testkit::client::HttpsClient;
use thane_testkit::fleet::{LivePair, Program, Stop};
use thane_testkit::peer::{PeerHome, in_own_network};

use crate::pairs::kubectl;
use crate::{PATIENCE, Running, redis, talker};

/// A hundred megabytes in all.
const MAPS: usize = 112;
const MAP_BYTES: usize = 900_000;
/// The longest a client may be left without an error.
const TOLD_WITHIN: Duration = Duration::from_secs(30);
/// What the hub may hold more than before.
const GROWTH_MAX: u64 = 48 * 1024 * 1024;
/// What of the hub's metrics counts what is open.
const OPEN: [&str; 3] = ["thane_hub_tunnel_open", "thane_hub_tunnel_parked", "thane_hub_proxy_connections"];

#[test]
fn an_agent_that_dies_leaves_nothing_behind() {
    let home = PeerHome::locate();
    if let Err(absence) = LivePair::require(&home) {
        return absence.tell();
    }
    if !in_own_network(&["--exact", "drops::an_agent_that_dies_leaves_nothing_behind", "--nocapture"]) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let pair = LivePair::start(&home, Program::Thane, Program::Thane).await;
        let mut pair = pair.unwrap_or_else(|error| panic!("{error:#}"));
        fill(&pair).await;
        let client = HttpsClient::new(&pair.proxy).unwrap();
        whole_list(&client).await;
        let before = memory(&pair);
        list(&mut pair, &client).await;
        log(&mut pair, &client).await;
        resumed(&mut pair, &client).await;
        redis::lost(&mut pair).await;
        shell(&home, &mut pair).await;
        drop(client);
        quiet(&pair).await;
        let grown = memory(&pair).saturating_sub(before);
        assert!(grown < GROWTH_MAX, "the hub has {grown} bytes more than before");
        pair.stop().await.unwrap();
    });
}

async fn fill(pair: &LivePair) {
    let maps: Api<ConfigMap> = Api::namespaced(pair.spoke_client(), "default");
    let content = "x".repeat(MAP_BYTES);
    let make = |number: usize| {
        let map = json!({"metadata": {"name": format!("large-{number}")}, "data": {"content": content}});
        let (maps, map) = (maps.clone(), serde_json::from_value(map).unwrap());
        async move { maps.create(&PostParams::default(), &map).await.unwrap() }
    };
    futures::stream::iter((0..MAPS).map(make)).buffer_unordered(4).for_each(|_| async {}).await;
    let pods: Api<Pod> = Api::namespaced(pair.spoke_client(), "default");
    pods.create(&PostParams::default(), &serde_json::from_value(talker()).unwrap()).await.unwrap();
    let running = await_condition(pods, "talker", conditions::is_pod_running());
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
}

type Frames = BodyStream<hyper::body::Incoming>;

async fn open(client: &HttpsClient, path: &str) -> Frames {
    let request = Request::get(path).header("host", client.address()).body(Full::default()).unwrap();
    let response = client.stream(request).await.unwrap();
    assert_eq!(response.status(), 200);
    BodyStream::new(response.into_body())
}

const LIST: &str = "/api/v1/namespaces/default/configmaps";

async fn whole_list(client: &HttpsClient) {
    let request = Request::get(LIST).header("host", client.address()).body(Full::default()).unwrap();
    let body = client.stream(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert!(body.len() > MAPS * MAP_BYTES, "{}", body.len());
}

/// Reads on until the error; how many bytes came before.
async fn broken(mut frames: Frames) -> usize {
    let mut count = 0;
    let reading = async {
        loop {
            match frames.next().await {
                Some(Ok(frame)) => count += frame.into_data().map_or(0, |data| data.len()),
                Some(Err(_)) => return,
                None => panic!("it ended as if it were whole, after {count} bytes"),
            }
        }
    };
    tokio::time::timeout(TOLD_WITHIN, reading).await.unwrap();
    count
}

async fn again(pair: &mut LivePair) {
    quiet(pair).await;
    pair.start_agent().await.unwrap();
}

async fn list(pair: &mut LivePair, client: &HttpsClient) {
    let mut frames = open(client, LIST).await;
    frames.next().await.unwrap().unwrap();
    pair.stop_agent(Stop::Killed).await.unwrap();
    let count = broken(frames).await;
    assert!(count < MAPS * MAP_BYTES / 2, "most of it was sent before anybody read it: {count}");
    again(pair).await;
}

async fn log(pair: &mut LivePair, client: &HttpsClient) {
    let path = "/api/v1/namespaces/default/pods/talker/log?follow=true";
    let mut frames = retried(client, path).await;
    for _ in 0..5 {
        frames.next().await.unwrap().unwrap();
    }
    pair.stop_agent(Stop::Killed).await.unwrap();
    broken(frames).await;
    again(pair).await;
}

/// Adds whole lines until there are so many.
async fn read_lines(frames: &mut Frames, text: &mut String, count: usize) {
    while text.matches('\n').count() < count {
        let frame = tokio::time::timeout(PATIENCE, frames.next()).await.unwrap().unwrap().unwrap();
        text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
    }
}

/// The agent comes back in time: the log goes on, every line once and without the times nobody asked for.
async fn resumed(pair: &mut LivePair, client: &HttpsClient) {
    let path = "/api/v1/namespaces/default/pods/talker/log?follow=true&tailLines=3";
    let mut frames = retried(client, path).await;
    let mut text = String::new();
    for round in 1..3 {
        read_lines(&mut frames, &mut text, round * 10).await;
        pair.stop_agent(Stop::Killed).await.unwrap();
        pair.start_agent().await.unwrap();
    }
    read_lines(&mut frames, &mut text, 60).await;
    let number = |line: &str| line.strip_prefix("line ").and_then(|number| number.parse::<u64>().ok());
    let numbers: Vec<Option<u64>> =
        text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(|line| number(line.trim_end())).collect();
    assert!(numbers.windows(2).all(|pair| pair[0].is_some() && pair[1] == pair[0].map(|number| number + 1)), "{text}");
    drop(frames);
    pair.stop_agent(Stop::Killed).await.unwrap();
    again(pair).await;
}

/// An agent that says that it is connected may have no call parked yet.
async fn retried(client: &HttpsClient, path: &str) -> Frames {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let request = Request::get(path).header("host", client.address()).body(Full::default()).unwrap();
        let response = client.stream(request).await.unwrap();
        if response.status() == 200 {
            return BodyStream::new(response.into_body());
        }
        assert!(Instant::now() < deadline, "{}", response.status());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn shell(home: &PeerHome, pair: &mut LivePair) {
    let kubeconfig = pair.folder().join("proxied");
    std::fs::write(&kubeconfig, pair.proxy.kubeconfig("default").unwrap()).unwrap();
    let mut command = kubectl(home, &kubeconfig, &["exec", "-i", "talker", "--", "sh", "-c", "echo ready; cat"]);
    let shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut shell = Running(shell);
    let mut ready = [0; 6];
    let mut output = shell.0.stdout.take().unwrap();
    let ready = tokio::task::spawn_blocking(move || output.read_exact(&mut ready).map(|()| ready)).await.unwrap();
    assert_eq!(&ready.unwrap(), b"ready\n");
    pair.stop_agent(Stop::Killed).await.unwrap();
    let killed = Instant::now();
    let ended = loop {
        if let Some(ended) = shell.0.try_wait().unwrap() {
            break ended;
        }
        assert!(killed.elapsed() < TOLD_WITHIN, "kubectl waits for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(!ended.success());
    let mut error = String::new();
    shell.0.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    let why = format!("the connection to agent {} was lost", pair.agent_name());
    assert!(error.contains(&why), "kubectl is not told why: {error}");
    again(pair).await;
    pair.stop_agent(Stop::Killed).await.unwrap();
}

/// Nothing of an agent that is gone is open; a client may keep one connection.
async fn quiet(pair: &LivePair) {
    let deadline = Instant::now() + TOLD_WITHIN;
    loop {
        let metrics = pair.hub_metrics().await.unwrap();
        let open: Vec<(&str, f64)> = OPEN.iter().filter_map(|name| Some((*name, *metrics.get(*name)?))).collect();
        assert_eq!(open.len(), OPEN.len(), "the hub does not count them: {:?}", metrics.keys());
        if open.iter().all(|(name, count)| *count <= f64::from(u8::from(name.ends_with("connections")))) {
            return;
        }
        assert!(Instant::now() < deadline, "still open: {open:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Resident bytes of the hub.
fn memory(pair: &LivePair) -> u64 {
    let [hub, _] = pair.processes();
    let bytes = resident_bytes(&hub);
    assert!(bytes > 0, "the hub does not run");
    bytes
}
