//! The door for clients of agents' clusters, over TLS: who gets in, what is refused and how, and what ends with its client.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prometheus_client::registry::Registry;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use thane_agent::tunnel::{self, Tunnel};
use thane_hub::proxy::{self, Authorities, Bodies, People, Policy, Proxy, Rule, listener};
use thane_runtime::net::{BoxIo, Connector as _, Network as _, Tcp};
use thane_runtime::pki::{Authority, Identity, Request as CertificateRequest, Subject};
use thane_runtime::tls::{ClientAuth, ClientOptions, ClientTls, ServerOptions, ServerTls};

use crate::bed::{Bed, DAY, Setup, fingerprint, now, within};
use crate::tunnel::{Connected, connect_with, until};

type Sent = UnsyncBoxBody<Bytes, Infallible>;

const HOUR: Duration = Duration::from_hours(1);
const AGENTS: [&str; 2] = ["agent-a", "agent-b"];

/// A hub with two agents, and its door.
struct Door {
    bed: Bed,
    people: Authority,
    address: SocketAddr,
    registry: Registry,
    _agents: Vec<Connected>,
}

/// A cluster that says what it was asked. A watch has no end, and `silent` gets no answer.
fn cluster(name: &'static str) -> kube::Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| async move {
        let uri = request.uri().to_string();
        if uri.contains("/silent") {
            std::future::pending::<()>().await;
        }
        if uri.contains("watch=") {
            let zeros = futures::stream::repeat(Bytes::from(vec![0; 16 * 1024]));
            let body = StreamBody::new(zeros.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)))).boxed_unsync();
            return Ok::<_, Infallible>(Response::new(body));
        }
        let text = format!("{name} {} {uri}", request.method());
        Ok(Response::new(Full::new(Bytes::from(text)).boxed_unsync()))
    });
    kube::Client::new(service, "default")
}

/// The hub's API: it knows bob's token, and who may use which agent.
fn hub_api() -> kube::Client {
    let service = tower::service_fn(|request: Request<kube::client::Body>| async move {
        let is_token = request.uri().path().ends_with("/tokenreviews");
        let body = request.into_body().collect_bytes().await.unwrap();
        let asked: Value = serde_json::from_slice(&body).unwrap();
        let spec = &asked["spec"];
        let status = if is_token {
            let user = json!({"username": "bob", "groups": ["ops", "system:authenticated"]});
            json!({"authenticated": spec["token"] == "bobs", "user": user})
        } else {
            let agent = spec["resourceAttributes"]["name"].as_str().unwrap();
            let may: &[&str] = match spec["user"].as_str() {
                Some("ann") => &AGENTS,
                Some("bob") => &["agent-b", "agent-c"],
                _ => &[],
            };
            json!({"allowed": may.contains(&agent)})
        };
        let answer = json!({"status": status}).to_string();
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(answer)).boxed_unsync()))
    });
    kube::Client::new(service, "default")
}

fn rules() -> Vec<Rule> {
    let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    vec![
        Rule {
            callers: texts(&["user:ann"]),
            kinds: texts(&["pods"]),
            verbs: texts(&["get", "list", "watch"]),
            namespaces: texts(&["team-*"]),
            ..Rule::default()
        },
        Rule { callers: texts(&["group:ops"]), agents: texts(&["agent-b", "agent-c"]), ..Rule::default() },
        Rule {
            callers: texts(&["argocd"]),
            kinds: texts(&["pods"]),
            verbs: texts(&["get", "delete"]),
            ..Rule::default()
        },
    ]
}

impl Door {
    async fn open() -> Self {
        Self::with(Setup::default(), tunnel::Config::default()).await
    }

