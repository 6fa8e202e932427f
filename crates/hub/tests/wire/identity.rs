use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use thane_agent::connection::{Dialer, Failure, Step, TlsFault};
use thane_api::wire::auth::RefreshTokenRequest;
use thane_api::wire::auth::authentication_client::AuthenticationClient;
use thane_api::wire::events::PingRequest;
use thane_api::wire::events::event_stream_client::EventStreamClient;
use thane_hub::gate::{Tokens, tokens};
use thane_runtime::net::{BindError, BoxIo, Connector, Listener, Network, Tcp};
use thane_runtime::pki::{Identity, Request as CertificateRequest};
use thane_runtime::tls::{ClientAuth, ClientOptions, ClientTls};
use thane_runtime::{Clock, SystemClock};
use tonic::Code;
use tonic::transport::Channel;

use crate::bed::{Bed, DAY, Setup, authority, call, event, fingerprint, now, request, within};

/// A network in which every name is this machine's.
struct AnyName;

impl Connector for AnyName {
    fn connect<'a>(&'a self, _: &'a str, port: u16) -> BoxFuture<'a, std::io::Result<BoxIo>> {
        Tcp.connect("127.0.0.1", port)
    }
}

impl Network for AnyName {
    fn bind(&self, address: SocketAddr) -> BoxFuture<'_, Result<Box<dyn Listener>, BindError>> {
        Box::pin(async move { Tcp.bind(address).await })
    }
}

async fn ping(client: &Channel, token: &str) -> Result<(), Code> {
    let answer = EventStreamClient::new(client.clone()).ping(call(token, PingRequest {})).await;
    answer.map(drop).map_err(|status| status.code())
}

async fn refresh(client: &Channel, token: &str) -> Result<String, Code> {
    let refresh_token = token.to_owned();
    let answer = AuthenticationClient::new(client.clone()).refresh_token(RefreshTokenRequest { refresh_token }).await;
    answer.map(|answer| answer.into_inner().access_token).map_err(|status| status.code())
}

#[tokio::test]
async fn names_that_are_none_and_certificates_that_do_not_count_are_refused() {
    let bed = Bed::start().await;
    let foreign = authority();
    let of_foreign = foreign.issue(&CertificateRequest::agent("agent-a"), now(), DAY).unwrap();
    let before = now() - DAY * 3;
    let expired = bed.authority.issue(&CertificateRequest::agent("agent-a"), before, DAY).unwrap();
    let of_server = bed.authority.issue(&CertificateRequest::server("agent-a", ["x"]), now(), DAY).unwrap();
    let long = bed.identity(&"a".repeat(64));
    let cases: [(&str, Option<&Identity>); 7] = [
        ("none", None),
        ("of a foreign authority", Some(&of_foreign)),
        ("expired", Some(&expired)),
        ("of a server", Some(&of_server)),
        ("of the hub's namespace", Some(&bed.identity("argocd"))),
        ("not a label", Some(&bed.identity("Agent_A"))),
        ("too long", Some(&long)),
    ];
    for (words, identity) in cases {
        let client = bed.client(identity).await;
        let refused = bed.authenticate(&client).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (Code::Unauthenticated, "authentication failed"), "{words}");
    }
    let good = bed.client(Some(&bed.identity("agent-a"))).await;
    assert!(bed.authenticate(&good).await.is_ok());
}

#[tokio::test]
async fn other_requests_get_the_codes_agents_know() {
    let bed = Bed::start().await;
    let client = bed.client(Some(&bed.identity("agent-a"))).await;
    let mut authentication = AuthenticationClient::new(client);
    let mut mode = request("mtls");
    mode.mode = "both".to_owned();
    let mut version = request("mtls");
    version.version.clear();
    let mut huge = request("mtls");
    huge.agent_namespace = "x".repeat(100_000);
    let cases = [
        (mode, Code::Unknown, "unknown or missing operation mode: 'both'"),
        (version, Code::InvalidArgument, "agent version is required"),
        (request("kerberos"), Code::Unauthenticated, "authentication failed"),
        (request(&"x".repeat(1000)), Code::Unauthenticated, "authentication failed"),
        (huge, Code::OutOfRange, ""),
    ];
    for (request, code, message) in cases {
        let refused = authentication.authenticate(request).await.unwrap_err();
        assert_eq!(refused.code(), code);
        assert!(refused.message().contains(message), "{refused}");
    }
}

