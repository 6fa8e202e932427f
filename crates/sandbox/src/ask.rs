//! One question to a sidecar: what goes on in a sandbox.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::Uri;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use thane_api::wire::sandbox::sandbox_service_client::SandboxServiceClient;
use thane_api::wire::sandbox::{DescribeRequest, Description};
use thane_runtime::net::{Connector, Tcp};
use thane_runtime::tls::ClientTls;
use tokio_rustls::TlsConnector;
use tonic::body::Body;

use crate::names::{SIDECAR_NAME, SIDECAR_PORT};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the sidecar at an address; the reason if there is no answer.
pub(crate) type Ask = Arc<dyn Fn(String) -> BoxFuture<'static, Result<Description, String>> + Send + Sync>;

/// Asks with these certificates.
pub(crate) fn with(tls: ClientTls) -> Ask {
    Arc::new(move |ip| {
        let tls = tls.clone();
        Box::pin(async move {
            let asked = tokio::time::timeout(PATIENCE, describe(&ip, &tls)).await;
            asked.unwrap_or_else(|_| Err(format!("{ip} does not answer")))
        })
    })
}

async fn describe(ip: &str, tls: &ClientTls) -> Result<Description, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{ip}: {error}");
    let stream = Tcp.connect(ip, SIDECAR_PORT).await.map_err(|error| failed(&error))?;
    let mut config = tls.config().as_ref().clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(SIDECAR_NAME).map_err(|error| failed(&error))?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| failed(&error))?;
    let handshake = http2::Builder::new(TokioExecutor::new()).handshake::<_, Body>(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| failed(&error))?;
    let service = tower::service_fn(move |request| {
        let mut sender = sender.clone();
        async move { sender.send_request(request).await.map(|answer: http::Response<_>| answer.map(Body::new)) }
    });
    // HTTP/2 wants to be told; every sidecar answers to it.
    let mut client = SandboxServiceClient::with_origin(service, Uri::from_static("https://sidecar.thane.dev"));
    tokio::select! {
        answer = client.describe(DescribeRequest {}) => {
            answer.map(tonic::Response::into_inner).map_err(|status| failed(&status.message()))
        }
        ended = connection => Err(ended.map_or_else(|error| failed(&error), |()| failed(&"the connection ended"))),
    }
}
