use std::net::SocketAddr;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use thane_kv::{MemoryOptions, MemoryStore};
use thane_runtime::SystemClock;
use thane_runtime::pki::{Authority, Identity, Request, Subject};
use thane_runtime::readiness::Readiness;
use thane_runtime::tls::{ClientAuth, ClientOptions, ClientTls, ServerOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::*;
use crate::authn::Authenticator;
use crate::encryption::Encryption;
use crate::server::{Options, Parts};

const MONTH: Duration = Duration::from_hours(30 * 24);
const PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];

/// A server that lets anonymous requests in, and whoever calls it.
struct Bed {
    server: ApiServer,
    authority: Authority,
    edge: Edge,
    tasks: Tasks,
}

impl Bed {
    fn new() -> Self {
        let clock = SystemClock::shared();
        let now = clock.now();
        let authority = Authority::create("ours", now, MONTH).unwrap();
        let own = authority.issue(&Request::server("api", vec!["localhost".to_owned()]), now, MONTH).unwrap();
        let options =
            ServerOptions { client_auth: ClientAuth::Asked, protocols: PROTOCOLS.into(), ..ServerOptions::default() };
        let tls = ServerTls::from_pem(&own, Some(authority.cert_pem()), &options).unwrap();
        let server = ApiServer::new(
            Parts {
                store: MemoryStore::new(MemoryOptions::default()),
                clock: Arc::clone(&clock),
                authenticator: Authenticator { anonymous: true, ..Authenticator::default() },
                encryption: Encryption::default(),
                audit: None,
                readiness: Readiness::new(),
                options: Options::default(),
            },
            Tasks::root("test").0,
        );
        Self { server, authority, edge: Edge { tls, clock }, tasks: Tasks::root("test").0 }
    }

    /// A connection as the server serves it, and the client's end after the handshake.
    async fn connect(
        &self,
        protocols: &[&'static str],
        identity: Option<&Identity>,
    ) -> (impl Future<Output = ()> + Unpin + use<>, impl AsyncRead + AsyncWrite + Unpin + use<>) {
        let options = ClientOptions { protocols: protocols.to_vec(), ..ClientOptions::default() };
        let tls = ClientTls::from_pem(self.authority.cert_pem(), identity, &options).unwrap();
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let (server, edge, tasks) = (self.server.clone(), self.edge.clone(), self.tasks.clone());
        let mut serving = Box::pin(connection(server, Box::new(theirs), peer, edge, tasks));
        let name = ServerName::try_from("localhost").unwrap();
        let connected = tokio::select! {
            connected = tls.connector().connect(name, ours) => connected.unwrap(),
            () = serving.as_mut() => panic!("the server hung up"),
        };
        (serving, connected)
    }

    /// The status a request to a path that everybody may read gets.
    async fn status(&self, identity: Option<&Identity>) -> u16 {
        let (serving, stream) = self.connect(&["http/1.1"], identity).await;
        let asked = async {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
            let request = http::Request::get("/version").header("host", "localhost");
            let body = http_body_util::Empty::<bytes::Bytes>::new();
            let sent = sender.send_request(request.body(body).unwrap());
            tokio::select! {
                answer = sent => answer.unwrap().status().as_u16(),
                ended = connection => panic!("{ended:?}"),
            }
        };
        tokio::select! {
            status = asked => status,
            () = serving => panic!("the server hung up"),
        }
    }
}

/// Long enough for every patience of the server; time passes by itself here when nothing is left to do.
const LONG: Duration = Duration::from_hours(1);

#[tokio::test(start_paused = true)]
async fn who_connects_and_sends_nothing_is_let_go() {
    let bed = Bed::new();
    for protocols in [&["h2"][..], &["http/1.1"], &[]] {
        let (serving, mut client) = bed.connect(protocols, None).await;
        tokio::time::timeout(LONG, serving).await.expect("the connection ends");
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_preface_is_none() {
    let bed = Bed::new();
    let (serving, mut client) = bed.connect(&["h2"], None).await;
    client.write_all(b"PRI * HTTP/2.0").await.unwrap();
    tokio::time::timeout(LONG, serving).await.expect("the connection ends");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_no_longer_answers_is_let_go() {
    let bed = Bed::new();
    let (serving, mut client) = bed.connect(&["h2"], None).await;
    // The preface and empty settings, and then not a word.
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    tokio::time::timeout(LONG, serving).await.expect("the connection ends");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_may_be_idle_for_long() {
    let bed = Bed::new();
    let (serving, stream) = bed.connect(&["h2"], None).await;
    let executor = TokioExecutor::new();
    let handshake = hyper::client::conn::http2::handshake::<_, _, http_body_util::Empty<bytes::Bytes>>;
    let served = async {
        let (_sender, connection) = handshake(executor, TokioIo::new(stream)).await.unwrap();
        connection.await
    };
    tokio::select! {
        () = tokio::time::sleep(LONG) => {}
        () = serving => panic!("the server hung up"),
        ended = served => panic!("{ended:?}"),
    }
}

#[tokio::test]
async fn a_certificate_nobody_vouches_for_is_not_none() {
    let bed = Bed::new();
    let now = SystemClock::shared().now();
    let subject = || Subject { common_name: "ann".into(), organization: None, organizational_unit: None };
    let client = Request::client(subject());
    let known = bed.authority.issue(&client, now, MONTH).unwrap();
    let foreign = Authority::create("theirs", now, MONTH).unwrap().issue(&client, now, MONTH).unwrap();
    let expired = bed.authority.issue(&client, now - 2 * MONTH, MONTH).unwrap();
    assert_eq!(bed.status(None).await, 403, "nobody in particular has no role here");
    assert_eq!(bed.status(Some(&known)).await, 403, "neither has ann");
    assert_eq!(bed.status(Some(&foreign)).await, 401);
    assert_eq!(bed.status(Some(&expired)).await, 401);
}
