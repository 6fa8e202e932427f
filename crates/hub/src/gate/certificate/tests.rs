use proptest::prelude::*;

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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_certificate_with_wrong_bytes_is_read_or_refused(
        which in 0_usize..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let pem = GOLDEN.split_inclusive("-----END CERTIFICATE-----\n").nth(which).unwrap();
        let whole = pki::certificates(pem.split_once('\n').unwrap().1.as_bytes()).unwrap().remove(0).to_vec();
        let mut der = whole.clone();
        for (place, byte) in changes {
            let place = place.index(der.len());
            der[place] = byte;
        }
        if let Ok(certificate) = Certificate::read(&der) {
            prop_assert_eq!(certificate.fingerprint.len(), 64);
        }
        // Without its end it is none.
        prop_assert!(Certificate::read(&whole[..cut.index(whole.len())]).is_err());
    }
}
