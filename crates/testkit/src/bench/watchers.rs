//! Many watchers of one namespace: how long until the last of them has seen a write.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Scale;
use super::load::{median, object, request};
use crate::client::HttpsClient;

/// Connections being opened at once.
const OPENING: usize = 32;
/// The longest a write may take to everybody.
const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// What the events of our own writes contain.
const OURS: &[u8] = b"\"name\":\"seen-";

/// The median, over several writes, of the time from sending a write to its arrival at the last watcher.
pub(super) async fn delay_to_last(client: &HttpsClient, scale: Scale) -> Result<Duration> {
    let all = "/api/v1/namespaces/bench-watch/configmaps";
    let start = client.exchange(request(client, Method::GET, all, &Value::Null)?).await?;
    let start: Value = serde_json::from_slice(&start.body)?;
    let version = start.pointer("/metadata/resourceVersion").and_then(Value::as_str).context("a list has a version")?;
    let path = format!("{all}?watch=true&resourceVersion={version}");
    let openings = (0..scale.watchers).map(|_| open(client, &path));
    let streams: Vec<Result<Incoming>> = futures::stream::iter(openings).buffer_unordered(OPENING).collect().await;

    let (seen, mut arrivals) = mpsc::channel(scale.watchers);
    let mut watchers = JoinSet::new();
    for stream in streams {
        watchers.spawn(report(stream?, seen.clone()));
    }
    let mut delays = Vec::new();
    for round in 0..scale.rounds {
        let write = request(client, Method::POST, all, &object(&format!("seen-{round}"), "watched"))?;
        let started = Instant::now();
        let answer = client.exchange(write).await?;
        ensure!(answer.status.is_success(), "writing for the watchers: {}", answer.status);
        let mut last = started;
        for _ in 0..scale.watchers {
            let arrival = tokio::time::timeout(ROUND_LIMIT, arrivals.recv()).await.context("a watcher saw nothing")?;
            last = last.max(arrival.context("all watchers ended")?);
        }
        delays.push(last - started);
    }
    watchers.abort_all();
    Ok(median(delays))
}

async fn open(client: &HttpsClient, path: &str) -> Result<Incoming> {
    let response = client.stream(request(client, Method::GET, path, &Value::Null)?).await?;
    ensure!(response.status().is_success(), "opening a watch: {}", response.status());
    Ok(response.into_body())
}

/// Tells the time of each event that creates one of ours; an event is a line.
async fn report(mut stream: Incoming, seen: mpsc::Sender<Instant>) {
    let mut line = Vec::new();
    while let Some(Ok(frame)) = stream.frame().await {
        let arrived = Instant::now();
        for byte in frame.data_ref().map_or(&[][..], |data| data) {
            line.push(*byte);
            if *byte == b'\n' {
                let ours = line.windows(OURS.len()).any(|part| part == OURS);
                line.clear();
                if ours && seen.send(arrived).await.is_err() {
                    return;
                }
            }
        }
    }
}
