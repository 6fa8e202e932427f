//! A whole API server from a directory: its data, its certificates, its controllers and its listener.

mod identity;
mod renewal;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prometheus_client::registry::Registry;
use thane_kv::{HistoryLimits, RedbOptions, RedbStore, Stopped, Store};
use thane_runtime::net::{BindError, SharedNetwork};
use thane_runtime::pki;
use thane_runtime::readiness::{Condition, Readiness};
use thane_runtime::tls::{self, ClientAuth, ServerFiles, ServerOptions, ServerTls, Versions};
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::audit::{AuditFile, AuditLog};
use crate::authn::{Authenticator, TokenFile, TokenFileError, TokenIssuer};
use crate::edge::{self, Edge};
use crate::encryption::{Encryption, EncryptionError};
use crate::failure::Failure;
use crate::server::{ApiServer, Options, Parts};
pub use identity::Credentials;
use identity::Identities;

/// Who issues the tokens of service accounts.
const ISSUER: &str = "https://kubernetes.default.svc";

/// What an embedded server is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where everything is kept.
    pub directory: PathBuf,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Names and addresses its certificate answers for, besides loopback.
    pub names: Vec<String>,
    /// Keys that encrypt Secrets.
    pub encryption_keys: Option<PathBuf>,
    /// Static tokens, in Kubernetes' CSV form.
    pub token_file: Option<PathBuf>,
    /// Whether requests without credentials are let in, as nobody in particular.
    pub anonymous: bool,
    /// What `/readyz` waits for besides the server itself.
    pub readiness: Readiness,
    /// Bounds and choices.
    pub options: Options,
    /// How much of the past is kept, for watches and lists that go on from there.
    pub history: HistoryLimits,
}

