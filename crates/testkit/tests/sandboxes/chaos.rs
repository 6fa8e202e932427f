//! Many claims at once, while the whole program is killed outright and sandboxes are taken away: nobody shares, every failure
//! says whose fault it is, and nothing stays behind. `THANE_CHAOS=full` for two thousand claims.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::Bytes;
use futures::future::join_all;
use http::{Request, StatusCode};
use http_body_util::Full;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use thane_testkit::client::HttpsClient;
use thane_testkit::fleet::Programs;
use thane_testkit::peer::{Absence, PeerHome, Thane};

use crate::left;

/// How much of everything.
struct Scale {
    warm: usize,
    claims: usize,
    clients: usize,
    /// Times the program is killed.
    kills: usize,
    /// Sandboxes that are taken away.
    losses: usize,
}

const SMALL: Scale = Scale { warm: 20, claims: 200, clients: 10, kills: 2, losses: 10 };
const FULL: Scale = Scale { warm: 200, claims: 2000, clients: 50, kills: 5, losses: 100 };
const POOL: &str = "crowd";
/// The longest anything may take to come true.
const PATIENCE: Duration = Duration::from_mins(3);

/// How it goes.
#[derive(Default)]
struct Count {
    asked: AtomicUsize,
    done: AtomicUsize,
    infra: AtomicUsize,
    broken: AtomicUsize,
}

/// What everybody shares.
struct Stage {
    scale: Scale,
    clients: RwLock<(HttpsClient, HttpsClient)>,
    /// Pods that somebody has, and the session they have them by.
    held: Mutex<BTreeMap<String, String>>,
    count: Count,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_shared_or_left_when_much_is_killed() {
    let home = PeerHome::locate();
    let program = match Programs::locate(&home).thane().map(Path::to_owned) {
        Ok(program) => program,
        Err(absence) => return absence.tell(),
    };
    let devices = left::devices();
    let started = Thane::start(&program, &["--ephemeral-ports", "--clusters", "0"]).await;
    let mut thane = started.unwrap_or_else(|error| panic!("{error:#}"));
    if thane.published("gateway").is_err() {
        return Absence::Skip("this machine runs no pods: that takes root".to_owned()).tell();
    }
    let scale = if std::env::var("THANE_CHAOS").is_ok_and(|scale| scale == "full") { FULL } else { SMALL };
    let outcome = run(&mut thane, scale, &devices).await;
    outcome.unwrap_or_else(|error| panic!("{}\n{error:#}", tail(&thane.log())));
}

async fn run(thane: &mut Thane, scale: Scale, devices: &[String]) -> Result<()> {
    let stage = Stage { clients: RwLock::new(clients(thane)?), scale, held: Mutex::default(), count: Count::default() };
    let pool = json!({"name": POOL, "image": "host", "replicas": stage.scale.warm});
    stage.ask("POST", "/v1/pools", &pool).await?;
    stage.full().await?;
    let users = join_all((0..stage.scale.clients).map(|_| stage.user()));
    let (users, killed, lost) = tokio::join!(users, stage.killer(thane), stage.thief());
    killed.context("killing and starting")?;
    let lost = lost?;
    users.into_iter().collect::<Result<Vec<()>>>()?;
    let count = &stage.count;
    let [done, infra, broken] = [&count.done, &count.infra, &count.broken].map(|one| one.load(Ordering::Relaxed));
    eprintln!(
        "{done} sessions used, {infra} failed for no fault of theirs, {broken} calls broke off, {lost} sandboxes lost"
    );
    ensure!(done * 2 > stage.scale.claims, "most of them work: {done}");
    stage.idle().await?;
    stage.leave().await?;
    let directory = thane.directory();
    ensure!(thane.end(), "it ends when it is asked to");
    left::nothing(&directory.join("hub/node"))?;
    ensure!(left::devices() == devices, "network devices are left");
    Ok(())
}

fn clients(thane: &Thane) -> Result<(HttpsClient, HttpsClient)> {
    Ok((HttpsClient::plain(thane.published("gateway")?), HttpsClient::new(thane.endpoint())?))
}

/// What became of a request.
enum Answer {
    /// It was answered as it should be.
    Well(Value),
    /// The sandbox or the gateway was taken away.
    Infra,
    /// Nobody answered.
    Broken,
}

impl Stage {
    fn is_over(&self) -> bool {
        self.count.asked.load(Ordering::Relaxed) >= self.scale.claims
    }

