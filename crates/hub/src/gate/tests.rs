use std::sync::OnceLock;
use std::time::Duration;

use thane_runtime::{Clock as _, ManualClock};

use super::*;

static KEY: OnceLock<String> = OnceLock::new();
const SPIFFE: &str = "mtls:uri:^spiffe://d/(.+)$";

struct Bed {
    gate: Gate,
    clock: ManualClock,
}

fn bed(methods: &[&str], certificates: Certificates) -> Bed {
    let clock = ManualClock::new(Timestamp::from_second(1_700_000_000).unwrap());
    let options = Options {
        namespace: "argocd".to_owned(),
        version: "1.0.0".to_owned(),
        methods: methods.iter().map(|method| method.parse().unwrap()).collect(),
        certificates,
        capabilities: BTreeSet::new(),
    };
    let tokens = Tokens::new(KEY.get_or_init(|| tokens::generate_short_key().unwrap())).unwrap();
    Bed { gate: Gate::new(options, tokens, Arc::new(clock.clone())), clock }
}

fn peer(name: &str) -> Peer {
    peer_of(name, AGENT_UNIT)
}

fn peer_of(name: &str, unit: &str) -> Peer {
    let certificate = Certificate {
        subject: format!("CN={name},OU={unit}"),
        common_name: name.to_owned(),
        unit: unit.to_owned(),
        uris: vec![format!("spiffe://d/{name}")],
        fingerprint: format!("FF{name}"),
        not_after: Timestamp::from_second(1_800_000_000).unwrap(),
    };
    Peer { address: ([127, 0, 0, 1], 1).into(), certificate: Ok(Arc::new(certificate)) }
}

fn nobody() -> Peer {
    Peer { address: ([127, 0, 0, 1], 1).into(), certificate: Err("none was shown".into()) }
}

fn request(change: impl FnOnce(&mut AuthRequest)) -> AuthRequest {
    let mut request = AuthRequest {
        method: "mtls".to_owned(),
        mode: "managed".to_owned(),
        version: "0.9.0".to_owned(),
        agent_namespace: "spoke".to_owned(),
        ..AuthRequest::default()
    };
    change(&mut request);
    request
}

async fn reason(gate: &Gate, peer: &Peer, request: AuthRequest) -> Option<Reason> {
    gate.authenticate(peer, request).await.err().map(|refusal| refusal.reason)
}

#[tokio::test]
async fn proofs_are_judged() {
    let Bed { gate, .. } = bed(&["mtls:subject:CN=([^,]+)"], Certificates::Matching);
    let long = "x".repeat(1000);
    let cases: [(Peer, AuthRequest, Option<Reason>); 13] = [
        (peer("agent-a"), request(|_| {}), None),
        (peer("agent-a"), request(|request| request.mode = "other".to_owned()), Some(Reason::Mode)),
        (peer("agent-a"), request(|request| request.mode.clone_from(&long)), Some(Reason::Mode)),
        (peer("agent-a"), request(|request| request.method = "header".to_owned()), Some(Reason::Method)),
        (peer("agent-a"), request(|request| request.method.clone_from(&long)), Some(Reason::Method)),
        (peer("agent-a"), request(|request| request.method = "userpass".to_owned()), Some(Reason::Method)),
        (peer("agent-a"), request(|request| request.version.clear()), Some(Reason::Version)),
        (peer("agent-a"), request(|request| request.version.clone_from(&long)), Some(Reason::Version)),
        (peer("agent-a"), request(|request| request.agent_namespace.clone_from(&long)), Some(Reason::Version)),
        (peer("argocd"), request(|_| {}), Some(Reason::Name)),
        (peer("Agent_A"), request(|_| {}), Some(Reason::Name)),
        (peer(&long), request(|_| {}), Some(Reason::Name)),
        (nobody(), request(|_| {}), Some(Reason::Certificate)),
    ];
    for (place, (peer, request, expected)) in cases.into_iter().enumerate() {
        assert_eq!(reason(&gate, &peer, request).await, expected, "case {place}");
    }
    assert_eq!(gate.refusals.count(Reason::Name), 3);
}