    async fn with(setup: Setup, options: tunnel::Config) -> Self {
        let mut bed = Bed::with(setup).await;
        let mut agents = Vec::new();
        for name in AGENTS {
            let other = |_| Tunnel::new(cluster(name), options);
            agents.push(connect_with(&mut bed, name, other).await);
        }
        let people = Authority::create("people", now(), DAY).unwrap();
        let server = CertificateRequest::server("hub", ["localhost", "127.0.0.1"]);
        let identity = bed.authority.issue(&server, now(), DAY).unwrap();
        let options = ServerOptions {
            client_auth: ClientAuth::Asked,
            protocols: vec!["h2", "http/1.1"],
            ..ServerOptions::default()
        };
        let bundle = format!("{}\n{}", bed.authority.cert_pem(), people.cert_pem());
        let tls = ServerTls::from_pem(&identity, Some(&bundle), &options).unwrap();
        let metrics = proxy::Metrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let clock = Arc::new(bed.clock.clone());
        let proxy = Proxy {
            gate: Arc::clone(&bed.gate),
            people: People::new(hub_api(), clock.clone()),
            authorities: Authorities::new(bed.authority.cert_pem(), Some(people.cert_pem())).unwrap(),
            tunnels: bed.tunnels.clone(),
            events: None,
            policy: Policy::new(rules()),
            bodies: Bodies::default(),
            metrics,
            clock,
        };
        let listener = Tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr();
        bed.hub.spawn("door", listener::serve(listener, tls, Arc::new(proxy), bed.hub.child("door")));
        Self { bed, people, address, registry, _agents: agents }
    }

    fn person(&self, name: &str) -> Identity {
        let subject = Subject { common_name: name.to_owned(), ..Subject::default() };
        self.people.issue(&CertificateRequest::client(subject), now(), HOUR).unwrap()
    }

    fn argocd(&self, agent: &str) -> Identity {
        self.bed.authority.issue(&CertificateRequest::proxy(agent), now(), DAY).unwrap()
    }

    async fn dial(&self, identity: Option<&Identity>, protocol: &[u8]) -> TokioIo<BoxIo> {
        let stream = Tcp.connect("127.0.0.1", self.address.port()).await.unwrap();
        let tls = ClientTls::from_pem(self.bed.authority.cert_pem(), identity, &ClientOptions::default()).unwrap();
        let mut config = (*tls.config()).clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        TokioIo::new(Box::new(connector.connect(name, stream).await.unwrap()))
    }

