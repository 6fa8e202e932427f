use std::time::Duration;

use jiff::Timestamp;

use super::*;

const DAY: Duration = Duration::from_hours(24);

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn authority(name: &str) -> Authority {
    Authority::create(name, now(), 100 * DAY).unwrap()
}

fn server(authority: &Authority) -> Identity {
    authority.issue(&Request::server("hub", ["hub.example", "127.0.0.1", "::1"]), now(), 30 * DAY).unwrap()
}

fn chain(identity: &Identity) -> Vec<CertificateDer<'static>> {
    certificates(identity.cert_pem.as_bytes()).unwrap()
}

#[test]
fn a_certificate_says_what_was_asked() {
    let authority = authority("fleet");
    let issued = &inspect(&server(&authority).cert_pem).unwrap()[0];
    assert_eq!(issued.names, ["hub.example", "127.0.0.1", "::1"]);
    assert_eq!(issued.usages, ["digitalSignature", "serverAuth"]);
    assert_eq!((issued.subject_text.as_str(), issued.issuer_text.as_str()), ("CN=hub", "CN=fleet"));
    assert_eq!(issued.not_after, now() + 30 * DAY);
    assert_eq!(issued.time_left(now()), Some(30 * DAY));
    assert_eq!(issued.time_left(now() + 30 * DAY), None);
    assert!(!issued.renewal_due(now() + 19 * DAY) && issued.renewal_due(now() + 21 * DAY));
    assert!(!issued.authority && authority.details().authority);

    let subject = Subject {
        common_name: "alice".to_owned(),
        organization: Some("system:masters".to_owned()),
        organizational_unit: Some("people".to_owned()),
    };
    let issued = authority.issue(&Request::client(subject.clone()), now(), DAY).unwrap();
    let details = Trust::from_pem(authority.cert_pem()).unwrap().verify_client(&chain(&issued), now()).unwrap();
    assert_eq!(details.subject, subject);
    assert_eq!(details.organizations, ["system:masters"]);
    let agent = authority.issue(&Request::agent("cluster-1"), now(), DAY).unwrap();
    assert_eq!(inspect(&agent.cert_pem).unwrap()[0].subject_text, "OU=agent, CN=cluster-1");
}

