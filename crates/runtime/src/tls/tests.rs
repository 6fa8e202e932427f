use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::ServerName;
use tokio_rustls::{client, server};

use super::*;
use crate::Tasks;
use crate::clock::{Clock, SystemClock};
use crate::pki::store::{Paths, save};
use crate::pki::{Authority, Identity, Request};

const DAY: Duration = Duration::from_hours(24);

fn now() -> Timestamp {
    SystemClock::new().now()
}

fn authority() -> Authority {
    Authority::create("test", now(), 2 * DAY).unwrap()
}

fn server_identity(authority: &Authority) -> Identity {
    authority.issue(&Request::server("server", ["localhost"]), now(), DAY).unwrap()
}

fn client_identity(authority: &Authority) -> Identity {
    authority.issue(&Request::agent("caller"), now(), DAY).unwrap()
}

type Sides =
    (io::Result<server::TlsStream<tokio::io::DuplexStream>>, io::Result<client::TlsStream<tokio::io::DuplexStream>>);

async fn handshake(server: &ServerTls, client: &ClientTls) -> Sides {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let name = ServerName::try_from("localhost").unwrap();
    tokio::join!(server.acceptor().accept(near), client.connector().connect(name, far))
}

/// What the server thinks of a client: its common name, none for a nameless one.
async fn accepted(server: &ServerTls, client: &ClientTls) -> Result<Option<String>, String> {
    let (server, client) = handshake(server, client).await;
    client.map_err(|error| error.to_string())?;
    let stream = server.map_err(|error| error.to_string())?;
    let shown = stream.get_ref().1.peer_certificates();
    Ok(shown.map(|chain| crate::pki::inspect_der(&chain[0]).unwrap().subject.common_name))
}

#[tokio::test]
async fn client_certificates_are_treated_as_the_listener_says() {
    let (ours, foreign) = (authority(), authority());
    let identity = server_identity(&ours);
    let caller = |identity: Option<&Identity>| {
        ClientTls::from_pem(ours.cert_pem(), identity, &ClientOptions::default()).unwrap()
    };
    let (known, stranger) = (client_identity(&ours), client_identity(&foreign));
    let callers = [caller(None), caller(Some(&known)), caller(Some(&stranger))];
    let name = Some("caller".to_owned());
    let expected = [
        (ClientAuth::Off, [Some(None), Some(None), Some(None)]),
        (ClientAuth::Asked, [Some(None), Some(name.clone()), Some(name.clone())]),
        (ClientAuth::Optional, [Some(None), Some(name.clone()), None]),
        (ClientAuth::Required, [None, Some(name), None]),
    ];
    for (client_auth, expected) in expected {
        // Without hints, or the stranger would not even offer its certificate.
        let options = ServerOptions { client_auth, ..ServerOptions::default() };
        let bundle = (client_auth != ClientAuth::Asked).then(|| ours.cert_pem());
        let server = ServerTls::from_pem(&identity, bundle, &options).unwrap();
        for (index, (caller, expected)) in callers.iter().zip(expected).enumerate() {
            assert_eq!(accepted(&server, caller).await.ok(), expected, "{client_auth:?}, caller {index}");
        }
    }
}

#[tokio::test]
async fn certificates_are_replaced_in_memory_and_only_by_good_ones() {
    let (ours, other) = (authority(), authority());
    let options = ServerOptions { client_auth: ClientAuth::Required, ..ServerOptions::default() };
    let server = ServerTls::from_pem(&server_identity(&ours), Some(ours.cert_pem()), &options).unwrap();
    let client =
        ClientTls::from_pem(ours.cert_pem(), Some(&client_identity(&ours)), &ClientOptions::default()).unwrap();
    let (held, dialed) = (server.clone(), client.clone());
    assert!(accepted(&held, &dialed).await.is_ok());
    // Each side alone is a stranger to the other, both together are at home again.
    server.replace(&server_identity(&other), Some(other.cert_pem())).unwrap();
    assert!(accepted(&held, &dialed).await.is_err());
    client.replace(other.cert_pem(), Some(&client_identity(&other))).unwrap();
    assert!(accepted(&held, &dialed).await.is_ok());
    let junk = Identity { cert_pem: "junk".to_owned(), key_pem: "junk".to_owned() };
    assert!(server.replace(&junk, Some(other.cert_pem())).is_err());
    assert!(server.replace(&server_identity(&other), None).is_err(), "the listener still wants an authority");
    assert!(client.replace("junk", None).is_err());
    assert!(accepted(&held, &dialed).await.is_ok());
}