    async fn client(&self, identity: Option<&Identity>) -> http2::SendRequest<Sent> {
        let stream = self.dial(identity, b"h2").await;
        let (sender, connection) = within(http2::handshake(TokioExecutor::new(), stream)).await.unwrap();
        let stop = self.bed.tasks.token();
        self.bed.tasks.spawn("client", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = connection => {}
            }
        });
        sender
    }

    fn counts(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn asked(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<Sent> {
    let mut request = Request::builder().method(method).uri(format!("https://127.0.0.1{path}"));
    for (name, value) in headers {
        request = request.header(name.parse::<HeaderName>().unwrap(), *value);
    }
    request.body(Empty::new().boxed_unsync()).unwrap()
}

async fn answered(response: Response<Incoming>) -> (StatusCode, String) {
    let status = response.status();
    let body = within(response.into_body().collect()).await.unwrap().to_bytes();
    (status, String::from_utf8(body.into()).unwrap())
}

const BOB: (&str, &str) = ("authorization", "Bearer bobs");

/// Whoever asks: what stands before their paths, how they prove who they are, and what they may.
struct Who {
    name: &'static str,
    prefix: String,
    identity: Option<Identity>,
    headers: Vec<(&'static str, &'static str)>,
}

fn may(who: &Who, agent: &str, verb: &str, namespace: &str) -> bool {
    match who.name {
        "ann" => ["get", "list"].contains(&verb) && namespace == "team-1",
        "bob" => agent == "agent-b",
        "argocd" => ["get", "delete"].contains(&verb),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn everybody_may_what_they_may_and_nothing_else() {
    let door = Door::open().await;
    for agent in AGENTS {
        let prefix = format!("/agents/{agent}");
        let everybody = [
            Who { name: "ann", prefix: prefix.clone(), identity: Some(door.person("ann")), headers: vec![] },
            Who { name: "bob", prefix, identity: None, headers: vec![BOB] },
            Who { name: "argocd", prefix: String::new(), identity: Some(door.argocd(agent)), headers: vec![] },
        ];
        for who in everybody {
            let mut client = door.client(who.identity.as_ref()).await;
            for namespace in ["team-1", "other"] {
                for (verb, method, rest) in [
                    ("get", "GET", "pods/p"),
                    ("list", "GET", "pods"),
                    ("delete", "DELETE", "pods/p"),
                    ("create", "POST", "pods/p/exec"),
                ] {
                    let path = format!("/api/v1/namespaces/{namespace}/{rest}");
                    let request = asked(method, &format!("{}{path}", who.prefix), &who.headers);
                    let (status, text) = answered(within(client.send_request(request)).await.unwrap()).await;
                    let what = format!("{} {agent} {verb} {namespace}: {text}", who.name);
                    if may(&who, agent, verb, namespace) {
                        assert_eq!((status, &*text), (StatusCode::OK, &*format!("{agent} {method} {path}")), "{what}");
                    } else {
                        assert_eq!(status, StatusCode::FORBIDDEN, "{what}");
                    }
                }
            }
        }
    }
    let counts = door.counts();
    for expected in [r#"agent="agent-b",verb="delete",code="200""#, r#"agent="agent-a",verb="create",code="403""#] {
        assert!(counts.contains(expected), "{expected}: {counts}");
    }
}

#[tokio::test]
async fn who_is_not_known_stays_outside() {
    let door = Door::open().await;
    let pods = "/api/v1/namespaces/team-1/pods";
    let agents = format!("/agents/agent-a{pods}");
    // An agent's certificate is none of Argo CD's, nor that of a person; a person is nobody at Argo CD's paths.
    for (identity, path, headers) in [
        (None, &*agents, vec![]),
        (None, &*agents, vec![("authorization", "Bearer forged")]),
        (None, pods, vec![BOB]),
        (Some(door.bed.identity("agent-a")), pods, vec![]),
        (Some(door.bed.identity("agent-a")), &*agents, vec![]),
        (Some(door.argocd("agent-a")), &*agents, vec![]),
        (Some(door.person("ann")), pods, vec![]),
    ] {
        let mut client = door.client(identity.as_ref()).await;
        let (status, text) = answered(within(client.send_request(asked("GET", path, &headers))).await.unwrap()).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path} {headers:?}: {text}");
    }
    let mut client = door.client(Some(&door.person("ann"))).await;
    let ask = || asked("GET", &agents, &[]);
    assert_eq!(within(client.send_request(ask())).await.unwrap().status(), StatusCode::OK);
    door.bed.clock.advance(2 * HOUR);
    assert_eq!(within(client.send_request(ask())).await.unwrap().status(), StatusCode::UNAUTHORIZED, "it has expired");
}

#[tokio::test]
async fn refusals_are_those_of_kubernetes() {
    let door = Door::open().await;
    let mut client = door.client(None).await;
    for (method, path, header, code) in [
        ("POST", "/agents/agent-b/api/v1/namespaces/a/pods", ("content-length", "4194305"), 413),
        ("GET", "/agents/agent-b/metrics", BOB, 404),
        ("GET", "/agents/agent-b/api/v1/namespaces/../pods", BOB, 400),
        ("GET", "/agents/agent-b/api/v1/namespaces/a%2Fb/pods", BOB, 400),
        ("GET", "/agents/agent-b/api/v1/pods", ("impersonate-user", "admin"), 403),
        ("OPTIONS", "/agents/agent-b/api/v1/pods", BOB, 405),
        ("GET", "/agents/agent-c/api/v1/pods", BOB, 502),
    ] {
        let mut request = asked(method, path, &[BOB, header]);
        if code == 413 {
            // Longer than it says it is at most, which is found out before it is read.
            *request.body_mut() = Full::new(Bytes::from(vec![b' '; 4_194_305])).boxed_unsync();
        }
        told(within(client.send_request(request)).await.unwrap(), code, path).await;
    }
    // One that does not say how long it is.
    let pieces = futures::stream::repeat(Bytes::from(vec![b' '; 64 * 1024])).take(80);
    let mut request = asked("POST", "/agents/agent-b/api/v1/namespaces/a/pods", &[BOB]);
    *request.body_mut() = StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))).boxed_unsync();
    told(within(client.send_request(request)).await.unwrap(), 413, "a long body").await;
    for protocol in ["SPDY/3.1", "h2c", "other"] {
        let (mut client, connection) = http1::handshake(door.dial(None, b"http/1.1").await).await.unwrap();
        door.bed.tasks.spawn("client", async move { drop(connection.await) });
        let headers = [BOB, ("host", "hub"), ("connection", "Upgrade"), ("upgrade", protocol)];
        let mut request = asked("GET", "/agents/agent-b/api/v1/namespaces/a/pods/p/exec?command=ls", &headers);
        *request.uri_mut() = request.uri().path_and_query().unwrap().as_str().parse().unwrap();
        told(within(client.send_request(request)).await.unwrap(), 400, protocol).await;
    }
    until(|| door.bed.tunnels.metrics().open() == 0).await;
    let request = asked("GET", "/agents/agent-b/api/v1/pods", &[BOB]);
    assert_eq!(within(client.send_request(request)).await.unwrap().status(), StatusCode::OK, "the rest goes on");
}

