//! Where examples leave their artifacts: a real S3 server.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::peer::{Guarded, PeerHome};

/// The Secret with the keys.
pub const CREDENTIALS: &str = "my-minio-cred";
const BUCKET: &str = "my-bucket";
/// What the server starts with unless it is told otherwise.
const KEY: &str = "minioadmin";
const START_LIMIT: Duration = Duration::from_mins(1);

/// A server; it ends when dropped.
#[derive(Debug)]
pub struct Store {
    address: SocketAddr,
    _process: Guarded,
    _folder: TempDir,
}

impl Store {
    /// Starts it at an address where steps reach it.
    pub async fn start(home: &PeerHome, host: IpAddr) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("thane-store-").tempdir()?;
        std::fs::create_dir_all(folder.path().join("data").join(BUCKET))?;
        let address = TcpListener::bind((host, 0))?.local_addr()?;
        let data = folder.path().join("data").display().to_string();
        let arguments = ["server", "--quiet", "--address", &address.to_string(), &data].map(str::to_owned);
        let log = folder.path().join("log");
        let mut process = Guarded::start(&home.program("minio"), &arguments, &log, Some(folder.path()))?;
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            ensure!(process.running() && started.elapsed() < START_LIMIT, "the store does not listen: {said}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Self { address, _process: process, _folder: folder })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// It, as Argo calls an artifact repository.
    pub fn repository(&self) -> Value {
        let key = |name: &str| json!({"name": CREDENTIALS, "key": name});
        json!({"s3": {"endpoint": self.address.to_string(), "insecure": true, "bucket": BUCKET,
            "accessKeySecret": key("accesskey"), "secretKeySecret": key("secretkey")}})
    }

    /// The keys.
    pub(super) fn credentials() -> Value {
        json!({"accesskey": KEY, "secretkey": KEY})
    }
}