#[tokio::test]
async fn contents_of_files_are_followed() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    let (tasks, _supervisor) = Tasks::root("test");
    assert!(matches!(Contents::follow(vec![one.clone()], &tasks), Err(Error::Read { .. })));
    for file in [&one, &two] {
        crate::files::write_private(file, b"old").unwrap();
    }
    let mut contents = Contents::follow(vec![one.clone(), two], &tasks).unwrap();
    assert_eq!(*contents.now(), [b"old", b"old"]);
    crate::files::write_private(&one, b"new").unwrap();
    while contents.now()[0] != b"new" {
        assert!(contents.changed().await);
    }
    tasks.shutdown(Duration::from_secs(30)).await;
    assert!(!contents.changed().await);
}

#[tokio::test]
async fn versions_and_protocols_are_those_asked_for() {
    let authority = authority();
    let identity = server_identity(&authority);
    let server = |versions| {
        let options = ServerOptions { versions, protocols: vec!["h2", "http/1.1"], ..ServerOptions::default() };
        ServerTls::from_pem(&identity, None, &options).unwrap()
    };
    let trust = crate::pki::Trust::from_pem(authority.cert_pem()).unwrap();
    let old = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(trust.roots())
        .with_no_client_auth();
    let connect = async |server: &ServerTls| {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let connector = tokio_rustls::TlsConnector::from(Arc::new(old.clone()));
        let name = ServerName::try_from("localhost").unwrap();
        tokio::join!(server.acceptor().accept(near), connector.connect(name, far)).1.is_ok()
    };
    assert!(!connect(&server(Versions::Tls13)).await);
    assert!(connect(&server(Versions::Tls12AndTls13)).await);
    let options = ClientOptions { protocols: vec!["http/1.1"], ..ClientOptions::default() };
    let client = ClientTls::from_pem(authority.cert_pem(), None, &options).unwrap();
    let (accepted, _client) = handshake(&server(Versions::Tls13), &client).await;
    assert_eq!(accepted.unwrap().get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn unusable_material_is_refused() {
    let authority = authority();
    let (one, two) = (server_identity(&authority), server_identity(&authority));
    let mixed = Identity { cert_pem: one.cert_pem.clone(), key_pem: two.key_pem };
    let error = |identity: &Identity, ca: Option<&str>, client_auth| {
        let options = ServerOptions { client_auth, ..ServerOptions::default() };
        ServerTls::from_pem(identity, ca, &options).unwrap_err().to_string()
    };
    assert!(error(&mixed, None, ClientAuth::Off).starts_with("certificate and key cannot be used together"));
    assert!(error(&one, None, ClientAuth::Required).contains("none was given"));
    assert!(error(&one, Some("junk"), ClientAuth::Required).contains("no CERTIFICATE block"));
    let (tasks, _supervisor) = Tasks::root("test");
    let files = ServerFiles { cert: "absent/a.crt".into(), key: "absent/a.key".into(), client_ca: None };
    assert!(matches!(ServerTls::from_files(files, ServerOptions::default(), &tasks), Err(Error::Watch { .. })));
}

async fn answers(server: &ServerTls, trusted: &Authority) -> bool {
    let client = ClientTls::from_pem(trusted.cert_pem(), None, &ClientOptions::default()).unwrap();
    accepted(server, &client).await.is_ok()
}

#[tokio::test]
async fn a_changed_certificate_is_served_and_a_bad_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path(), "server");
    let (old, new) = (authority(), authority());
    save(&paths, &server_identity(&old)).unwrap();
    let (tasks, _supervisor) = Tasks::root("test");
    let files = ServerFiles { cert: paths.cert.clone(), key: paths.key.clone(), client_ca: None };
    let (server, mut reloads) = ServerTls::from_files(files, ServerOptions::default(), &tasks).unwrap();
    assert!(answers(&server, &old).await);

    crate::files::write_private(&paths.cert, b"junk").unwrap();
    assert!(reloads.wait_until(|attempts| attempts.refused == 1).await);
    assert!(answers(&server, &old).await);

    save(&paths, &server_identity(&new)).unwrap();
    assert!(reloads.wait_until(|attempts| attempts.taken == 1).await);
    assert!(answers(&server, &new).await && !answers(&server, &old).await);
    assert!(tasks.shutdown(Duration::from_secs(30)).await.is_empty());
}