async fn told(response: Response<Incoming>, code: u16, what: &str) {
    let (status, text) = answered(response).await;
    let object: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status.as_u16(), object["kind"].as_str()), (code, Some("Status")), "{what}: {text}");
    assert_eq!(object["code"], code, "{what}: {text}");
}

#[tokio::test]
async fn a_busy_or_silent_cluster_is_told_as_kubernetes_does() {
    let timeout = Duration::from_secs(3);
    let tunnels = proxy::tunnel::Config { waiting_max: 1, answer_timeout: timeout, ..Default::default() };
    let calls = tunnel::Config { idle_max: 1, calls_max: 1, ..tunnel::Config::default() };
    let door = Door::with(Setup { tunnels, ..Setup::default() }, calls).await;
    until(|| door.bed.tunnels.metrics().parked() == 2).await;
    let client = door.client(None).await;
    let (mut one, mut two, mut three) = (client.clone(), client.clone(), client);
    let silent = || asked("GET", "/agents/agent-b/api/v1/namespaces/a/pods/silent", &[BOB]);
    // One is at work, one waits for it, and there is no place for a third.
    let (first, second) = (one.send_request(silent()), two.send_request(silent()));
    let third = async {
        until(|| door.bed.tunnels.metrics().waiting() == 1).await;
        let response = within(three.send_request(silent())).await.unwrap();
        assert_eq!(response.headers()["retry-after"], "1");
        told(response, 429, "no place").await;
    };
    let (first, second, ()) = tokio::join!(first, second, third);
    told(first.unwrap(), 504, "silent").await;
    told(second.unwrap(), 504, "waited in vain").await;
}

#[tokio::test]
async fn what_a_client_leaves_is_ended_and_counted() {
    let door = Door::open().await;
    let mut client = door.client(None).await;
    let open = || door.bed.tunnels.metrics().open();
    // Some that are read no further.
    let mut stuck = Vec::new();
    for _ in 0..4 {
        let request = asked("GET", "/agents/agent-b/api/v1/pods?watch=1", &[BOB]);
        stuck.push(within(client.send_request(request)).await.unwrap());
    }
    let request = asked("GET", "/agents/agent-b/api/v1/namespaces/a/pods/p", &[BOB]);
    assert_eq!(within(client.send_request(request)).await.unwrap().status(), StatusCode::OK);
    until(|| open() == 4).await;
    // And one whose answer nobody waits for: it may have been done.
    let request = asked("DELETE", "/agents/agent-b/api/v1/namespaces/a/pods/silent", &[BOB]);
    let unanswered = client.send_request(request);
    {
        let mut unanswered = std::pin::pin!(unanswered);
        let reached = until(|| open() == 5);
        tokio::select! {
            answer = &mut unanswered => panic!("{answer:?}"),
            () = reached => {}
        }
    }
    until(|| door.counts().contains(r#"agent="agent-b",verb="delete",code="499""#)).await;
    until(|| open() == 4).await;
    drop((stuck, client));
    until(|| open() == 0 && door.counts().contains("hub_proxy_connections 0")).await;
}

#[tokio::test]
async fn blocking_a_certificate_ends_what_is_open() {
    let door = Door::open().await;
    let path = "/agents/agent-a/api/v1/namespaces/team-1/pods?watch=1";
    let (ann, other) = (door.person("ann"), door.person("ann"));
    let (mut first, mut second) = (door.client(Some(&ann)).await, door.client(Some(&other)).await);
    let watch = asked("GET", path, &[]);
    let mut blocked = within(first.send_request(watch)).await.unwrap().into_body();
    let mut kept = within(second.send_request(asked("GET", path, &[]))).await.unwrap().into_body();
    within(blocked.frame()).await.unwrap().unwrap();
    door.bed.gate.set_blocked([fingerprint(&ann)]);
    let ended = within(async {
        loop {
            match blocked.frame().await {
                Some(Ok(_)) => {}
                other => return other,
            }
        }
    });
    assert!(ended.await.unwrap().is_err());
    within(kept.frame()).await.unwrap().unwrap();
    until(|| door.bed.tunnels.metrics().open() == 1).await;
    let mut again = door.client(Some(&ann)).await;
    let refused = within(again.send_request(asked("GET", path, &[]))).await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
}
