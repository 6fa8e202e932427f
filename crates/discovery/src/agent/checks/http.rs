//! A check asked over HTTP: 2xx passes, 429 warns, anything else is critical.

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, HOST, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::machine::{OUTPUT_MAX, Observation};
use super::{Tools, chain};
use crate::agent::dial::{self, BoxError};
use crate::model::{CheckDefinition, Status};

pub(super) async fn ask(tools: &Tools, definition: &CheckDefinition) -> Observation {
    let method = if definition.method.is_empty() { "GET" } else { &definition.method };
    match exchange(tools, definition, method).await {
        Ok((status, body)) => {
            let verdict = match status {
                status if status.is_success() => Status::Passing,
                StatusCode::TOO_MANY_REQUESTS => Status::Warning,
                _ => Status::Critical,
            };
            let body = String::from_utf8_lossy(&body);
            Observation::new(verdict, format!("HTTP {method} {}: {status} Output: {body}", definition.http))
        }
        Err(error) => Observation::new(Status::Critical, format!("{method} {}: {}", definition.http, chain(&*error))),
    }
}

async fn exchange(
    tools: &Tools,
    definition: &CheckDefinition,
    method: &str,
) -> Result<(StatusCode, Vec<u8>), BoxError> {
    let uri: Uri = definition.http.parse()?;
    let is_tls = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err("only http and https are spoken".into()),
    };
    let host = uri.host().ok_or("no host")?;
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let mut stream = tools.network.connect(host.trim_matches(['[', ']']), port).await?;
    if is_tls {
        let name = if definition.tls_server_name.is_empty() { host } else { &definition.tls_server_name };
        stream = dial::tls(stream, name, &tools.trust.config(definition.tls_skip_verify)?, b"http/1.1").await?;
    }
    let request = request(definition, method, &uri)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let mut body = response.into_body();
        let mut kept = Vec::new();
        // What is not kept is not read either: the connection is dropped.
        while kept.len() < OUTPUT_MAX
            && let Some(frame) = body.frame().await
        {
            if let Ok(data) = frame?.into_data() {
                let room = OUTPUT_MAX - kept.len();
                kept.extend_from_slice(&data[..data.len().min(room)]);
            }
        }
        Ok((status, kept))
    };
    tokio::pin!(exchange);
    tokio::select! {
        exchanged = &mut exchange => exchanged,
        _ = connection => exchange.await,
    }
}

fn request(definition: &CheckDefinition, method: &str, uri: &Uri) -> Result<Request<Full<Bytes>>, BoxError> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(Full::new(Bytes::from(definition.body.clone())));
    *request.method_mut() = Method::from_bytes(method.as_bytes())?;
    *request.uri_mut() = path.parse()?;
    let authority = uri.authority().ok_or("no host")?.as_str();
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::from_str(authority.rsplit('@').next().unwrap_or(authority))?);
    headers.insert(USER_AGENT, HeaderValue::from_static("Consul Health Check"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/plain, text/*, */*"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    for (name, values) in &definition.header {
        let name = HeaderName::from_bytes(name.as_bytes())?;
        headers.remove(&name);
        for value in values {
            headers.append(name.clone(), HeaderValue::from_str(value)?);
        }
    }
    Ok(request)
}