    /// Sends a request; a failure that does not say whose fault it is, or says it is ours, is one of the test.
    async fn try_ask(&self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        let gateway = self.clients.read().0.clone();
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header("host", gateway.address());
        let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(text)))?;
        let Ok(answer) = gateway.exchange(request).await else {
            self.count.broken.fetch_add(1, Ordering::Relaxed);
            // The next of it comes up meanwhile.
            tokio::time::sleep(Duration::from_millis(50)).await;
            return Ok(Answer::Broken);
        };
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        match answer.status {
            status if status.is_success() => Ok(Answer::Well(said)),
            _ if said["kind"] == "infra" && said["error"].is_string() => {
                self.count.infra.fetch_add(1, Ordering::Relaxed);
                Ok(Answer::Infra)
            }
            status => bail!("{method} {path}: {status} {said}"),
        }
    }

    /// Asks until there is an answer.
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Answer::Well(said) = self.try_ask(method, path, body).await? {
                return Ok(said);
            }
            ensure!(Instant::now() < deadline, "{method} {path}: no answer");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Claims and uses sandboxes, one after the other.
    async fn user(&self) -> Result<()> {
        while self.count.asked.fetch_add(1, Ordering::Relaxed) < self.scale.claims {
            let body = json!({"poolRef": POOL, "waitSeconds": 60});
            let session = loop {
                match self.try_ask("POST", "/v1/sessions", &body).await? {
                    Answer::Well(session) => break session,
                    // What nobody was told of is looked for in the end.
                    Answer::Infra | Answer::Broken => {}
                }
            };
            let word = |name: &str| session[name].as_str().unwrap_or_default().to_owned();
            let (id, pod) = (word("id"), word("podName"));
            let other = self.held.lock().insert(pod.clone(), id.clone());
            ensure!(other.is_none(), "{pod} is {id}'s and {other:?}'s");
            let used = self.use_it(&id).await;
            self.held.lock().remove(&pod);
            self.end(&id).await?;
            used?;
        }
        Ok(())
    }

    /// A sandbox is fresh, and what is done in it is there in the next step.
    async fn use_it(&self, id: &str) -> Result<()> {
        let mine = format!("test ! -e mine && echo {id} > mine");
        let steps = json!([
            {"command": ["sh", "-c", mine]},
            {"command": ["cat", "mine"]},
        ]);
        let path = format!("/v1/sessions/{id}/execute");
        let body = json!({"steps": steps, "stopOnError": true, "operationID": id});
        let Answer::Well(said) = self.try_ask("POST", &path, &body).await? else { return Ok(()) };
        for result in said["results"].as_array().into_iter().flatten() {
            if result["error"]["kind"] == "infra" {
                self.count.infra.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            ensure!(result["error"].is_null() && result["output"]["exit_code"] == 0, "{id}: {said}");
        }
        ensure!(said["results"][1]["output"]["stdout"] == format!("{id}\n"), "{id}: {said}");
        self.count.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Ends a session; if nobody hears it, that is done with all others in the end.
    async fn end(&self, id: &str) -> Result<()> {
        match self.try_ask("DELETE", &format!("/v1/sessions/{id}"), &Value::Null).await {
            // It may have been lost with its sandbox, or ended by a call that broke off.
            Err(error) if !format!("{error:#}").contains("404") => Err(error),
            _ => Ok(()),
        }
    }

    /// Kills the program now and then.
    async fn killer(&self, thane: &mut Thane) -> Result<()> {
        for kill in 1..=self.scale.kills {
            let at = self.scale.claims * kill / (self.scale.kills + 1);
            while self.count.asked.load(Ordering::Relaxed) < at {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            thane.kill_and_start().await?;
            // What it publishes comes a moment after its API.
            let deadline = Instant::now() + PATIENCE;
            while thane.published("gateway").is_err() {
                ensure!(Instant::now() < deadline, "it has no gateway any more");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            *self.clients.write() = clients(thane)?;
        }
        Ok(())
    }

    /// Takes sandboxes away under those who have them, and others before anybody has.
    async fn thief(&self) -> Result<usize> {
        let mut taken = 0;
        for loss in 1..=self.scale.losses {
            let at = self.scale.claims * loss / (self.scale.losses + 1);
            while self.count.asked.load(Ordering::Relaxed) < at && !self.is_over() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let held = self.held.lock().keys().next().cloned();
            let pod =
                if loss % 2 == 0 { held } else { self.pods().await.ok().and_then(|pods| pods.into_iter().next()) };
            let Some(pod) = pod else { continue };
            let path = format!("/api/v1/namespaces/default/pods/{pod}?gracePeriodSeconds=0");
            if self.api("DELETE", &path).await.is_ok() {
                taken += 1;
            }
        }
        Ok(taken)
    }

    async fn api(&self, method: &str, path: &str) -> Result<Value> {
        let api = self.clients.read().1.clone();
        let request = Request::builder().method(method).uri(path).header("host", api.address());
        let answer = api.exchange(request.body(Full::default())?).await?;
        ensure!(answer.status == StatusCode::OK, "{method} {path}: {}", answer.status);
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Names of all pods.
    async fn pods(&self) -> Result<Vec<String>> {
        let found = self.api("GET", "/api/v1/namespaces/default/pods").await?;
        let names = found["items"].as_array().into_iter().flatten();
        Ok(names.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
    }

    /// Waits until as many wait as should, and nobody has any.
    async fn full(&self) -> Result<()> {
        until("the pool is full", async || {
            let pool = self.ask("GET", &format!("/v1/pools/{POOL}"), &Value::Null).await?;
            let is_full = pool["readyReplicas"] == self.scale.warm && pool["allocatedReplicas"] == 0;
            if is_full { Ok(()) } else { Err(anyhow!("{pool}")) }
        })
        .await
    }

    /// A session that nobody uses ends by itself.
    async fn idle(&self) -> Result<()> {
        let body = json!({"poolRef": POOL, "idleTimeoutSeconds": 1});
        let session = self.ask("POST", "/v1/sessions", &body).await?;
        let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap_or_default());
        until("an idle session is over", async || match self.try_ask("GET", &path, &Value::Null).await {
            Ok(Answer::Well(session)) if session["phase"] != "Failed" => Err(anyhow!("{session}")),
            _ => Ok(()),
        })
        .await
    }

    /// Ends all sessions, those too that nobody was told of, and the pool; then there are no pods.
    async fn leave(&self) -> Result<()> {
        let listed = self.ask("GET", "/v1/sessions?limit=1000", &Value::Null).await?;
        for session in listed.as_array().into_iter().flatten() {
            self.end(session["id"].as_str().unwrap_or_default()).await?;
        }
        self.full().await?;
        until("there are none but those that wait", async || {
            let pods = self.pods().await?;
            ensure!(pods.len() == self.scale.warm, "{} pods, and {} should wait", pods.len(), self.scale.warm);
            Ok(())
        })
        .await?;
        self.ask("DELETE", &format!("/v1/pools/{POOL}"), &Value::Null).await?;
        until("all pods are gone", async || {
            let pods = self.pods().await?;
            if pods.is_empty() { Ok(()) } else { Err(anyhow!("{pods:?}")) }
        })
        .await
    }
}

async fn until(what: &str, is_so: impl AsyncFn() -> Result<()>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match is_so().await {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error).with_context(|| what.to_owned()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
