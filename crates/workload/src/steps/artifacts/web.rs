//! One request to one server, over TLS where the address says so.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use thane_runtime::net::{BoxIo, Connector, Tcp};
use thane_runtime::tls::{ClientOptions, ClientTls};
use tokio::io::AsyncWriteExt;

use super::{Error, Result};

/// How long a server may take to be reached.
const CONNECT: Duration = Duration::from_secs(15);
/// How long it may take to begin an answer, and between two pieces of one.
const ANSWER: Duration = Duration::from_mins(5);
/// An answer that is read as text.
const TEXT_MAX: usize = 8 * 1024 * 1024;
/// Where systems keep the authorities they trust.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
];

/// Whom to trust.
#[derive(Debug, Clone, Default)]
pub(super) struct Trust {
    /// Authorities, in place of the machine's.
    pub(super) authorities: Option<String>,
}

/// Sends a request; the answer's body is still to be read.
pub(super) async fn send(mut request: Request<Full<Bytes>>, trust: &Trust) -> Result<Response<Incoming>> {
    let uri = request.uri().clone();
    let (host, port, is_secure) = server(&uri)?;
    let shown = format!("{host}:{port}");
    let connected = tokio::time::timeout(CONNECT, connect(&host, port, is_secure, trust)).await;
    let stream = connected.map_err(|_| Error::Failed(format!("{shown} cannot be reached: no answer")))??;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|error| Error::failed(path, error))?;
    let failed = |error: hyper::Error| Error::failed(&shown, error);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // It ends with the connection, which ends with the answer.
    #[expect(
        clippy::disallowed_methods,
        reason = "the program ends with its one task; there is no shutdown to wait for"
    )]
    tokio::spawn(connection);
    let answered = tokio::time::timeout(ANSWER, sender.send_request(request)).await;
    answered.map_err(|_| Error::Failed(format!("{shown} does not answer")))?.map_err(failed)
}

fn server(uri: &Uri) -> Result<(String, u16, bool)> {
    let is_secure = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(Error::Failed(format!("{uri} is neither http nor https"))),
    };
    let host = uri.host().ok_or_else(|| Error::Failed(format!("{uri} names no server")))?;
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    Ok((host.trim_matches(['[', ']']).to_owned(), port, is_secure))
}

async fn connect(host: &str, port: u16, is_secure: bool, trust: &Trust) -> Result<BoxIo> {
    let failed = |error: std::io::Error| Error::Failed(format!("{host}:{port} cannot be reached: {error}"));
    let stream = Tcp.connect(host, port).await.map_err(failed)?;
    if !is_secure {
        return Ok(stream);
    }
    let authorities = match &trust.authorities {
        Some(text) => text.clone(),
        None => system()?,
    };
    let tls = ClientTls::from_pem(&authorities, None, &ClientOptions::default())
        .map_err(|error| Error::failed("certificates of authorities", error))?;
    let name = rustls::pki_types::ServerName::try_from(host.to_owned()).map_err(|error| Error::failed(host, error))?;
    let stream = tls.connector().connect(name, stream).await.map_err(failed)?;
    Ok(Box::new(stream))
}

fn system() -> Result<String> {
    let given = std::env::var("SSL_CERT_FILE").ok();
    let paths = given.iter().map(String::as_str).chain(AUTHORITIES);
    let found = paths.map(Path::new).find_map(|path| std::fs::read_to_string(path).ok());
    found.ok_or_else(|| Error::Failed("no certificates of authorities are here; name some in caSecret".to_owned()))
}

/// The whole body of an answer that is text.
pub(super) async fn text(answer: Response<Incoming>) -> Result<String> {
    let mut body = answer.into_body();
    let mut text = Vec::new();
    while let Some(piece) = piece(&mut body).await? {
        if text.len() + piece.len() > TEXT_MAX {
            return Err(Error::Failed("the answer is too long".to_owned()));
        }
        text.extend_from_slice(&piece);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Writes the body of an answer to a file.
pub(super) async fn to_file(answer: Response<Incoming>, to: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Error::Failed(format!("{}: {error}", to.display()));
    let mut body = answer.into_body();
    let mut file = tokio::fs::File::create(to).await.map_err(failed)?;
    while let Some(piece) = piece(&mut body).await? {
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)
}

async fn piece(body: &mut Incoming) -> Result<Option<Bytes>> {
    loop {
        let frame = tokio::time::timeout(ANSWER, body.frame()).await;
        match frame.map_err(|_| Error::Failed("the answer does not go on".to_owned()))? {
            None => return Ok(None),
            Some(Err(error)) => return Err(Error::failed("the answer broke off", error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}
