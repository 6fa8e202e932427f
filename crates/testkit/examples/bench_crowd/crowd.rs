//! Many agents in this process: each the real one, with a namespace of its own on one embedded API.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::Client;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use thane_agent::connection::{self, Dialer, State};
use thane_api::event::Mode;
use thane_hub::registration::Registration;
use thane_link::{Passage, Takers};
use thane_runtime::pki::{Authority, Request};
use thane_runtime::tls::{ClientOptions, ClientTls};
use thane_runtime::{SystemClock, Tasks};
use thane_sync::link;
use thane_sync::mapping::{Adoption, AgentSide, Mismatch, OnRecreate, Placement};
use thane_testkit::fleet::LoneHub;
use thane_testkit::peer::EmbeddedApi;
use tokio::sync::watch;

use crate::counted::Counted;

const HUB_NAMESPACE: &str = "argocd";
const DAY: Duration = Duration::from_hours(24);
/// The longest all agents together may take to connect.
const PATIENCE: Duration = Duration::from_mins(5);

/// All agents, and the API they share.
pub(crate) struct Crowd {
    pub(crate) names: Vec<String>,
    pub(crate) network: Counted,
    pub(crate) spoke: EmbeddedApi,
    hub_port: u16,
    authority: Authority,
    states: Vec<watch::Receiver<State>>,
    metrics: Vec<connection::Metrics>,
    tasks: Tasks,
}

impl Crowd {
    /// Registers so many agents on the hub and makes a namespace for each on either side.
    pub(crate) async fn register(hub: &LoneHub, count: usize) -> Result<Self> {
        let authority = Authority::from_pem(&hub.authority[0], &hub.authority[1])?;
        let spoke = EmbeddedApi::start().await?;
        let spoke_client = spoke.in_process("default");
        for definition in thane_api::kinds::definitions() {
            post(&spoke_client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
        }
        let names: Vec<String> = (0..count).map(|number| format!("agent-{number:04}")).collect();
        let proxy = authority.issue(&Request::agent("proxy"), SystemClock::shared().now(), DAY)?;
        for agent in &names {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": agent}});
            post(&spoke_client, "/api/v1/namespaces", &namespace).await?;
            post(&hub.client, "/api/v1/namespaces", &namespace).await?;
            let registration = Registration {
                agent,
                namespace: HUB_NAMESPACE,
                proxy: "127.0.0.1:9090",
                ca_pem: authority.cert_pem(),
                identity: &proxy,
            };
            let path = format!("/api/v1/namespaces/{HUB_NAMESPACE}/secrets");
            post(&hub.client, &path, &registration.secret()).await?;
        }
        let (tasks, _) = Tasks::root("crowd");
        let network = Counted::default();
        Ok(Self {
            names,
            network,
            spoke,
            hub_port: hub.port,
            authority,
            states: Vec::new(),
            metrics: Vec::new(),
            tasks,
        })
    }

    /// Starts all agents.
    pub(crate) fn start(&mut self) -> Result<()> {
        for name in &self.names {
            let clock = SystemClock::shared();
            let identity = self.authority.issue(&Request::agent(name), clock.now(), DAY)?;
            let options = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
            let tls = ClientTls::from_pem(self.authority.cert_pem(), Some(&identity), &options)?;
            let mut config = connection::Config::new("127.0.0.1", self.hub_port, Mode::Managed);
            config.capabilities = thane_agent::role::capabilities();
            let dialer = Dialer::new(config, Arc::new(self.network.clone()), Some(tls), Arc::clone(&clock));
            self.states.push(dialer.state());
            self.metrics.push(dialer.metrics());
            let parts = thane_agent::role::Parts {
                client: self.spoke.in_process(name),
                dialer,
                clock,
                passing: Arc::new(Takers::default()),
                passage: Passage::default(),
                calls: tokio::sync::watch::Sender::new(None),
                tunnel: None,
                salt: name.clone(),
            };
            let tasks = self.tasks.child(name.clone());
            thane_agent::role::start(&config_of(name), parts, &mut Registry::default(), &tasks);
        }
        Ok(())
    }

    /// Waits until all are connected; how long that took, and how long the slowest was in its last attempt.
    pub(crate) async fn connected(&self) -> Result<(Duration, Duration)> {
        let started = Instant::now();
        let each = self.states.iter().map(|state| {
            let mut state = state.clone();
            async move {
                let mut since = Instant::now();
                loop {
                    let connected = {
                        let now = state.borrow_and_update();
                        if matches!(*now, State::Connecting) {
                            since = Instant::now();
                        }
                        matches!(*now, State::Connected)
                    };
                    if connected {
                        return since.elapsed();
                    }
                    if state.changed().await.is_err() {
                        return Duration::MAX;
                    }
                }
            }
        });
        let all = tokio::time::timeout(PATIENCE, futures::future::join_all(each)).await;
        let slowest = all.context("not all agents are connected in time")?.into_iter().max().unwrap_or_default();
        Ok((started.elapsed(), slowest))
    }

    /// The longest that any agent waited from its last dial to its first event.
    pub(crate) fn slowest_first_event(&self) -> Duration {
        self.metrics.iter().map(connection::Metrics::first_event_after).max().unwrap_or_default()
    }

    /// Waits until none is connected any more.
    pub(crate) async fn disconnected(&self) -> Result<()> {
        let each = self.states.iter().map(|state| {
            let mut state = state.clone();
            async move { state.wait_for(|state| !matches!(state, State::Connected)).await.map(|_| ()) }
        });
        tokio::time::timeout(PATIENCE, futures::future::try_join_all(each))
            .await
            .context("agents still connected")??;
        Ok(())
    }

    /// Ends all agents.
    pub(crate) async fn stop(self) -> Result<()> {
        self.tasks.shutdown(Duration::from_secs(30)).await;
        self.spoke.stop().await
    }
}

fn config_of(name: &str) -> thane_agent::role::Config {
    thane_agent::role::Config {
        side: AgentSide {
            name: name.to_owned(),
            mode: Mode::Managed,
            namespace: name.to_owned(),
            hub_namespace: HUB_NAMESPACE.to_owned(),
            placement: Placement::Namespace,
            allowed_namespaces: Vec::new(),
            mismatch: Mismatch::default(),
            adoption: Adoption::default(),
            on_recreate: OnRecreate::default(),
        },
        selector: String::new(),
        makes_namespaces: false,
        link: link::Options::default(),
        writes_max: 64,
        write_timeout: Duration::from_secs(30),
    }
}

/// Creates an object.
pub(crate) async fn post(client: &Client, path: &str, object: &Value) -> Result<()> {
    send(client, http::Request::post(path), "application/json", object).await
}

/// Sends a request with a body.
pub(crate) async fn send(client: &Client, request: http::request::Builder, media: &str, body: &Value) -> Result<()> {
    let request = request.header("content-type", media).body(body.to_string().into_bytes())?;
    let path = request.uri().path().to_owned();
    client.request::<Value>(request).await.with_context(|| path)?;
    Ok(())
}
