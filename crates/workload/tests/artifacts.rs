//! Artifacts in a real S3 server: `minio` of `make peers`, or the one at `THANE_TEST_S3` (`host:port`), which takes these keys.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests say why they fail or are skipped")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use thane_workload::steps::artifacts::s3::Store;
use thane_workload::steps::artifacts::{Error, Stores};

const ACCESS: &str = "thane-test";
const SECRET: &str = "thane-test-secret";
/// More than goes in one request.
const LARGE: usize = (64 << 20) + 3;

/// A server; it ends when dropped.
struct Server {
    endpoint: String,
    program: Option<(Child, TempDir)>,
}

impl Server {
    fn start() -> Option<Self> {
        if let Ok(endpoint) = std::env::var("THANE_TEST_S3") {
            return Some(Self { endpoint, program: None });
        }
        let beside = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/thane-peers");
        let peers = std::env::var_os("THANE_PEERS_HOME").map_or_else(beside, PathBuf::from);
        let program = peers.join("bin/minio");
        if !program.is_file() {
            eprintln!("SKIPPED, this test needs {}: run `make peers`", program.display());
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let endpoint = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let child = Command::new(program)
            .args(["server", "--quiet", "--address", &endpoint])
            .arg(folder.path())
            .env("MINIO_ROOT_USER", ACCESS)
            .env("MINIO_ROOT_PASSWORD", SECRET)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { endpoint, program: Some((child, folder)) };
        let until = Instant::now() + Duration::from_mins(1);
        while TcpStream::connect(&server.endpoint).is_err() {
            assert!(Instant::now() < until, "MinIO does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.program {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn store(folder: &Path, endpoint: &str, key: &str, bucket: &str) -> (Value, Stores) {
    let secrets = folder.join("secrets");
    fs::create_dir_all(secrets.join("s3")).unwrap();
    fs::write(secrets.join("s3/access"), ACCESS).unwrap();
    fs::write(secrets.join("s3/secret"), format!("{SECRET}\n")).unwrap();
    let s3 = json!({"endpoint": endpoint, "insecure": true, "bucket": bucket, "key": key, "createBucketIfNotPresent": {},
        "accessKeySecret": {"name": "s3", "key": "access"}, "secretKeySecret": {"name": "s3", "key": "secret"}});
    (s3, Stores { secrets, directory: folder.join("none") })
}

#[tokio::test]
async fn objects_and_directories_go_there_and_back() {
    let Some(server) = Server::start() else { return };
    let endpoint = server.endpoint.as_str();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "content").unwrap();
    let (mut s3, stores) = store(folder.path(), endpoint, "w/p/ä b+c&d.txt", "thane-objects");
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
    let Some(server) = Server::start() else { return };
    let endpoint = server.endpoint.as_str();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let content: Vec<u8> = (0..LARGE).map(|index| u8::try_from(index % 251).unwrap()).collect();
    fs::write(&file, &content).unwrap();
    let (s3, stores) = store(folder.path(), endpoint, "large", "thane-large");
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
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
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