/// Lays files out as kubelet does for a mounted Secret: `name -> ..data/name`, `..data -> ..1`.
fn mount_secret(volume: &Path, version: &str, identity: &Identity) {
    let contents = volume.join(version);
    std::fs::create_dir(&contents).unwrap();
    save(&Paths::new(&contents, "tls"), identity).unwrap();
    symlink(version, volume.join("..new")).unwrap();
    std::fs::rename(volume.join("..new"), volume.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        if !volume.join(name).is_symlink() {
            symlink(Path::new("..data").join(name), volume.join(name)).unwrap();
        }
    }
}

#[tokio::test]
async fn a_mounted_secret_is_followed_through_its_links() {
    let volume = tempfile::tempdir().unwrap();
    let (old, new) = (authority(), authority());
    mount_secret(volume.path(), "..1", &server_identity(&old));
    let (tasks, _supervisor) = Tasks::root("test");
    let Paths { cert, key } = Paths::new(volume.path(), "tls");
    let files = ServerFiles { cert, key, client_ca: None };
    let (server, mut reloads) = ServerTls::from_files(files, ServerOptions::default(), &tasks).unwrap();
    assert!(answers(&server, &old).await);
    mount_secret(volume.path(), "..2", &server_identity(&new));
    assert!(reloads.wait_until(|attempts| attempts.taken == 1).await);
    assert!(answers(&server, &new).await);
}

#[tokio::test]
async fn authorities_and_a_callers_own_certificate_are_followed_too() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, foreign) = (authority(), authority());
    let (server_paths, client_paths) = (Paths::new(dir.path(), "server"), Paths::new(dir.path(), "caller"));
    let (bundle, roots) = (dir.path().join("clients.crt"), dir.path().join("servers.crt"));
    save(&server_paths, &server_identity(&ours)).unwrap();
    save(&client_paths, &client_identity(&foreign)).unwrap();
    std::fs::write(&bundle, ours.cert_pem()).unwrap();
    std::fs::write(&roots, ours.cert_pem()).unwrap();
    let (tasks, _supervisor) = Tasks::root("test");
    let options = ServerOptions { client_auth: ClientAuth::Required, ..ServerOptions::default() };
    let files = ServerFiles { cert: server_paths.cert, key: server_paths.key, client_ca: Some(bundle.clone()) };
    let (server, mut server_reloads) = ServerTls::from_files(files, options, &tasks).unwrap();
    let files = ClientFiles { ca: roots, identity: Some(client_paths.clone()) };
    let (client, mut client_reloads) = ClientTls::from_files(files, ClientOptions::default(), &tasks).unwrap();
    assert!(accepted(&server, &client).await.is_err());
    assert!(server.clients().unwrap().verify(&client_identity(&foreign).cert_pem, now()).is_err());

    std::fs::write(&bundle, format!("{}{}", ours.cert_pem(), foreign.cert_pem())).unwrap();
    assert!(server_reloads.wait_until(|attempts| attempts.taken >= 1).await);
    assert_eq!(accepted(&server, &client).await, Ok(Some("caller".to_owned())));
    server.clients().unwrap().verify(&client_identity(&foreign).cert_pem, now()).unwrap();

    save(&client_paths, &ours.issue(&Request::agent("renamed"), now(), DAY).unwrap()).unwrap();
    assert!(client_reloads.wait_until(|attempts| attempts.taken >= 1).await);
    assert_eq!(accepted(&server, &client).await, Ok(Some("renamed".to_owned())));
}
