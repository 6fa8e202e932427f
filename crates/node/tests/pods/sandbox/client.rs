//! A sandbox and what is asked of its sidecar.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::{Value, json};
use thane_api::wire::sandbox::sandbox_service_client::SandboxServiceClient;
use thane_api::wire::sandbox::step_event::Event;
use thane_api::wire::sandbox::{HistoryRequest, RestoreRequest, StepRecord, StepRequest};
use thane_api::wire::sidecar::agent_service_client::AgentServiceClient;
use thane_runtime::SystemClock;
use thane_runtime::net::{Connector, Tcp};
use thane_runtime::pki::{Authority, Request as Certificate, Subject};
use thane_runtime::tls::{ClientAuth, ClientOptions, ClientTls, ServerOptions, ServerTls};
use thane_sandbox::names::{CONTAINER, POOL, SIDECAR_NAME, SIDECAR_PORT};
use thane_sandbox::sidecar::Sidecars;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::bed::{Bed, holds};

/// Certificates of sidecars and of those who call them.
pub(super) struct Trust {
    server: ServerTls,
    client: ClientTls,
}

impl Trust {
    pub(super) fn new() -> Self {
        let (clock, day) = (SystemClock::shared(), Duration::from_hours(24));
        let ca = Authority::create("sandboxes", clock.now(), day).unwrap();
        let server = ca.issue(&Certificate::server("sidecar", [SIDECAR_NAME]), clock.now(), day).unwrap();
        let subject = Subject { common_name: "gateway".to_owned(), ..Subject::default() };
        let client = ca.issue(&Certificate::client(subject), clock.now(), day).unwrap();
        let options = ServerOptions { client_auth: ClientAuth::Required, ..ServerOptions::default() };
        let options_of_client = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
        Self {
            server: ServerTls::from_pem(&server, Some(ca.cert_pem()), &options).unwrap(),
            client: ClientTls::from_pem(ca.cert_pem(), Some(&client), &options_of_client).unwrap(),
        }
    }

    /// Starts the sidecars in the node's process.
    pub(super) fn sidecars(&self, bed: &Bed) -> Sidecars {
        let node = bed.node.as_ref().unwrap();
        let _inside = node.runtime.enter();
        let rooms = Arc::clone(&node.rooms) as _;
        Sidecars::start(bed.client(), rooms, self.server.clone(), Tcp::shared(), SystemClock::shared(), &node.tasks)
    }
}

/// A sandbox that somebody talks to.
pub(super) struct Sandbox {
    pub(super) steps: SandboxServiceClient<Channel>,
    pub(super) agent: AgentServiceClient<Channel>,
    pub(super) channel: Channel,
    pub(super) pod: Pod,
}

/// Makes a pod as a pool would.
pub(super) async fn create(bed: &Bed, name: &str, container: Value) -> Pod {
    let mut own = json!({"name": "main", "image": "host", "workingDir": "/workspace"});
    let security = json!({"capabilities": {"add": ["CHOWN", "FOWNER", "DAC_OVERRIDE"]}});
    own["securityContext"] = security;
    for (key, value) in container.as_object().unwrap() {
        own[key] = value.clone();
    }
    let pod = json!({
        "metadata": {"name": name, "labels": {POOL: "pool"}, "annotations": {CONTAINER: "main"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [own]},
    });
    bed.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    bed.until(name, "ready", |pod| holds(pod, "Ready")).await
}

impl Sandbox {
    pub(super) async fn new(bed: &Bed, trust: &Trust, name: &str) -> Self {
        let pod = create(bed, name, json!({})).await;
        Self::reach(trust, pod).await
    }

    /// Connects, once somebody listens.
    pub(super) async fn reach(trust: &Trust, pod: Pod) -> Self {
        let address = pod.status.clone().unwrap().pod_ip.unwrap();
        let tls = trust.client.clone();
        let connector = tower::service_fn(move |_| {
            let (address, tls) = (address.clone(), tls.clone());
            async move {
                let stream = Tcp.connect(&address, SIDECAR_PORT).await?;
                let name = rustls::pki_types::ServerName::try_from(SIDECAR_NAME).unwrap();
                tls.connector().connect(name, stream).await.map(TokioIo::new)
            }
        });
        let reached = async {
            loop {
                let endpoint = Endpoint::from_static("http://sidecar");
                match endpoint.connect_with_connector(connector.clone()).await {
                    Ok(channel) => return channel,
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let channel = tokio::time::timeout(crate::bed::PATIENCE, reached).await.unwrap();
        let steps = SandboxServiceClient::new(channel.clone()).max_decoding_message_size(64 << 20);
        let agent = AgentServiceClient::new(channel.clone()).max_decoding_message_size(64 << 20);
        Self { steps, agent, channel, pod }
    }

    pub(super) fn uid(&self) -> String {
        self.pod.metadata.uid.clone().unwrap()
    }

    /// Runs a step: its record and all it said.
    pub(super) async fn step(&mut self, request: StepRequest) -> Result<(StepRecord, Vec<u8>), Status> {
        let mut events = self.steps.run_step(request).await?.into_inner();
        let mut said = Vec::new();
        while let Some(event) = events.message().await? {
            match event.event {
                Some(Event::Output(output)) => said.extend(output.data),
                Some(Event::Finished(record)) => return Ok((record, said)),
                _ => {}
            }
        }
        panic!("a step did not finish")
    }

    pub(super) async fn run(&mut self, script: &str) -> StepRecord {
        self.step(shell(script)).await.unwrap().0
    }

    /// Looks around without leaving a trace.
    pub(super) async fn look(&mut self, script: &str) -> String {
        let (record, said) = self.step(StepRequest { unrecorded: true, ..shell(script) }).await.unwrap();
        assert_eq!(record.exit_code, 0, "{script}: {}", String::from_utf8_lossy(&said));
        String::from_utf8_lossy(&said).into_owned()
    }

    pub(super) async fn restore(&mut self, snapshot: &str, from: &str) -> Result<i64, Status> {
        let (snapshot, source_pod_uid) = (snapshot.to_owned(), from.to_owned());
        let request = RestoreRequest { session: String::new(), snapshot, source_pod_uid };
        self.steps.restore(request).await.map(|reply| reply.into_inner().step)
    }

    pub(super) async fn history(&mut self, live: bool) -> Vec<StepRecord> {
        let mut records = self.steps.history(HistoryRequest { live, from: 0 }).await.unwrap().into_inner();
        let mut all = Vec::new();
        while let Some(record) = records.message().await.unwrap() {
            all.push(record);
        }
        all
    }
}

pub(super) fn shell(script: &str) -> StepRequest {
    StepRequest { command: ["sh", "-c", script].map(str::to_owned).into(), ..StepRequest::default() }
}

/// Runs a test with sidecars.
pub(super) fn with_sidecars<F: Future<Output = Bed>>(test: impl FnOnce(Bed, Trust) -> F) {
    crate::bed::on_bed(|bed| async {
        let trust = Trust::new();
        trust.sidecars(&bed);
        test(bed, trust).await
    });
}
