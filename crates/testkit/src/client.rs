//! A plain HTTP client, with or without TLS: what is sent is what was asked for, what is read is what was answered.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thane_runtime::net::BoxIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::endpoint::Endpoint;

/// Idle connections kept for later requests.
const IDLE_LIMIT: usize = 128;
/// The longest an ordinary exchange may take.
const EXCHANGE_LIMIT: Duration = Duration::from_mins(1);

type Sender = SendRequest<Full<Bytes>>;

/// A complete answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// All headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// HTTP/1.1, over TLS unless made plain, with kept-alive connections; cheap to clone.
#[derive(Clone)]
pub struct HttpsClient {
    shared: Arc<Shared>,
}

struct Shared {
    address: String,
    connector: Option<TlsConnector>,
    idle: Mutex<Vec<Sender>>,
}

impl HttpsClient {
    /// Prepares a client; nothing is connected yet.
    pub fn new(endpoint: &Endpoint) -> Result<Self> {
        let config = tls_config(endpoint)?;
        Ok(Self::over(endpoint.address.clone(), Some(TlsConnector::from(Arc::new(config)))))
    }

    /// A client of `host:port` that speaks no TLS.
    pub fn plain(address: impl Into<String>) -> Self {
        Self::over(address.into(), None)
    }

    fn over(address: String, connector: Option<TlsConnector>) -> Self {
        Self { shared: Arc::new(Shared { address, connector, idle: Mutex::default() }) }
    }

    /// `host:port` of the server.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Sends a request and reads the whole answer, within a minute.
    pub async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer> {
        tokio::time::timeout(EXCHANGE_LIMIT, self.exchange_unbounded(request))
            .await
            .map_err(|_| anyhow!("no answer within {EXCHANGE_LIMIT:?}"))?
    }

    async fn exchange_unbounded(&self, request: Request<Full<Bytes>>) -> Result<Answer> {
        let mut sender = self.sender().await?;
        let response = sender.send_request(request).await.context("sending the request")?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.context("reading the answer")?.to_bytes();
        if sender.ready().await.is_ok() {
            let mut idle = self.shared.idle.lock();
            if idle.len() < IDLE_LIMIT {
                idle.push(sender);
            }
        }
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }

    /// Sends a request on a connection of its own and hands the body over as it comes, for watches.
    pub async fn stream(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        let mut sender = self.connect().await?;
        sender.send_request(request).await.context("sending the request")
    }

    async fn sender(&self) -> Result<Sender> {
        loop {
            let Some(sender) = self.shared.idle.lock().pop() else { break };
            if sender.is_ready() {
                return Ok(sender);
            }
        }
        self.connect().await
    }

    #[expect(clippy::disallowed_methods, reason = "a connection's driver ends with its connection, in tests only")]
    async fn connect(&self) -> Result<Sender> {
        let address = &self.shared.address;
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_owned();
        let tcp = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        tcp.set_nodelay(true)?;
        let stream: BoxIo = match &self.shared.connector {
            Some(connector) => Box::new(connector.connect(ServerName::try_from(host)?, tcp).await?),
            None => Box::new(tcp),
        };
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

fn tls_config(endpoint: &Endpoint) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(endpoint.ca.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match &endpoint.client {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<_, _>>()?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?)?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