#[tokio::test]
async fn tokens_are_good_for_their_owner_their_use_and_their_time() {
    let bed = Bed::start().await;
    let (of_a, a) = bed.authenticated("agent-a").await;
    let (of_b, b) = bed.authenticated("agent-b").await;
    assert_eq!(ping(&of_a, &a.access_token).await, Ok(()));
    assert_eq!(ping(&of_b, &b.access_token).await, Ok(()));
    let refused = Err(Code::Unauthenticated);
    assert_eq!(ping(&of_b, &a.access_token).await, refused, "a token of another agent");
    assert_eq!(ping(&of_a, &a.refresh_token).await, refused, "a token for another use");
    assert_eq!(ping(&bed.client(None).await, &a.access_token).await, refused, "a token without a certificate");
    assert_eq!(refresh(&of_b, &a.refresh_token).await, Err(Code::Unauthenticated));
    assert_eq!(refresh(&of_a, &a.access_token).await, Err(Code::Unauthenticated));
    let other = Tokens::new(&tokens::generate_short_key().unwrap()).unwrap();
    let subject = tokens::Subject::new("agent-a", thane_api::event::Mode::Managed);
    let forged = other.access(&subject, bed.clock.now()).unwrap();
    for bad in [&*forged, "Bearer", "x", &"x".repeat(5000)] {
        assert_eq!(ping(&of_a, bad).await, refused);
    }
    bed.clock.advance(Duration::from_mins(7));
    assert_eq!(ping(&of_a, &a.access_token).await, refused, "an old token");
    let fresh = refresh(&of_a, &a.refresh_token).await.unwrap();
    assert_eq!(ping(&of_a, &fresh).await, Ok(()));
    bed.clock.advance(Duration::from_hours(25));
    assert_eq!(refresh(&of_a, &a.refresh_token).await, Err(Code::Unauthenticated));
}

#[tokio::test]
async fn an_agent_renews_its_token_for_further_calls() {
    let mut bed = Bed::start().await;
    let clock = thane_runtime::ManualClock::new(now());
    let tls = bed.tls(Some(&bed.identity("agent-a")));
    let dialer = Dialer::new(bed.config(), Tcp::shared(), Some(tls), std::sync::Arc::new(clock.clone()));
    let mut agent = bed.agent(dialer);
    let _stream = within(bed.streams.recv()).await.unwrap();
    let opened = within(agent.recv()).await.unwrap();
    let calls = &opened.calls;
    let ping = async || {
        let mut request = tonic::Request::new(PingRequest {});
        calls.authorize(request.metadata_mut()).await.unwrap();
        EventStreamClient::with_origin(calls.channel(), calls.origin()).ping(request).await.map(drop)
    };
    ping().await.unwrap();
    for _ in 0..3 {
        bed.clock.advance(Duration::from_mins(7));
        clock.advance(Duration::from_mins(7));
        ping().await.unwrap();
    }
}

#[tokio::test]
async fn an_agent_proves_anew_who_it_is_when_its_tokens_are_of_no_use() {
    let mut bed = Bed::start().await;
    let clock = thane_runtime::ManualClock::new(now());
    let identity = bed.authority.issue(&CertificateRequest::agent("agent-a"), now(), DAY * 3).unwrap();
    let dialer = Dialer::new(bed.config(), Tcp::shared(), Some(bed.tls(Some(&identity))), Arc::new(clock.clone()));
    let mut agent = bed.agent(dialer);
    let _stream = within(bed.streams.recv()).await.unwrap();
    let opened = within(agent.recv()).await.unwrap();
    let calls = &opened.calls;
    let ping = async || {
        let mut request = tonic::Request::new(PingRequest {});
        calls.authorize(request.metadata_mut()).await.unwrap();
        let answer = EventStreamClient::with_origin(calls.channel(), calls.origin()).ping(request).await;
        answer.map(drop).map_err(|status| status.code())
    };
    // The refresh token is over, too.
    bed.clock.advance(Duration::from_hours(25));
    clock.advance(Duration::from_hours(25));
    assert_eq!(ping().await, Ok(()));
    // Nothing but the hub's answer tells that it has another key.
    bed.gate.set_tokens(Tokens::new(&tokens::generate_short_key().unwrap()).unwrap());
    clock.advance(Duration::from_secs(1));
    assert_eq!(ping().await, Err(Code::Unauthenticated));
    assert_eq!(ping().await, Ok(()));
}

#[tokio::test]
async fn a_blocked_certificate_is_cut_off_and_stays_out() {
    let mut bed = Bed::start().await;
    let (other, _other) = bed.pair("agent-b", bed.config()).await;
    let identity = bed.identity("agent-a");
    let tls = bed.tls(Some(&identity));
    let dialer = Dialer::new(bed.config(), Tcp::shared(), Some(tls), SystemClock::shared());
    let mut state = dialer.state();
    let mut agent = bed.agent(dialer);
    let stream = within(bed.streams.recv()).await.unwrap();
    let opened = within(agent.recv()).await.unwrap();
    let fingerprint = fingerprint(&identity);
    assert_eq!(stream.identity.fingerprint.as_ref(), Some(&fingerprint));
    bed.gate.set_blocked([fingerprint]);
    within(stream.close.cancelled()).await;
    within(opened.close.cancelled()).await;
    within(state.wait_for(|state| format!("{state:?}").contains("Failed"))).await.unwrap();
    bed.gate.set_blocked([]);
    let back = within(bed.streams.recv()).await.unwrap();
    assert_eq!(back.identity.agent, "agent-a");
    assert!(!other.close.is_cancelled());
}

