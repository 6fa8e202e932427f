use super::*;

/// Lines of Go's `cert.Subject.String()`, each followed by the certificate it came from; made with
/// `x509.CreateCertificate` and read back with `x509.ParseCertificate`.
const GOLDEN: &str = include_str!("subjects.txt");

fn golden() -> Vec<(String, Certificate)> {
    let end = "-----END CERTIFICATE-----\n";
    let parts = GOLDEN.split_inclusive(end).filter(|part| part.ends_with(end));
    let read = |part: &str| {
        let (subject, pem) = part.split_once('\n').unwrap();
        let der = pki::certificates(pem.as_bytes()).unwrap().remove(0);
        (subject.to_owned(), Certificate::read(&der).unwrap())
    };
    parts.map(read).collect()
}

#[test]
fn subjects_are_written_as_go_writes_them() {
    let golden = golden();
    assert_eq!(golden.len(), 3);
    for (subject, certificate) in &golden {
        assert_eq!(&certificate.subject, subject);
    }
    let names: Vec<&str> = golden.iter().map(|(_, certificate)| certificate.common_name.as_str()).collect();
    assert_eq!((names[0], names[2]), ("agent-a", ""));
    assert_eq!(golden[0].1.uris, ["spiffe://domain/agent-u"]);
    assert!(golden[1].1.uris.is_empty());
}

#[test]
fn fingerprints_are_compared_without_their_looks() {
    assert_eq!(normal("ab:CD:01"), "ABCD01");
    let fingerprint = &golden()[0].1.fingerprint;
    assert_eq!((fingerprint.len(), normal(&fingerprint.to_lowercase())), (64, fingerprint.clone()));
}

#[test]
fn junk_is_no_certificate() {
    assert!(Certificate::read(b"junk").is_err());
}