#[test]
fn only_a_valid_chain_for_the_right_use_and_name_is_trusted() {
    let (authority, other) = (authority("fleet"), authority("fleet"));
    let trust = Trust::from_pem(authority.cert_pem()).unwrap();
    let good = chain(&server(&authority));
    let client = chain(&authority.issue(&Request::agent("a"), now(), DAY).unwrap());
    let verify = |chain: &[CertificateDer<'_>], name: &str, at: Timestamp| trust.verify_server(chain, name, at);

    for name in ["hub.example", "127.0.0.1", "::1"] {
        verify(&good, name, now()).unwrap();
    }
    assert!(matches!(verify(&good, "hub.example", now() + 31 * DAY), Err(Error::Expired { .. })));
    assert!(matches!(verify(&good, "hub.example", now() - DAY), Err(Error::NotYetValid { .. })));
    let wrong = verify(&good, "127.0.0.2", now()).unwrap_err().to_string();
    assert_eq!(wrong, "certificate is valid for hub.example, 127.0.0.1, ::1, not for 127.0.0.2");
    assert!(matches!(verify(&chain(&server(&other)), "hub.example", now()), Err(Error::UnknownIssuer(_))));
    assert!(matches!(trust.verify_client(&good, now()), Err(Error::WrongPurpose(_))));
    assert!(matches!(trust.verify_client(&[], now()), Err(Error::BadRequest(_))));
    trust.verify_client(&client, now()).unwrap();
    assert!(matches!(verify(&client, "hub.example", now()), Err(Error::WrongPurpose(_) | Error::WrongName { .. })));
}

#[test]
fn renewal_changes_dates_and_nothing_else() {
    let authority = authority("fleet");
    let old = server(&authority);
    let later = now() + 20 * DAY;
    let new = authority.renew(&old, later, 30 * DAY).unwrap();
    assert_eq!(new.key_pem, old.key_pem);
    let (before, after) = (&inspect(&old.cert_pem).unwrap()[0], &inspect(&new.cert_pem).unwrap()[0]);
    assert_ne!(before.serial, after.serial);
    assert_eq!(after.not_after, later + 30 * DAY);
    let comparable = |details: &Details| Details {
        serial: String::new(),
        fingerprint: String::new(),
        not_before: now(),
        not_after: now(),
        ..details.clone()
    };
    assert_eq!(comparable(before), comparable(after));
    Trust::from_pem(authority.cert_pem()).unwrap().verify(&new.cert_pem, later + 29 * DAY).unwrap();
}

#[test]
fn a_renewed_authority_vouches_for_what_it_signed_before() {
    let old = authority("fleet");
    let issued = server(&old);
    let new = old.renew_self(now() + 50 * DAY, 100 * DAY).unwrap();
    assert_eq!(new.details().not_after, now() + 150 * DAY);
    assert_eq!(new.details().subject_key_id, old.details().subject_key_id);
    Trust::from_pem(new.cert_pem()).unwrap().verify(&issued.cert_pem, now()).unwrap();
    Trust::from_pem(old.cert_pem()).unwrap().verify(&server(&new).cert_pem, now()).unwrap();
}

#[test]
fn a_certificate_ends_no_later_than_its_authority() {
    let authority = authority("fleet");
    let long = authority.issue(&Request::agent("a"), now(), 1000 * DAY).unwrap();
    assert_eq!(inspect(&long.cert_pem).unwrap()[0].not_after, authority.details().not_after);
    let late = authority.issue(&Request::agent("a"), now() + 100 * DAY, DAY);
    assert!(matches!(late, Err(Error::Expired { .. })));
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let authority = authority("fleet");
    let (leaf, other) = (server(&authority), server(&authority));
    let check = |result: Result<String>, expected: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} should contain {expected:?}");
    };
    let issue = |request: Request| authority.issue(&request, now(), DAY).map(|_| String::new());
    let load = |cert: &str, key: &str| Authority::from_pem(cert, key).map(|_| String::new());
    check(issue(Request::server("hub", Vec::<String>::new())), "at least one DNS name");
    check(issue(Request::server("hub", ["not a name"])), "neither a DNS name nor an IP address");
    check(issue(Request::server("hub", ["münchen.example"])), "neither a DNS name nor an IP address");
    check(issue(Request::agent(" ")), "common name");
    check(Authority::create("", now(), DAY).map(|_| String::new()), "common name");
    check(Authority::create("x", now(), Duration::ZERO).map(|_| String::new()), "lifetime");
    check(Authority::create("x", Timestamp::MIN, DAY).map(|_| String::new()), "before certificates");
    check(load("", &leaf.key_pem), "no CERTIFICATE block");
    check(load(&leaf.cert_pem, ""), "no PRIVATE KEY block");
    check(load(&leaf.cert_pem, &leaf.key_pem), "not a certificate authority");
    check(load(authority.cert_pem(), &leaf.key_pem), "does not belong");
    check(
        inspect("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").map(|_| String::new()),
        "certificate: ",
    );
    let mixed = Identity { cert_pem: leaf.cert_pem.clone(), key_pem: other.key_pem };
    check(authority.renew(&mixed, now(), DAY).map(|_| String::new()), "does not belong to the certificate of CN=hub");
    check(authority.renew(authority.identity(), now(), DAY).map(|_| String::new()), "authority renews itself");
    assert!(!format!("{leaf:?}").contains("PRIVATE KEY"));
}

#[test]
fn files_are_private_and_read_back_the_same() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let pki = dir.path().join("pki");
    store::create_directory(&pki).unwrap();
    let paths = store::Paths::new(&pki, "ca");
    assert!(!paths.exist());
    let authority = authority("fleet");
    store::save(&paths, authority.identity()).unwrap();
    for path in [&paths.cert, &paths.key] {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let loaded = store::load_authority(&paths).unwrap();
    assert_eq!(loaded.identity(), authority.identity());
    assert_eq!(loaded.issue(&Request::agent("a"), now(), DAY).map(|_| ()).ok(), Some(()));
    std::fs::write(&paths.key, "junk").unwrap();
    assert!(store::load_authority(&paths).unwrap_err().to_string().contains("ca.crt: private key"));
    let missing = store::load(&store::Paths::new(&pki, "absent")).unwrap_err().to_string();
    assert!(missing.contains("absent.crt: No such file"), "{missing}");
}