#[tokio::test]
async fn whoever_has_no_certificate_may_be_kept_out_of_the_handshake() {
    let bed = Bed::with(Setup { client_auth: ClientAuth::Required, ..Setup::default() }).await;
    let foreign = authority().issue(&CertificateRequest::agent("agent-a"), now(), DAY).unwrap();
    for (identity, words) in [(None, "wants a client certificate"), (Some(&foreign), "does not accept our")] {
        let dialer = Dialer::new(bed.config(), Tcp::shared(), Some(bed.tls(identity)), SystemClock::shared());
        let failure = within(dialer.attempt(&bed.tasks)).await.unwrap_err();
        assert!(matches!(&failure, Failure::Tls { fault: TlsFault::OurCertificate, .. }), "{failure}");
        assert!(failure.to_string().contains(words), "{failure}");
    }
    assert!(bed.dialer("agent-a", bed.config()).attempt(&bed.tasks).await.is_ok());
}

#[tokio::test]
async fn an_agent_knows_why_it_does_not_believe_its_hub() {
    let bed = Bed::start().await;
    let foreign = ClientTls::from_pem(authority().cert_pem(), None, &ClientOptions::default()).unwrap();
    let attempt = async |config, tls| {
        let dialer = Dialer::new(config, Tcp::shared(), tls, SystemClock::shared());
        within(dialer.attempt(&bed.tasks)).await.unwrap_err()
    };
    let failure = attempt(bed.config(), Some(foreign)).await;
    assert!(matches!(&failure, Failure::Tls { fault: TlsFault::Authority, .. }), "{failure}");
    let mut unreachable = bed.config();
    unreachable.port = 1;
    let failure = attempt(unreachable, Some(bed.tls(None))).await;
    assert_eq!((failure.label(), failure.to_string().contains("127.0.0.1:1")), ("unreachable", true), "{failure}");
    let plain = Bed::with(Setup { plaintext: true, ..Setup::default() }).await;
    let failure = attempt(plain.config(), Some(bed.tls(None))).await;
    assert!(matches!(&failure, Failure::Tls { fault: TlsFault::NotTls, .. }), "{failure}");
    let failure = attempt(bed.config(), Some(bed.tls(None))).await;
    assert!(matches!(&failure, Failure::Refused { step: Step::Authenticate, .. }), "{failure}");
    let mut renamed = bed.config();
    renamed.host = "hub.example".to_owned();
    let dialer = Dialer::new(renamed, Arc::new(AnyName), Some(bed.tls(None)), SystemClock::shared());
    let failure = within(dialer.attempt(&bed.tasks)).await.unwrap_err();
    assert!(matches!(&failure, Failure::Tls { fault: TlsFault::Name, .. }), "{failure}");
    assert!(failure.to_string().contains("not for hub.example"), "{failure}");
}

#[tokio::test]
async fn a_clock_an_hour_off_refuses_tokens_and_harms_no_stream() {
    for jump in [3_600, -3_600] {
        let mut bed = Bed::start().await;
        let (mut stream, mut opened) = bed.pair("agent-b", bed.config()).await;
        let (client, old) = bed.authenticated("agent-a").await;
        assert_eq!(ping(&client, &old.access_token).await, Ok(()));
        let before = bed.clock.now();
        bed.clock.jump_to(before + jiff::SignedDuration::from_secs(jump));
        assert_eq!(ping(&client, &old.access_token).await, Err(Code::Unauthenticated), "{jump}");
        let new = bed.authenticate(&client).await.unwrap();
        assert_eq!(ping(&client, &new.access_token).await, Ok(()), "{jump}: proved anew");
        let down = event("down", "{}");
        stream.outgoing.send(down.clone()).await.unwrap();
        assert_eq!(within(opened.incoming.recv()).await.unwrap().unwrap().resource_id, down.resource_id);
        opened.outgoing.send(event("up", "{}")).await.unwrap();
        assert_eq!(within(stream.incoming.recv()).await.unwrap().unwrap().resource_id, "up");
        assert!(!stream.close.is_cancelled() && !opened.close.is_cancelled(), "{jump}");
        bed.clock.jump_to(before);
        assert_eq!(ping(&client, &old.access_token).await, Ok(()), "{jump}: the clock is right again");
    }
}
