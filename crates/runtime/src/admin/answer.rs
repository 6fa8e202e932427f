//! Which answer a request gets.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde::Serialize;

use super::Admin;
use crate::metrics;
use crate::readiness::Readiness;

/// The only body anyone sends is a list of levels.
const BODY_BYTES_MAX: usize = 4096;
const TEXT: &str = "text/plain; charset=utf-8";

pub(super) async fn answer(admin: &Admin, request: Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
    let inside = request.uri().path().starts_with("/debug/");
    if inside && !is_local_caller(request.headers(), peer.ip()) {
        return text(StatusCode::FORBIDDEN, "this is answered on the machine itself only\n");
    }
    let method = request.method().clone();
    match (request.uri().path(), &method) {
        ("/debug/log", &Method::PUT) => change_levels(admin, request).await,
        ("/debug/log", &Method::GET) => text(StatusCode::OK, format!("{}\n", admin.levels.current())),
        ("/debug/log", _) => not_allowed("GET, PUT"),
        (path, &Method::GET) => show(admin, path),
        _ => not_allowed("GET"),
    }
}

fn show(admin: &Admin, path: &str) -> Response<Full<Bytes>> {
    match path {
        "/livez" => text(StatusCode::OK, "ok\n"),
        "/readyz" => conditions(&admin.readiness),
        "/healthz" => conditions(&admin.health),
        "/" | "/metrics" => match metrics::encode(&admin.registry) {
            Ok(metrics) => with_type(StatusCode::OK, metrics::CONTENT_TYPE, metrics),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "metrics could not be written\n"),
        },
        "/debug/tasks" => json(&admin.tasks.running()),
        "/debug/config" => json(&admin.config),
        _ => text(StatusCode::NOT_FOUND, "not found\n"),
    }
}

fn conditions(conditions: &Readiness) -> Response<Full<Bytes>> {
    if conditions.is_ready() {
        return text(StatusCode::OK, "ok\n");
    }
    text(StatusCode::SERVICE_UNAVAILABLE, conditions.report())
}

async fn change_levels(admin: &Admin, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let Ok(body) = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "too long for a log level\n");
    };
    let Ok(levels) = String::from_utf8(body.to_bytes().to_vec()) else {
        return text(StatusCode::BAD_REQUEST, "not UTF-8\n");
    };
    match admin.levels.change(&levels) {
        Ok(()) => {
            tracing::info!(levels = levels.trim(), "log levels changed");
            text(StatusCode::OK, format!("{}\n", admin.levels.current()))
        }
        Err(error) => text(StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}

/// A caller on this machine that is not a web page: a page's requests carry its own host or origin.
pub fn is_local_caller(headers: &HeaderMap, peer: IpAddr) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    peer.to_canonical().is_loopback() && is_loopback_host(host) && !headers.contains_key(ORIGIN)
}

fn is_loopback_host(host: &str) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())).map_or(host, |h| h.0);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    with_type(status, TEXT, body)
}

fn json<T: Serialize>(value: &T) -> Response<Full<Bytes>> {
    match serde_json::to_vec_pretty(value) {
        Ok(body) => with_type(StatusCode::OK, "application/json", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn not_allowed(allowed: &'static str) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
    response.headers_mut().insert(ALLOW, http::HeaderValue::from_static(allowed));
    response
}

fn with_type(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_hosts_count() {
        for host in ["localhost", "localhost:8000", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "[::1]"] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in ["", "example.com", "localhost.example.com", "127.0.0.1.nip.io:80", "10.0.0.1", "[::2]:1"] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
