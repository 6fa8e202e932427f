//! Artifacts that are got from, and put to, an address.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::request::Builder;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use serde_json::Value;

use super::web::{self, Trust};
use super::{Error, Result, Stores};

/// How often a server may send us elsewhere.
const REDIRECTS_MAX: usize = 10;
/// What is put in one request.
const BODY_MAX: u64 = 512 * 1024 * 1024;

/// Brings what an address answers with.
pub(super) async fn load(http: &Value, stores: &Stores, to: &Path) -> Result<()> {
    let mut uri = address(http)?;
    let first = uri.authority().cloned();
    for _ in 0..=REDIRECTS_MAX {
        // Another server has no right to what was meant for the first.
        let secrets = Some(stores).filter(|_| uri.authority() == first.as_ref());
        let request = request(Method::GET, &uri, http, secrets, Bytes::new())?;
        let answer = web::send(request, &Trust::default()).await?;
        let status = answer.status();
        if status.is_redirection() {
            let next = answer.headers().get(http::header::LOCATION).and_then(|value| value.to_str().ok());
            let next = next.ok_or_else(|| Error::Failed(format!("{uri} leads nowhere")))?;
            uri = elsewhere(&uri, next)?;
        } else if status == StatusCode::NOT_FOUND {
            return Err(Error::Absent(format!("loading file from {uri} failed with reason: {status}")));
        } else if status.is_success() {
            return web::to_file(answer, to).await;
        } else {
            return Err(Error::Failed(format!("loading file from {uri} failed with reason: {status}")));
        }
    }
    Err(Error::Failed(format!("{uri} leads from one place to the next")))
}

/// Puts a file to an address.
pub(super) async fn save(http: &Value, stores: &Stores, from: &Path) -> Result<()> {
    let uri = address(http)?;
    let found = tokio::fs::metadata(from).await.map_err(|error| Error::file(from, &error))?;
    if !found.is_file() {
        return Err(Error::Failed("a directory can be put to an address only as an archive".to_owned()));
    }
    if found.len() > BODY_MAX {
        return Err(Error::Failed(format!("{} is larger than {BODY_MAX} bytes", from.display())));
    }
    let body = tokio::fs::read(from).await.map_err(|error| Error::file(from, &error))?;
    let answer = web::send(request(Method::PUT, &uri, http, Some(stores), body.into())?, &Trust::default()).await?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    Err(Error::Failed(format!("saving file {} to {uri} failed with reason: {status}", from.display())))
}

fn address(http: &Value) -> Result<Uri> {
    let text = http["url"].as_str().unwrap_or_default();
    text.parse().map_err(|error| Error::failed(format!("{text:?} is no address"), error))
}

/// Where a server sends us; a path stays with that server.
fn elsewhere(from: &Uri, to: &str) -> Result<Uri> {
    let wrong = |error: http::Error| Error::failed(format!("{to:?} is no address"), error);
    let to: Uri = to.parse().map_err(|error: http::uri::InvalidUri| wrong(error.into()))?;
    if to.scheme().is_some() {
        return Ok(to);
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = to.into_parts().path_and_query;
    Uri::from_parts(parts).map_err(|error| wrong(error.into()))
}

fn request(
    method: Method,
    uri: &Uri,
    http: &Value,
    secrets: Option<&Stores>,
    body: Bytes,
) -> Result<Request<Full<Bytes>>> {
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let host = host.rsplit('@').next().unwrap_or_default();
    let mut builder = Request::builder().method(method).uri(uri).header("Host", host).header("Accept", "*/*");
    if let Some(stores) = secrets {
        builder = credentials(builder, http, stores)?;
    }
    builder.body(Full::new(body)).map_err(|error| Error::failed("the request", error))
}

fn credentials(mut builder: Builder, http: &Value, stores: &Stores) -> Result<Builder> {
    for header in http["headers"].as_array().into_iter().flatten() {
        let (name, value) = (header["name"].as_str(), header["value"].as_str());
        builder = builder.header(name.unwrap_or_default(), value.unwrap_or_default());
    }
    let auth = &http["auth"];
    for kind in ["oauth2", "clientCert"] {
        if auth[kind].as_object().is_some_and(|fields| !fields.is_empty()) {
            return Err(Error::Failed(format!("http artifacts with auth.{kind} are not supported; basicAuth is")));
        }
    }
    let user = stores.secret(&auth["basicAuth"]["usernameSecret"])?;
    let password = stores.secret(&auth["basicAuth"]["passwordSecret"])?;
    if user.is_some() || password.is_some() {
        let pair = format!("{}:{}", user.unwrap_or_default().trim_end(), password.unwrap_or_default().trim_end());
        builder = builder.header("Authorization", format!("Basic {}", STANDARD.encode(pair)));
    }
    Ok(builder)
}
