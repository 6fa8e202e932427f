//! A check asked over HTTP: 2xx passes, 429 warns, anything else is critical. Who is sent elsewhere goes there, as Go's
//! client does: ten times at most, and with what a browser would bring along.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONNECTION, COOKIE, HOST, LOCATION, USER_AGENT, WWW_AUTHENTICATE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::machine::{OUTPUT_MAX, Observation};
use super::{Tools, chain};
use crate::agent::dial::{self, BoxError};
use crate::model::{CheckDefinition, Status};

/// Times that a request is sent elsewhere.
const REDIRECTS_MAX: usize = 10;

/// What is asked, and where.
struct Asked {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

/// What came back.
struct Told {
    status: StatusCode,
    location: Option<String>,
    body: Vec<u8>,
}

pub(super) async fn ask(tools: &Tools, definition: &CheckDefinition) -> Observation {
    let method = if definition.method.is_empty() { "GET" } else { &definition.method };
    match follow(tools, definition, method).await {
        Ok(told) => {
            let verdict = match told.status {
                status if status.is_success() => Status::Passing,
                StatusCode::TOO_MANY_REQUESTS => Status::Warning,
                _ => Status::Critical,
            };
            let body = String::from_utf8_lossy(&told.body);
            Observation::new(verdict, format!("HTTP {method} {}: {} Output: {body}", definition.http, told.status))
        }
        Err(error) => Observation::new(Status::Critical, format!("{method} {}: {}", definition.http, chain(&*error))),
    }
}

/// Asks, and goes where it is sent.
async fn follow(tools: &Tools, definition: &CheckDefinition, method: &str) -> Result<Told, BoxError> {
    let mut asked = Asked {
        method: Method::from_bytes(method.as_bytes())?,
        uri: definition.http.parse()?,
        headers: headers(definition)?,
        body: Bytes::from(definition.body.clone()),
    };
    let first = asked.uri.host().unwrap_or_default().to_owned();
    for _ in 0..=REDIRECTS_MAX {
        let told = exchange(tools, definition, &asked).await?;
        let elsewhere = told.location.as_deref().filter(|_| !definition.disable_redirects && is_redirect(told.status));
        let Some(location) = elsewhere else { return Ok(told) };
        asked.uri = resolved(&asked.uri, location)?;
        if !matches!(told.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
            asked.body = Bytes::new();
            if asked.method != Method::HEAD {
                asked.method = Method::GET;
            }
        }
        let host = asked.uri.host().unwrap_or_default();
        let is_below = host.strip_suffix(&first).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        asked.headers.remove(HOST);
        if !is_below {
            // What is a secret between two is not told to a third.
            for name in [AUTHORIZATION, WWW_AUTHENTICATE, COOKIE] {
                asked.headers.remove(name);
            }
        }
    }
    Err(format!("stopped after {REDIRECTS_MAX} redirects").into())
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Where a location leads from an address.
fn resolved(base: &Uri, location: &str) -> Result<Uri, BoxError> {
    let location = location.split('#').next().unwrap_or_default();
    if location.contains("://") {
        return Ok(location.parse()?);
    }
    let scheme = base.scheme_str().unwrap_or("http");
    if let Some(rest) = location.strip_prefix("//") {
        return Ok(format!("{scheme}://{rest}").parse()?);
    }
    let authority = base.authority().ok_or("no host")?;
    let path = base.path();
    let folder = &path[..=path.rfind('/').unwrap_or(0).min(path.len().saturating_sub(1))];
    let whole = match location.as_bytes().first() {
        None => base.path_and_query().map_or("/", PathAndQuery::as_str).to_owned(),
        Some(b'/') => location.to_owned(),
        Some(b'?') => format!("{path}{location}"),
        Some(_) => format!("{folder}{location}"),
    };
    let (path, query) = whole.split_once('?').map_or((whole.as_str(), None), |(path, query)| (path, Some(query)));
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').skip(1) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Ok(format!("{scheme}://{authority}/{}{query}", parts.join("/")).parse()?)
}

async fn exchange(tools: &Tools, definition: &CheckDefinition, asked: &Asked) -> Result<Told, BoxError> {
    let uri = &asked.uri;
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
    let request = request(asked)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut incoming = response.into_body();
        let mut body = Vec::new();
        // What is not kept is not read either: the connection is dropped.
        while body.len() < OUTPUT_MAX
            && let Some(frame) = incoming.frame().await
        {
            if let Ok(data) = frame?.into_data() {
                let room = OUTPUT_MAX - body.len();
                body.extend_from_slice(&data[..data.len().min(room)]);
            }
        }
        Ok(Told { status, location, body })
    };
    tokio::pin!(exchange);
    tokio::select! {
        exchanged = &mut exchange => exchanged,
        _ = connection => exchange.await,
    }
}

/// The headers of a check; its own count more than those every check has.
fn headers(definition: &CheckDefinition) -> Result<HeaderMap, BoxError> {
    let mut headers = HeaderMap::new();
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
    Ok(headers)
}

fn request(asked: &Asked) -> Result<Request<Full<Bytes>>, BoxError> {
    let mut request = Request::new(Full::new(asked.body.clone()));
    *request.method_mut() = asked.method.clone();
    *request.uri_mut() = asked.uri.path_and_query().map_or("/", PathAndQuery::as_str).parse()?;
    let authority = asked.uri.authority().ok_or("no host")?.as_str();
    let headers = request.headers_mut();
    headers.clone_from(&asked.headers);
    if !headers.contains_key(HOST) {
        headers.insert(HOST, HeaderValue::from_str(authority.rsplit('@').next().unwrap_or(authority))?);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_leads_somewhere_from_where_it_was_given() {
        let base: Uri = "http://web:81/a/b?x=1".parse().unwrap();
        for (location, expected) in [
            ("http://other/c", "http://other/c"),
            ("https://other", "https://other/"),
            ("//other:1/c?y", "http://other:1/c?y"),
            ("/c/d?y=2#part", "http://web:81/c/d?y=2"),
            ("c", "http://web:81/a/c"),
            ("../c", "http://web:81/c"),
            ("../../../c", "http://web:81/c"),
            ("./", "http://web:81/a/"),
            ("?y", "http://web:81/a/b?y"),
            ("", "http://web:81/a/b?x=1"),
        ] {
            assert_eq!(resolved(&base, location).unwrap().to_string(), expected, "{location}");
        }
        assert!(resolved(&base, "http://bad host/").is_err());
    }
}