impl Config {
    /// Everything at its default.
    pub fn new(directory: impl Into<PathBuf>, listen: SocketAddr) -> Self {
        Self {
            directory: directory.into(),
            listen,
            names: Vec::new(),
            encryption_keys: None,
            token_file: None,
            anonymous: false,
            readiness: Readiness::new(),
            options: Options::default(),
            history: HistoryLimits::default(),
        }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data file.
    #[error(transparent)]
    Store(#[from] thane_kv::Error),
    /// Making or reading certificates.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// Certificate files.
    #[error(transparent)]
    PkiFile(#[from] pki::store::Error),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// The port.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The encryption keys.
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    /// The token file.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// Another file.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The key of service-account tokens.
    #[error("service account key: {0}")]
    Key(String),
    /// The first objects could not be written.
    #[error("initial objects: {0}")]
    Seed(Failure),
}

/// A running server.
pub struct Embedded {
    /// The server.
    pub server: ApiServer,
    /// Where it listens.
    pub address: SocketAddr,
    /// How the administrator reaches it; changes when certificates are renewed.
    pub credentials: watch::Receiver<Credentials>,
    store: Arc<RedbStore>,
}

impl Embedded {
    /// Opens the directory, creating what is missing, and serves. It answers requests when this returns.
    pub async fn start(
        config: Config,
        clock: SharedClock,
        network: &SharedNetwork,
        tasks: &Tasks,
    ) -> Result<Self, Error> {
        pki::store::create_directory(&config.directory)?;
        let store = RedbOptions { history: config.history.clone(), ..RedbOptions::default() };
        let store = RedbStore::open(config.directory.join("data.redb"), store)?;
        let stores = tasks.child("store");
        let condition = config.readiness.condition("store");
        stores.spawn_essential("writer", attend(store.stopped(), condition, stores.token()));
        let identities = Identities::open(config.directory.join("pki"), &config.names)?;
        let current = identities.refresh(clock.now())?;
        let listener = network.bind(config.listen).await?;
        let address = listener.local_addr();
        let mut options = config.options.clone();
        options.address = address.to_string();
        options.ca_pem.clone_from(&current.credentials.ca_pem);
        let (audit, writer) = AuditLog::new(AuditFile::new(config.directory.join("audit.log")));
        let parts = Parts {
            store: Arc::clone(&store) as Arc<dyn Store>,
            clock: Arc::clone(&clock),
            authenticator: authenticator(&config, &identities)?,
            encryption: encryption(config.encryption_keys.as_deref())?,
            audit: Some(audit),
            readiness: config.readiness.clone(),
            options,
        };
        // The first group is the last to stop, when nobody writes any more.
        let audits = tasks.child("audit");
        audits.spawn("writer", writer.run(audits.token()));
        let server = ApiServer::start(parts, &tasks.child("controllers")).await.map_err(Error::Seed)?;
        let edges = tasks.child("edge");
        let edge = Edge { tls: listener_tls(&identities, &edges)?, clock: Arc::clone(&clock) };
        edges.spawn_essential("listener", edge::serve(server.clone(), listener, edge, edges.child("connections")));
        let (sender, credentials) = watch::channel(current.credentials);
        let renewals = tasks.child("renewal");
        let renewal = renewal::run(identities, current.renewal_at, sender, clock, renewals.clone());
        renewals.spawn("certificates", renewal);
        renewals.spawn("authority", follow(server.clone(), credentials.clone()));
        Ok(Self { server, address, credentials, store })
    }

    /// Makes its counts visible, and those of its store.
    pub fn register(&self, registry: &mut Registry) {
        self.server.register(registry);
        self.store.metrics().register(registry);
    }

    /// Forgets history up to a resource version; the present state stays.
    pub async fn compact(&self, version: u64) -> Result<(), Error> {
        self.store.compact(version).await?;
        Ok(())
    }

    /// Finishes what was accepted and closes the file. Call it when the tasks have stopped.
    pub async fn close(&self) -> Result<(), Error> {
        self.store.close().await.map_err(Error::Store)
    }

    /// Where clients on this machine find it.
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        format!("https://{address}")
    }
}

/// Says that the server is not ready once its store has failed, and ends the process: nothing can be written any more,
/// and only opening the file again shows what of it is sound.
async fn attend(
    stopped: impl Future<Output = Result<(), Stopped>>,
    condition: Condition,
    stop: CancellationToken,
) -> Result<(), Stopped> {
    condition.holds();
    tokio::select! {
        () = stop.cancelled() => Ok(()),
        ended = stopped => match ended {
            Err(failure) => {
                condition.fails(failure.to_string());
                Err(failure)
            }
            // Closed by whoever has the server, who stops it, too.
            Ok(()) => {
                stop.cancelled().await;
                Ok(())
            }
        },
    }
}

/// Tells the server of each new certificate authority, for as long as certificates are renewed.
async fn follow(server: ApiServer, mut credentials: watch::Receiver<Credentials>) {
    while credentials.changed().await.is_ok() {
        let ca_pem = credentials.borrow_and_update().ca_pem.clone();
        server.set_authority(&ca_pem);
    }
}

/// TLS that follows its files, with clients asked for a certificate and judged request by request.
fn listener_tls(identities: &Identities, tasks: &Tasks) -> Result<ServerTls, Error> {
    let paths = identities.server();
    let files = ServerFiles { cert: paths.cert, key: paths.key, client_ca: Some(identities.ca().cert) };
    let options = ServerOptions {
        versions: Versions::Tls12AndTls13,
        client_auth: ClientAuth::Asked,
        protocols: vec!["h2", "http/1.1"],
    };
    Ok(ServerTls::from_files(files, options, tasks)?.0)
}

fn authenticator(config: &Config, identities: &Identities) -> Result<Authenticator, Error> {
    let issuer = TokenIssuer::new(ISSUER, &[ISSUER.to_owned()], &identities.token_key()?, &[])
        .map_err(|error| Error::Key(error.to_string()))?;
    let token_file = match &config.token_file {
        Some(path) => Some(TokenFile::parse(&read(path)?)?),
        None => None,
    };
    Ok(Authenticator { token_file, issuer: Some(issuer), anonymous: config.anonymous })
}

fn encryption(keys: Option<&Path>) -> Result<Encryption, Error> {
    match keys {
        Some(path) => Ok(Encryption::parse(&read(path)?)?),
        None => Ok(Encryption::default()),
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_whose_store_failed_is_not_ready_and_ends() {
        let (tasks, mut supervisor) = Tasks::root("test");
        let readiness = Readiness::new();
        let (fail, failed) = tokio::sync::oneshot::channel::<()>();
        let stopped = async {
            let _ = failed.await;
            Err(Stopped { path: "data.redb".into(), reason: thane_kv::Error::Storage("disk full".into()) })
        };
        tasks.spawn_essential("writer", attend(stopped, readiness.condition("store"), tasks.token()));
        readiness.ready().await;
        fail.send(()).unwrap();
        let failure = supervisor.essential_failed().await.unwrap();
        let why = "the store data.redb stopped: storage failed: disk full";
        assert_eq!(failure.to_string(), format!("task test/writer failed: {why}"));
        assert_eq!(readiness.report(), format!("[-]store failed: {why}\n"));
    }
}
