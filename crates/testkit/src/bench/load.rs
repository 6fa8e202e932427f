//! Writes and lists, timed.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::HttpsClient;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Create,
    Update,
}

pub(super) fn request(client: &HttpsClient, method: Method, path: &str, body: &Value) -> Result<Request<Full<Bytes>>> {
    let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    Ok(Request::builder()
        .method(method)
        .uri(path)
        .header("host", client.address())
        .header("content-type", "application/json")
        .body(Full::new(bytes))?)
}

pub(super) async fn make_namespace(client: &HttpsClient, name: &str) -> Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let answer = client.exchange(request(client, Method::POST, "/api/v1/namespaces", &body)?).await?;
    ensure!(answer.status == StatusCode::CREATED, "creating namespace {name}: {}", answer.status);
    Ok(())
}

/// An object of about five hundred bytes as stored.
pub(super) fn object(name: &str, text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text.repeat(30)}})
}

/// Writes each object of a range once, by so many clients, and tells how many a second.
pub(super) async fn write(client: &HttpsClient, kind: Kind, range: Range<usize>, clients: usize) -> Result<f64> {
    let next = Arc::new(AtomicUsize::new(range.start));
    let started = Instant::now();
    let mut writers = JoinSet::new();
    for _ in 0..clients {
        let (client, next, end) = (client.clone(), next.clone(), range.end);
        writers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return anyhow::Ok(());
                }
                write_one(&client, kind, number).await?;
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done??;
    }
    let count = u32::try_from(range.len())?;
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}

async fn write_one(client: &HttpsClient, kind: Kind, number: usize) -> Result<()> {
    let name = format!("object-{number:06}");
    let all = "/api/v1/namespaces/bench/configmaps";
    let answer = match kind {
        Kind::Create => client.exchange(request(client, Method::POST, all, &object(&name, "created"))?).await?,
        Kind::Update => {
            let path = format!("{all}/{name}");
            client.exchange(request(client, Method::PUT, &path, &object(&name, "updated"))?).await?
        }
    };
    ensure!(answer.status.is_success(), "{kind:?} {name}: {}", answer.status);
    Ok(())
}

/// The median time of five lists of everything, each read to its end.
pub(super) async fn list(client: &HttpsClient, expected: usize) -> Result<Duration> {
    let mut times = Vec::new();
    for round in 0..5 {
        let started = Instant::now();
        let path = "/api/v1/namespaces/bench/configmaps";
        let answer = client.exchange(request(client, Method::GET, path, &Value::Null)?).await?;
        times.push(started.elapsed());
        if round == 0 {
            let body: Value = serde_json::from_slice(&answer.body)?;
            let found = body["items"].as_array().map_or(0, Vec::len);
            ensure!(found >= expected, "the list has {found} of {expected} objects");
        }
    }
    Ok(median(times))
}

pub(super) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
