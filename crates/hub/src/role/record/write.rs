//! How agents' objects come to say what the hub knows.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http::Request;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use thane_link::explain;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::mpsc;

use super::{Change, PATH, Present, Troubles};

/// Troubles of an agent are written at most this often, however often they change.
const TROUBLES_EVERY: Duration = Duration::from_secs(1);
/// Time for saying goodbye for all agents when the hub stops.
const FAREWELL: Duration = Duration::from_secs(2);
/// Objects written at once where many are.
const AT_ONCE: usize = 16;

/// Writes agents' objects.
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) clock: SharedClock,
    pub(super) present: Arc<Mutex<Present>>,
}

impl Writer {
    /// Writes what there is to write; at first that nobody is connected yet, at last that nobody is any more.
    pub(super) async fn run(
        self,
        changes: mpsc::Receiver<(String, Change)>,
        troubles: Troubles,
        is_kept: bool,
        tasks: Tasks,
    ) {
        if is_kept {
            tokio::select! {
                () = self.begin() => {}
                () = tasks.cancelled() => {}
            }
        }
        tokio::join!(self.changes(changes, &tasks), self.troubles(&troubles, &tasks));
        if is_kept {
            // What was not written in time the next start puts right.
            let _ = tokio::time::timeout(FAREWELL, self.end()).await;
        }
    }

    /// Writes changes in their order.
    async fn changes(&self, mut changes: mpsc::Receiver<(String, Change)>, tasks: &Tasks) {
        loop {
            let (agent, change) = tokio::select! {
                biased;
                () = tasks.cancelled() => return,
                change = changes.recv() => match change {
                    Some(change) => change,
                    None => return,
                },
            };
            self.write(&agent, change).await;
        }
    }

    /// Nobody is connected to a hub that has just begun, whatever an earlier one has left.
    async fn begin(&self) {
        let agents = match self.list().await {
            Ok(agents) => agents,
            Err(error) => {
                let error = explain(&error, "list", PATH);
                return tracing::debug!(error, "what an earlier hub wrote about agents stays");
            }
        };
        let now = self.clock.now().to_string();
        let stale = agents.iter().filter_map(|agent| {
            let name = agent["metadata"]["name"].as_str()?.to_owned();
            Some((name, leftover(&agent["status"], &now)?))
        });
        self.write_many(stale.collect()).await;
    }

    async fn end(&self) {
        let status = json!({"connected": false, "since": self.clock.now().to_string()});
        let present: Vec<String> = self.present.lock().keys().cloned().collect();
        self.write_many(present.into_iter().map(|agent| (agent, status.clone())).collect()).await;
    }

    async fn write_many(&self, all: Vec<(String, Value)>) {
        let writes = all.into_iter().map(|(agent, status)| async move {
            self.write(&agent, Change::Status(status)).await;
        });
        futures::stream::iter(writes).buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    /// Writes what is in trouble, the newest of each agent.
    async fn troubles(&self, troubles: &Troubles, tasks: &Tasks) {
        loop {
            tokio::select! {
                () = tasks.cancelled() => return,
                () = troubles.changed.notified() => {}
            }
            let pending = std::mem::take(&mut *troubles.pending.lock());
            for (agent, report) in pending {
                let status = json!({"troubles": report});
                let Err(error) = self.patch(&agent, &status).await else { continue };
                if is_absent(&error) && self.present.lock().contains_key(&agent) {
                    // Its object is about to be made.
                    troubles.again(agent, report);
                }
            }
            tokio::select! {
                () = tasks.cancelled() => return,
                () = tokio::time::sleep(TROUBLES_EVERY) => {}
            }
        }
    }

    async fn write(&self, agent: &str, change: Change) {
        let written = match change {
            Change::Here(status) => match self.patch(agent, &status).await {
                Err(error) if is_absent(&error) => self.create(agent, &status).await,
                written => written,
            },
            Change::Status(status) => match self.patch(agent, &status).await {
                Err(error) if is_absent(&error) => Ok(()),
                written => written,
            },
            Change::Gone => self.delete(agent).await,
        };
        if let Err(error) = written {
            // An API without this kind is fine: nothing but `thane agents list` reads it.
            let error = explain(&error, "patch", PATH);
            tracing::debug!(agent, error, "the agent's record was not written");
        }
    }

    async fn list(&self) -> Result<Vec<Value>, kube::Error> {
        let request = Request::get(PATH).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let mut list: Value = self.client.request(request).await?;
        Ok(match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        })
    }

    async fn patch(&self, agent: &str, status: &Value) -> Result<(), kube::Error> {
        let request = Request::patch(format!("{PATH}/{agent}?fieldManager=thane-hub"))
            .header("content-type", "application/merge-patch+json")
            .body(json!({"status": status}).to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        self.client.request::<Value>(request).await.map(drop)
    }

    async fn create(&self, agent: &str, status: &Value) -> Result<(), kube::Error> {
        let object = json!({
            "apiVersion": "thane.dev/v1alpha1", "kind": "Agent", "metadata": {"name": agent}, "status": status,
        });
        let request = Request::post(format!("{PATH}?fieldManager=thane-hub"))
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        self.client.request::<Value>(request).await.map(drop)
    }

    async fn delete(&self, agent: &str) -> Result<(), kube::Error> {
        let request = Request::delete(format!("{PATH}/{agent}")).body(Vec::new()).map_err(kube::Error::HttpError)?;
        self.client.request::<Value>(request).await.map(drop)
    }
}

/// What an earlier hub has left that is no longer so.
fn leftover(status: &Value, now: &str) -> Option<Value> {
    let mut patch = json!({});
    if status["connected"] == true {
        patch["connected"] = json!(false);
        patch["since"] = json!(now);
    }
    if !status["troubles"].is_null() {
        patch["troubles"] = Value::Null;
    }
    patch.as_object().is_some_and(|patch| !patch.is_empty()).then_some(patch)
}

fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
