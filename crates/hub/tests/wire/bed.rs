//! A hub on a free port, and whoever calls it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use thane_agent::connection::{self, Dialer, Opened};
use thane_api::event::{DIGEST, Event, Mode, PONG, Target, Type};
use thane_api::wire::auth::authentication_client::AuthenticationClient;
use thane_api::wire::auth::{AuthRequest, AuthResponse};
use thane_hub::gate::{Certificate, Certificates, Gate, Options, Tokens, tokens};
use thane_hub::proxy::{Tunnels, tunnel};
use thane_hub::transport::{self, Live, Metrics, NoLive, Service, Stream};
use thane_runtime::net::{BoxIo, Connector, Network, Tcp};
use thane_runtime::pki::{self, Authority, Identity, Request as CertificateRequest};
use thane_runtime::tls::{ClientAuth, ClientOptions, ClientTls, ServerOptions, ServerTls};
use thane_runtime::{Clock, ManualClock, SharedClock, SystemClock, Tasks};
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

pub(crate) const DAY: Duration = Duration::from_hours(24);
/// Longer than anything takes; a test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How a hub differs from the usual one.
pub(crate) struct Setup {
    pub(crate) methods: Vec<&'static str>,
    pub(crate) certificates: Certificates,
    pub(crate) client_auth: ClientAuth,
    pub(crate) plaintext: bool,
    pub(crate) config: transport::Config,
    pub(crate) live: Arc<dyn Live>,
    pub(crate) guests: Option<transport::Guests>,
    pub(crate) tunnels: tunnel::Config,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            methods: vec!["mtls:CN=([^,]+)"],
            certificates: Certificates::Matching,
            client_auth: ClientAuth::Asked,
            plaintext: false,
            config: transport::Config::default(),
            live: Arc::new(NoLive),
            guests: None,
            tunnels: tunnel::Config::default(),
        }
    }
}

pub(crate) struct Bed {
    pub(crate) authority: Authority,
    pub(crate) gate: Arc<Gate>,
    pub(crate) streams: mpsc::Receiver<Stream>,
    pub(crate) address: SocketAddr,
    pub(crate) tunnels: Tunnels,
    pub(crate) metrics: Metrics,
    pub(crate) clock: ManualClock,
    pub(crate) tasks: Tasks,
    pub(crate) hub: Tasks,
    is_plain: bool,
}

pub(crate) fn key() -> &'static str {
    static KEY: OnceLock<String> = OnceLock::new();
    KEY.get_or_init(|| tokens::generate_short_key().unwrap())
}

pub(crate) fn authority() -> Authority {
    Authority::create("test", now(), DAY * 3).unwrap()
}

pub(crate) fn now() -> Timestamp {
    SystemClock::new().now()
}

