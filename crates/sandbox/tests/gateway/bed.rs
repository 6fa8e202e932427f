//! An embedded API, pods that pretend, and gateways.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, CustomResourceExt, ResourceExt};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use thane_runtime::net::{Network, Tcp};
use thane_runtime::pki::{Authority, Request as CertificateRequest};
use thane_runtime::tasks::Supervisor;
use thane_runtime::tls::{ClientAuth, ClientOptions, ClientTls, ServerOptions, ServerTls};
use thane_runtime::{Clock, SystemClock, Tasks};
use thane_sandbox::claims::{Claims, PoolAt};
use thane_sandbox::gateway::{self, Access, Options, Parts};
use thane_sandbox::kinds::{Sandbox, WarmPool};
use thane_sandbox::names;
use thane_testkit::peer::EmbeddedApi;
use tokio::net::TcpStream;

use crate::fake::{Fake, Fakes};

/// Longer than anything takes; a test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

/// Addresses that no other test of this process uses, nor another process.
static NEXT: AtomicU32 = AtomicU32::new(0);

fn address() -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let [_, _, high, low] = (std::process::id() & 0xffff).to_be_bytes();
    let [.., last] = number.to_be_bytes();
    format!("{}", Ipv4Addr::new(127, 1 + (low >> 2), high ^ (low << 6), last.wrapping_add(1)))
}

/// Where a gateway is.
pub(crate) struct Gate {
    pub(crate) address: SocketAddr,
    tasks: Tasks,
}

impl Gate {
    /// Ends as a signal would end it.
    pub(crate) async fn stop(self) {
        assert!(self.tasks.shutdown(PATIENCE).await.is_empty());
    }
}

pub(crate) struct Bed {
    pub(crate) api: EmbeddedApi,
    pub(crate) client: Client,
    pub(crate) fakes: Fakes,
    authority: Authority,
    pub(crate) tasks: Tasks,
    _supervisor: Supervisor,
    gate: Gate,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The status and whose fault it is.
    pub(crate) fn fault(&self) -> (u16, String) {
        (self.status, self.json()["kind"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:?}", self.body);
        if self.body.is_empty() { Value::Null } else { self.json() }
    }
}

impl Bed {
    pub(crate) async fn new() -> Self {
        Self::with(Access::Local).await
    }

    pub(crate) async fn with(access: Access) -> Self {
        let api = EmbeddedApi::start().await.unwrap();
        let client = api.in_process("default");
        define(&client, Sandbox::crd()).await;
        define(&client, WarmPool::crd()).await;
        let authority = Authority::create("sandboxes", SystemClock::new().now(), DAY).unwrap();
        let (tasks, supervisor) = Tasks::root("test");
        tasks.spawn("operator", let_go(client.clone(), tasks.clone()));
        let gate = open(&client, &authority, access, &tasks).await;
        Self { api, client, fakes: Fakes::default(), authority, tasks, _supervisor: supervisor, gate }
    }

    /// Another gateway beside the first.
    pub(crate) async fn another(&self) -> Gate {
        open(&self.client, &self.authority, Access::Local, &self.tasks).await
    }

    /// A pool with so many idle pods.
    pub(crate) async fn pool(&self, name: &str, pods: usize, snapshots: bool) {
        let pools: Api<WarmPool> = Api::namespaced(self.client.clone(), "default");
        let pool = json!({
            "apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool", "metadata": {"name": name},
            "spec": {"replicas": pods, "template": {"spec": {"containers": [{"name": "main", "image": "host"}]}}},
        });
        let pool: WarmPool = serde_json::from_value(pool).unwrap();
        let pool = pools.create(&PostParams::default(), &pool).await.unwrap();
        for number in 0..pods {
            self.pod(&pool, &format!("{name}-{number}"), snapshots).await;
        }
    }

