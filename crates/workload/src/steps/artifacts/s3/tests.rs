//! A real S3 server: the one at `THANE_TEST_S3` (`host:port`), which takes any keys.

use std::fs;

use serde_json::json;

use super::*;

fn store(folder: &Path, endpoint: &str, key: &str, bucket: &str) -> (Value, Stores) {
    let secrets = folder.join("secrets");
    fs::create_dir_all(secrets.join("s3")).unwrap();
    fs::write(secrets.join("s3/access"), "thane-test").unwrap();
    fs::write(secrets.join("s3/secret"), "thane-test-secret\n").unwrap();
    let s3 = json!({"endpoint": endpoint, "insecure": true, "bucket": bucket, "key": key, "createBucketIfNotPresent": {},
        "accessKeySecret": {"name": "s3", "key": "access"}, "secretKeySecret": {"name": "s3", "key": "secret"}});
    (s3, Stores { secrets, directory: folder.join("none") })
}

#[tokio::test]
async fn objects_and_directories_go_there_and_back() {
    let Ok(endpoint) = std::env::var("THANE_TEST_S3") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "content").unwrap();
    let (mut s3, stores) = store(folder.path(), &endpoint, "w/p/ä b+c&d.txt", "thane-objects");
    Store::open(&s3, &stores).unwrap().save(&file).await.unwrap();
    let to = folder.path().join("to");
    Store::open(&s3, &stores).unwrap().load(&to).await.unwrap();
    assert_eq!(fs::read_to_string(&to).unwrap(), "content");

    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    for name in ["one", "a/two", "a/b/three"] {
        fs::write(tree.join(name), name).unwrap();
    }
    s3["key"] = json!("w/tree");
    Store::open(&s3, &stores).unwrap().save(&tree).await.unwrap();
    let to = folder.path().join("tree2");
    Store::open(&s3, &stores).unwrap().load(&to).await.unwrap();
    assert_eq!(fs::read_to_string(to.join("a/b/three")).unwrap(), "a/b/three");

    s3["key"] = json!("w/none");
    let absent = Store::open(&s3, &stores).unwrap().load(&folder.path().join("x")).await.unwrap_err();
    assert!(matches!(absent, Error::Absent(_)), "{absent}");
    s3["bucket"] = json!("thane-nobodys");
    s3["createBucketIfNotPresent"] = json!(null);
    let failed = Store::open(&s3, &stores).unwrap().save(&file).await.unwrap_err();
    assert!(failed.to_string().contains("NoSuchBucket"), "{failed}");
}

#[tokio::test]
async fn large_objects_go_in_parts() {
    let Ok(endpoint) = std::env::var("THANE_TEST_S3") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let content: Vec<u8> = (0..SINGLE_MAX + 3).map(|index| u8::try_from(index % 251).unwrap()).collect();
    fs::write(&file, &content).unwrap();
    let (s3, stores) = store(folder.path(), &endpoint, "large", "thane-large");
    Store::open(&s3, &stores).unwrap().save(&file).await.unwrap();
    let to = folder.path().join("to");
    Store::open(&s3, &stores).unwrap().load(&to).await.unwrap();
    assert!(fs::read(&to).unwrap() == content, "what came back is what was sent");
}

#[tokio::test]
async fn a_server_that_is_down_and_a_secret_that_is_missing_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (mut s3, stores) = store(folder.path(), &free, "k", "b");
    s3["createBucketIfNotPresent"] = json!(null);
    let failed = Store::open(&s3, &stores).unwrap().save(&file).await.unwrap_err().to_string();
    assert!(failed.contains(&free) && failed.contains("cannot be reached"), "{failed}");
    s3["secretKeySecret"]["key"] = json!("none");
    let failed = Store::open(&s3, &stores).err().unwrap().to_string();
    assert!(failed.contains("secret s3 has no key none"), "{failed}");
    for (field, wrong) in [("bucket", "a/b"), ("endpoint", "http://x/y"), ("endpoint", "")] {
        let (mut s3, stores) = store(folder.path(), "h", "k", "b");
        s3[field] = json!(wrong);
        assert!(Store::open(&s3, &stores).is_err(), "{field} {wrong}");
    }
}