impl Bed {
    pub(crate) async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        let authority = authority();
        let clock = ManualClock::new(now());
        let shared: SharedClock = Arc::new(clock.clone());
        let options = Options {
            namespace: "argocd".to_owned(),
            version: "1.2.3".to_owned(),
            methods: setup.methods.iter().map(|method| method.parse().unwrap()).collect(),
            certificates: setup.certificates,
            capabilities: BTreeSet::from([DIGEST.to_owned(), PONG.to_owned()]),
        };
        let gate = Arc::new(Gate::new(options, Tokens::new(key()).unwrap(), Arc::clone(&shared)));
        let listener = Tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr();
        let server = CertificateRequest::server("hub", ["localhost", "127.0.0.1"]);
        let identity = authority.issue(&server, now(), DAY).unwrap();
        let options = ServerOptions { client_auth: setup.client_auth, ..ServerOptions::default() };
        let tls =
            (!setup.plaintext).then(|| ServerTls::from_pem(&identity, Some(authority.cert_pem()), &options).unwrap());
        let (tasks, _) = Tasks::root("test");
        let hub = tasks.child("hub");
        let tunnels = Tunnels::new(setup.tunnels, hub.child("tunnels"));
        let (sender, streams) = mpsc::channel(16);
        let metrics = Metrics::default();
        let service = Service {
            gate: Arc::clone(&gate),
            streams: sender,
            live: setup.live,
            tunnels: tunnels.clone(),
            guests: setup.guests,
            config: setup.config,
            metrics: metrics.clone(),
            clock: shared,
        };
        hub.spawn("serve", transport::serve(listener, tls, service, hub.clone()));
        Self { authority, gate, tunnels, streams, address, metrics, clock, tasks, hub, is_plain: setup.plaintext }
    }

    /// A certificate of that name.
    pub(crate) fn identity(&self, name: &str) -> Identity {
        self.authority.issue(&CertificateRequest::agent(name), now(), DAY).unwrap()
    }

    /// How someone with that certificate calls.
    pub(crate) fn tls(&self, identity: Option<&Identity>) -> ClientTls {
        ClientTls::from_pem(self.authority.cert_pem(), identity, &ClientOptions::default()).unwrap()
    }

    /// An agent's settings, fast to try again.
    pub(crate) fn config(&self) -> connection::Config {
        let mut config = connection::Config::new("127.0.0.1", self.address.port(), Mode::Managed);
        "spoke".clone_into(&mut config.namespace);
        config.backoff_first = Duration::from_millis(5);
        config.backoff_max = Duration::from_millis(50);
        config.capabilities = BTreeSet::from([DIGEST.to_owned(), PONG.to_owned(), "other".to_owned()]);
        config
    }

    pub(crate) fn dialer(&self, name: &str, config: connection::Config) -> Dialer {
        let tls = (!self.is_plain).then(|| self.tls(Some(&self.identity(name))));
        Dialer::new(config, Tcp::shared(), tls, SystemClock::shared())
    }

    /// A running agent of ours, and its streams.
    pub(crate) fn agent(&self, dialer: Dialer) -> mpsc::Receiver<Opened> {
        let (on, opened) = mpsc::channel(4);
        let tasks = self.tasks.child("agent");
        tasks.spawn("run", connection::run(dialer, on, tasks.clone()));
        opened
    }

    /// Both ends of one stream.
    pub(crate) async fn pair(&mut self, name: &str, config: connection::Config) -> (Stream, Opened) {
        let dialer = self.dialer(name, config);
        let mut opened = self.agent(dialer);
        let (stream, opened) = tokio::join!(within(self.streams.recv()), within(opened.recv()));
        (stream.unwrap(), opened.unwrap())
    }

    /// A byte stream to the hub, with TLS unless it has none.
    pub(crate) async fn dial(&self, identity: Option<&Identity>, protocol: &[u8]) -> BoxIo {
        let stream = Tcp.connect("127.0.0.1", self.address.port()).await.unwrap();
        if self.is_plain {
            return stream;
        }
        let mut config = (*self.tls(identity).config()).clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        Box::new(connector.connect(name, stream).await.unwrap())
    }

    /// A plain gRPC client.
    pub(crate) async fn client(&self, identity: Option<&Identity>) -> Channel {
        let mut stream = Some(self.dial(identity, b"h2").await);
        let connector = tower::service_fn(move |_| {
            let stream = stream.take();
            async move { stream.map(TokioIo::new).ok_or_else(|| std::io::Error::other("one connection is enough")) }
        });
        Endpoint::from_static("http://hub").connect_with_connector(connector).await.unwrap()
    }

    /// Proves an identity on a client's connection.
    pub(crate) async fn authenticate(&self, client: &Channel) -> Result<AuthResponse, Status> {
        let mut client = AuthenticationClient::new(client.clone());
        client.authenticate(request("mtls")).await.map(tonic::Response::into_inner)
    }

    /// A client that has proved to be that agent, and its tokens.
    pub(crate) async fn authenticated(&self, name: &str) -> (Channel, AuthResponse) {
        let client = self.client(Some(&self.identity(name))).await;
        let tokens = self.authenticate(&client).await.unwrap();
        (client, tokens)
    }
}

/// The fingerprint of its certificate, as the gate knows it.
pub(crate) fn fingerprint(identity: &Identity) -> String {
    let der = pki::certificates(identity.cert_pem.as_bytes()).unwrap().remove(0);
    Certificate::read(&der).unwrap().fingerprint
}

pub(crate) fn request(method: &str) -> AuthRequest {
    AuthRequest {
        method: method.to_owned(),
        mode: "managed".to_owned(),
        version: "0.9.0".to_owned(),
        agent_namespace: "spoke".to_owned(),
        ..AuthRequest::default()
    }
}

/// A call in someone's name.
pub(crate) fn call<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", token.parse().unwrap());
    request
}

pub(crate) fn event(id: &str, data: impl Into<Bytes>) -> Event {
    Event {
        target: Target::Application,
        kind: Type::SpecUpdate,
        resource_id: id.to_owned(),
        event_id: format!("{id}_1"),
        subject: Some(format!("argocd/{id}")),
        data: data.into(),
        extensions: [("sentat".to_owned(), "2026-01-01T00:00:00Z".to_owned())].into(),
    }
}

/// What comes in time.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it took too long")
}