    async fn pod(&self, pool: &WarmPool, name: &str, snapshots: bool) {
        let ip = address();
        let owner = json!({
            "apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool", "name": pool.name_any(),
            "uid": pool.uid(), "controller": true,
        });
        let pod = json!({
            "metadata": {
                "name": name,
                "labels": {names::POOL: pool.name_any(), names::STATUS: names::IDLE},
                "annotations": {names::CONTAINER: "main"},
                "ownerReferences": [owner],
            },
            "spec": {"containers": [{"name": "main", "image": "host"}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let pod = self.pods().create(&PostParams::default(), &pod).await.unwrap();
        let server = CertificateRequest::server("sidecar", [names::SIDECAR_NAME]);
        let identity = self.authority.issue(&server, SystemClock::new().now(), DAY).unwrap();
        let options =
            ServerOptions { client_auth: ClientAuth::Required, protocols: vec!["h2"], ..ServerOptions::default() };
        let tls = ServerTls::from_pem(&identity, Some(self.authority.cert_pem()), &options).unwrap();
        Fake::start(&ip, &pod.uid().unwrap(), snapshots, &tls, &self.fakes, &self.tasks).await;
        let status = json!({"status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "main", "ready": true, "started": true, "image": "host", "imageID": "", "restartCount": 0,
                "state": {"running": {}}}],
        }});
        self.pods().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn sandboxes(&self) -> Api<Sandbox> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// The sidecar of a session.
    pub(crate) fn fake(&self, session: &str) -> Fake {
        self.bound_to(session).unwrap()
    }

    /// The same, if it has been told already.
    pub(crate) fn bound_to(&self, session: &str) -> Option<Fake> {
        let fakes = self.fakes.lock();
        fakes.values().find(|fake| fake.state.lock().session == session).cloned()
    }

    /// A session of a pool, by its name.
    pub(crate) async fn session(&self, pool: &str) -> String {
        let made = self.post("/v1/sessions", json!({"poolRef": pool})).await.expect(201);
        made["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, &[], Bytes::new()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, &[], Bytes::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, &[], std::convert::identity(body).to_string()).await
    }

    /// Runs steps and gives back their results.
    pub(crate) async fn execute(&self, session: &str, commands: &[&[&str]]) -> Vec<Value> {
        let steps: Vec<_> = commands.iter().map(|command| json!({"name": "s", "command": command})).collect();
        let done = self.post(&format!("/v1/sessions/{session}/execute"), json!({"steps": steps})).await.expect(200);
        done["results"].as_array().unwrap().clone()
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        call(self.gate.address, method, path, headers, body.into()).await
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.gate.address
    }

    /// Deletes the pod under a session, with its sidecar.
    pub(crate) async fn lose(&self, session: &str) {
        let pod = self.sandboxes().get(session).await.unwrap().status.unwrap().pod_name.unwrap();
        self.fake(session).kill().await;
        self.pods().delete(&pod, &DeleteParams::default().grace_period(0)).await.unwrap();
        gone(self.pods(), &pod).await;
    }

    pub(crate) async fn end(self) {
        let late = self.tasks.shutdown(PATIENCE).await;
        assert!(late.is_empty(), "{late:?}");
        self.api.stop().await.unwrap();
    }
}

/// As the operator would: what is deleted may go.
async fn let_go(client: Client, tasks: Tasks) {
    let all = watcher(Api::<Sandbox>::all(client.clone()), watcher::Config::default()).default_backoff();
    let mut seen = std::pin::pin!(all.applied_objects());
    loop {
        let sandbox = tokio::select! {
            () = tasks.cancelled() => return,
            seen = seen.next() => seen,
        };
        let Some(Ok(sandbox)) = sandbox else { continue };
        if sandbox.metadata.deletion_timestamp.is_some() {
            let api: Api<Sandbox> = Api::namespaced(client.clone(), &sandbox.namespace().unwrap());
            let change = json!({"metadata": {"uid": sandbox.uid(), "finalizers": null}});
            // It may have gone already.
            let _ = api.patch(&sandbox.name_any(), &PatchParams::default(), &Patch::Merge(change)).await;
        }
    }
}

async fn define(client: &Client, crd: CustomResourceDefinition) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let made = api.create(&PostParams::default(), &crd).await.unwrap();
    let name = made.name_any();
    let established = await_condition(api, &name, conditions::is_crd_established());
    tokio::time::timeout(PATIENCE, established).await.unwrap().unwrap();
}

async fn open(client: &Client, authority: &Authority, access: Access, tasks: &Tasks) -> Gate {
    let tasks = tasks.child("gateway");
    let caller = CertificateRequest::agent("gateway");
    let identity = authority.issue(&caller, SystemClock::new().now(), DAY).unwrap();
    let tls = ClientTls::from_pem(authority.cert_pem(), Some(&identity), &ClientOptions::default()).unwrap();
    let listener = Tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let claims = Claims::start(client.clone(), Arc::clone(&clock), &tasks);
    let parts = Parts { client: client.clone(), claims, tls, listener, clock };
    let mut running = gateway::start(Options::new("test", access), parts, &mut Registry::default(), &tasks);
    assert!(running.ready().await);
    Gate { address, tasks }
}

/// Asks a gateway over a connection of its own.
pub(crate) async fn call(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let mut request = Request::builder().method(method).uri(path).header("te", "trailers");
    if headers.iter().all(|(name, _)| *name != "host") {
        request = request.header("host", address.to_string());
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body)).unwrap();
    let asking = async {
        let response = sender.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let collected = body.collect().await.unwrap();
        let trailers = collected.trailers().cloned().unwrap_or_default();
        drop(sender);
        Answer { status: parts.status.as_u16(), headers: parts.headers, trailers, body: collected.to_bytes() }
    };
    let (answer, _) = tokio::time::timeout(PATIENCE, async { tokio::join!(asking, connection) }).await.unwrap();
    answer
}

/// Where a pool is, for who asks how many are idle.
pub(crate) fn at(name: &str) -> PoolAt {
    PoolAt { namespace: "default".to_owned(), name: name.to_owned() }
}

/// Waits until something is gone.
pub(crate) async fn gone<K>(api: Api<K>, name: &str)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + 'static,
{
    let object = api.get_opt(name).await.unwrap();
    let Some(uid) = object.and_then(|object| object.uid()) else { return };
    tokio::time::timeout(PATIENCE, await_condition(api, name, conditions::is_deleted(&uid))).await.unwrap().unwrap();
}