#[tokio::test]
async fn calls_need_a_token_and_the_certificate_it_was_given_to() {
    let Bed { gate, clock } = bed(&[SPIFFE], Certificates::Matching);
    let tokens = gate.authenticate(&peer("agent-a"), request(|_| {})).await.unwrap();
    let access = Some(tokens.access_token.as_str());
    let admitted = gate.admit(&peer("agent-a"), access, Some("digest, pong,,")).unwrap();
    assert_eq!((&*admitted.agent, &*admitted.agent_namespace, &*admitted.version), ("agent-a", "spoke", "0.9.0"));
    assert_eq!(admitted.capabilities, BTreeSet::from(["digest".to_owned(), "pong".to_owned()]));
    assert_eq!(admitted.fingerprint.as_deref(), Some("FFagent-a"));
    let reason = |peer: &Peer, token: Option<&str>| gate.admit(peer, token, None).err().map(|refusal| refusal.reason);
    assert_eq!(reason(&peer("agent-b"), access), Some(Reason::Mismatch));
    assert_eq!(reason(&nobody(), access), Some(Reason::Certificate));
    assert_eq!(reason(&peer("agent-a"), None), Some(Reason::Token));
    assert_eq!(reason(&peer("agent-a"), Some(&tokens.refresh_token)), Some(Reason::Token));
    let replayed = gate.refresh(&peer("agent-b"), &tokens.refresh_token).unwrap_err();
    assert_eq!(replayed.reason, Reason::Mismatch);
    assert_eq!(gate.refresh(&peer("agent-a"), &tokens.access_token).unwrap_err().reason, Reason::Token);
    clock.advance(Duration::from_mins(7));
    assert_eq!(reason(&peer("agent-a"), access), Some(Reason::Token));
    clock.jump_to(Timestamp::from_second(1_800_000_001).unwrap());
    let later = gate.tokens().access(&Subject::new("agent-a", Mode::Managed), gate.clock.now()).unwrap();
    assert_eq!(reason(&peer("agent-a"), Some(&later)), Some(Reason::Certificate));
}

#[tokio::test]
async fn a_refresh_token_is_replaced_when_it_ends_soon() {
    let Bed { gate, clock } = bed(&[SPIFFE], Certificates::Matching);
    let tokens = gate.authenticate(&peer("agent-a"), request(|_| {})).await.unwrap();
    clock.advance(Duration::from_hours(23));
    let fresh = gate.refresh(&peer("agent-a"), &tokens.refresh_token).unwrap();
    assert!(gate.admit(&peer("agent-a"), Some(&fresh.access_token), None).is_ok());
    assert_eq!((&*fresh.refresh_token, &*fresh.version, &*fresh.principal_namespace), ("", "", ""));
    clock.advance(Duration::from_mins(51));
    let rotated = gate.refresh(&peer("agent-a"), &tokens.refresh_token).unwrap();
    clock.advance(Duration::from_hours(2));
    assert!(gate.refresh(&peer("agent-a"), &tokens.refresh_token).is_err());
    assert!(gate.refresh(&peer("agent-a"), &rotated.refresh_token).is_ok());
    assert!(gate.refresh(&peer("agent-a"), "").is_err());
}

#[tokio::test]
async fn how_much_a_certificate_matters_is_set() {
    let subject = Subject::new("agent-a", Mode::Managed);
    for (certificates, of_other, of_nobody) in [
        (Certificates::Matching, Some(Reason::Mismatch), Some(Reason::Certificate)),
        (Certificates::Trusted, None, Some(Reason::Certificate)),
        (Certificates::NotNeeded, None, None),
    ] {
        let Bed { gate, .. } = bed(&["mtls:CN=([^,]+)"], certificates);
        let token = gate.tokens().access(&subject, gate.clock.now()).unwrap();
        let reason = |peer: &Peer| gate.admit(peer, Some(&token), None).err().map(|refusal| refusal.reason);
        assert_eq!((reason(&peer("agent-b")), reason(&nobody())), (of_other, of_nobody), "{certificates:?}");
        assert_eq!(reason(&peer("agent-a")), None);
    }
}

