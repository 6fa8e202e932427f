//! Secrets at rest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::place::Place;
use crate::running::Running;

const PLAIN: &str = "correct horse battery staple";
const ARGUMENTS: &[&str] = &["--clusters", "0", "--encryption-keys", "keys.yaml"];

fn write_keys(place: &Place, keys: &[(&str, u8)]) {
    let keys: Vec<_> =
        keys.iter().map(|(id, byte)| json!({"id": id, "secret": STANDARD.encode([*byte; 32])})).collect();
    place.write("keys.yaml", &json!({"keys": keys}).to_string());
}

fn file_contains(place: &Place, name: &str, text: &str) -> bool {
    let file = std::fs::read(place.path().join(".thane/hub").join(name)).unwrap();
    file.windows(text.len()).any(|part| part == text.as_bytes())
}

#[tokio::test]
async fn secrets_are_unreadable_on_disk_and_keys_rotate() {
    let place = Place::new();
    write_keys(&place, &[("first", 1)]);
    let running = Running::start(&place, ARGUMENTS);
    let client = running.client("hub").await;
    let params = PostParams::default();
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"password": PLAIN}})).unwrap();
    let api: Api<Secret> = Api::namespaced(client.clone(), "default");
    let created = api.create(&params, &secret).await.unwrap();
    let open: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "c"}, "data": {"open": "plain to see"}})).unwrap();
    Api::<ConfigMap>::namespaced(client, "default").create(&params, &open).await.unwrap();
    assert_eq!(running.stop("-TERM").0, Some(0));
    assert!(file_contains(&place, "data.redb", "plain to see"), "the test must be able to find something");
    for text in [PLAIN, &STANDARD.encode(PLAIN)] {
        assert!(!file_contains(&place, "data.redb", text), "{text}");
        assert!(!file_contains(&place, "audit.log", text), "{text}");
    }

    // A new key comes first; writing a Secret again, unchanged, is all that rotation takes.
    write_keys(&place, &[("second", 2), ("first", 1)]);
    let running = Running::start(&place, ARGUMENTS);
    let api: Api<Secret> = Api::namespaced(running.client("hub").await, "default");
    let read = api.get("s").await.unwrap();
    assert_eq!(read.metadata.resource_version, created.metadata.resource_version);
    let written = api.replace("s", &params, &read).await.unwrap();
    assert_ne!(written.metadata.resource_version, read.metadata.resource_version, "it was sealed again");
    let again = api.replace("s", &params, &written).await.unwrap();
    assert_eq!(again.metadata.resource_version, written.metadata.resource_version, "there was nothing to do");
    assert_eq!(running.stop("-TERM").0, Some(0));

    write_keys(&place, &[("second", 2)]);
    let running = Running::start(&place, ARGUMENTS);
    let api: Api<Secret> = Api::namespaced(running.client("hub").await, "default");
    assert_eq!(api.get("s").await.unwrap().data.unwrap()["password"].0, PLAIN.as_bytes());
    assert_eq!(running.stop("-TERM").0, Some(0));

    // Without its key a Secret cannot be read, and says why; the rest can.
    let running = Running::start(&place, &["--clusters", "0"]);
    let client = running.client("hub").await;
    let error = Api::<Secret>::namespaced(client.clone(), "default").get("s").await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!(status.code, 500);
    assert!(status.message.contains("encrypted with the key \"second\""), "{}", status.message);
    Api::<ConfigMap>::namespaced(client, "default").get("c").await.unwrap();
    running.kill();
}
