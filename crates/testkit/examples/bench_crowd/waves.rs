//! Applications written on the hub, and awaited on the agents' side.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::crowd::{post, send};

/// The longest one wave may take.
const PATIENCE: Duration = Duration::from_mins(15);
/// Writers at once.
const WRITERS: usize = 64;
/// What an Application is changed to while the hub is away.
const TOUCHED: &str = "touched";

pub(crate) struct Waves {
    pub(crate) hub: Client,
    pub(crate) spoke: Client,
}

/// How fast changes were written, and were on the other side.
#[derive(Debug)]
pub(crate) struct Flow {
    count: usize,
    written: Duration,
    arrived: Duration,
}

impl Flow {
    pub(crate) fn value(&self) -> Value {
        let count = f64::from(u32::try_from(self.count).unwrap_or(u32::MAX));
        let rate = |time: Duration| (count / time.as_secs_f64().max(1e-9)).round();
        json!({"events": self.count, "written per second": rate(self.written), "arrived per second": rate(self.arrived)})
    }
}

impl Waves {
    /// Creates so many Applications for each agent, and waits until all are with their agents.
    pub(crate) async fn create(&self, agents: &[String], each: usize, prefix: &str) -> Result<Flow> {
        let mut missing = BTreeSet::new();
        for number in 0..each {
            missing.extend(agents.iter().map(|agent| (agent.clone(), format!("{prefix}-{number:04}"))));
        }
        let all: Vec<(String, String)> = missing.iter().cloned().collect();
        let count = all.len();
        let observer = self.observe().await?;
        let started = Instant::now();
        let writing = async {
            let writes = all.iter().map(async |(agent, name)| {
                let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{agent}/applications");
                post(&self.hub, &path, &application(agent, name)).await
            });
            futures::stream::iter(writes).buffer_unordered(WRITERS).try_collect::<()>().await?;
            anyhow::Ok(started.elapsed())
        };
        let arriving = async {
            let mut observer = pin!(observer);
            while !missing.is_empty() {
                let seen = observer.next().await.context("the watch ended")??;
                missing.remove(&seen);
            }
            anyhow::Ok(started.elapsed())
        };
        let both = tokio::time::timeout(PATIENCE, futures::future::try_join(writing, arriving)).await;
        let (written, arrived) = both.context("not all Applications arrived in time")??;
        Ok(Flow { count, written, arrived })
    }

    /// Changes one Application of each agent on the hub.
    pub(crate) async fn touch(&self, agents: &[String], name: &str) -> Result<()> {
        let change = json!({"spec": {"source": {"targetRevision": TOUCHED}}});
        let writes = agents.iter().map(async |agent| {
            let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{agent}/applications/{name}");
            send(&self.hub, http::Request::patch(path), "application/merge-patch+json", &change).await
        });
        futures::stream::iter(writes).buffer_unordered(WRITERS).try_collect().await
    }

    /// Waits until that change is with every agent.
    pub(crate) async fn touched(&self, agents: &[String], name: &str) -> Result<()> {
        let mut missing: BTreeSet<&str> = agents.iter().map(String::as_str).collect();
        let deadline = Instant::now() + PATIENCE;
        let applications = self.applications();
        while !missing.is_empty() {
            if Instant::now() > deadline {
                bail!("{} agents do not have the change", missing.len());
            }
            let fields = ListParams::default().fields(&format!("metadata.name={name}"));
            for object in applications.list(&fields).await? {
                let revision = object.data.pointer("/spec/source/targetRevision").and_then(Value::as_str);
                if revision == Some(TOUCHED) {
                    missing.remove(object.namespace().unwrap_or_default().as_str());
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn applications(&self) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application"));
        Api::all_with(self.spoke.clone(), &resource)
    }

    /// Namespace and name of every Application that comes from now on.
    async fn observe(&self) -> Result<impl futures::Stream<Item = Result<(String, String)>> + use<>> {
        let api = self.applications();
        let now = api.list_metadata(&ListParams::default().limit(1)).await?;
        let version = now.metadata.resource_version.context("a list has a version")?;
        let events = api.watch(&WatchParams::default(), &version).await?.boxed();
        Ok(events.filter_map(|event| {
            let seen = match event {
                Ok(WatchEvent::Added(object)) => Some(Ok((object.namespace().unwrap_or_default(), object.name_any()))),
                Ok(WatchEvent::Error(status)) => Some(Err(anyhow::anyhow!("the watch ended: {status:?}"))),
                Ok(_) => None,
                Err(error) => Some(Err(error.into())),
            };
            std::future::ready(seen)
        }))
    }
}

fn application(agent: &str, name: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": agent},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://example.com/repo.git", "path": "guestbook", "targetRevision": "v1"},
            "destination": {"name": agent, "namespace": "guestbook"},
        },
    })
}