#[tokio::test]
async fn blocked_certificates_are_refused_and_waited_for() {
    let Bed { gate, .. } = bed(&["mtls:CN=([^,]+)"], Certificates::NotNeeded);
    let fingerprint = "AB".repeat(32);
    let mut agent = peer("agent-a");
    let mut certificate = Certificate::clone(agent.certificate.as_ref().unwrap());
    certificate.fingerprint.clone_from(&fingerprint);
    agent.certificate = Ok(Arc::new(certificate));
    let tokens = gate.authenticate(&agent, request(|_| {})).await.unwrap();
    let blocked = async {
        gate.blocked(&fingerprint).await;
        true
    };
    let block = async { gate.set_blocked([fingerprint.to_lowercase()]) };
    assert!(tokio::join!(blocked, block).0);
    let refused = gate.admit(&agent, Some(&tokens.access_token), None).unwrap_err();
    assert_eq!(refused.reason, Reason::Blocked);
    assert_eq!(reason(&gate, &agent, request(|_| {})).await, Some(Reason::Blocked));
    gate.set_blocked([]);
    assert!(gate.admit(&agent, Some(&tokens.access_token), None).is_ok());
}

#[tokio::test]
async fn a_password_does_not_replace_the_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("passwords");
    std::fs::write(&file, format!("agent-a:{}\n", bcrypt::hash("secret", 4).unwrap())).unwrap();
    let Bed { gate, .. } = bed(&[&format!("userpass:{}", file.display())], Certificates::Matching);
    let login = |password: &str| {
        request(|request| {
            request.method = "userpass".to_owned();
            let pairs = [("clientid", "agent-a"), ("clientsecret", password)];
            request.credentials = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        })
    };
    assert_eq!(reason(&gate, &peer("agent-a"), login("secret")).await, None);
    assert_eq!(reason(&gate, &peer("agent-b"), login("secret")).await, Some(Reason::Mismatch));
    assert_eq!(reason(&gate, &nobody(), login("secret")).await, Some(Reason::Certificate));
    assert_eq!(reason(&gate, &peer("agent-a"), login("guess")).await, Some(Reason::Password));
    let empty = request(|request| request.method = "userpass".to_owned());
    assert_eq!(reason(&gate, &peer("agent-a"), empty).await, Some(Reason::Password));
    assert_eq!(reason(&gate, &peer("agent-a"), request(|_| {})).await, Some(Reason::Method));
}

#[tokio::test]
async fn each_door_has_certificates_of_its_own() {
    let Bed { gate, clock } = bed(&["mtls:subject:CN=([^,]+)"], Certificates::Matching);
    let (agent, proxy, plain) = (peer("agent-a"), peer_of("agent-a", PROXY_UNIT), peer_of("agent-a", ""));
    for (peer, enters, proxies) in [(&agent, true, false), (&proxy, false, true), (&plain, true, true)] {
        assert_eq!(gate.recognise(peer).is_ok(), enters);
        assert_eq!(reason(&gate, peer, request(|_| {})).await.is_none(), enters);
        assert_eq!(gate.proxied(peer, None).ok().as_deref(), proxies.then_some("agent-a"));
    }
    let now = clock.now();
    let token = gate.tokens().resource_proxy("agent-b", now).unwrap();
    let access = gate.tokens().access(&Subject::new("agent-b", Mode::Managed), now).unwrap();
    assert_eq!(gate.proxied(&proxy, Some(&token)).unwrap(), "agent-b", "a token counts before a certificate");
    for (peer, token, why) in [
        (&nobody(), Some(token.as_str()), Reason::Certificate),
        (&nobody(), None, Reason::Certificate),
        (&agent, Some(token.as_str()), Reason::Certificate),
        (&proxy, Some(access.as_str()), Reason::Token),
        (&proxy, Some("x"), Reason::Token),
        (&peer_of("argocd", PROXY_UNIT), None, Reason::Name),
        (&peer_of("Not a label", PROXY_UNIT), None, Reason::Name),
    ] {
        assert_eq!(gate.proxied(peer, token).unwrap_err().reason, why);
    }
}
