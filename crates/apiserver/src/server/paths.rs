//! Paths that are no resources: health, version, discovery, `OpenAPI`, keys.

use std::sync::Arc;

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::request::Parts;
use http::{Method, StatusCode};

use super::{Inner, documents};
use crate::authn::{JWKS_PATH, OPENID_CONFIGURATION_PATH, openid_configuration};
use crate::discovery;
use crate::failure::{Failure, Result};
use crate::go;
use crate::media::{Accepted, Encoding};
use crate::request::RequestInfo;
use crate::response::{self, Answer};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub(super) async fn answer(server: &Arc<Inner>, info: &RequestInfo, request: &Parts) -> Result<Answer> {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return Err(Failure::method_not_allowed());
    }
    let accepted = Accepted::negotiate(&request.headers).unwrap_or_default();
    let types = server.catalog.types();
    let parts: Vec<&str> = info.path.split('/').filter(|part| !part.is_empty()).collect();
    let json = |value: serde_json::Value| response::value(200, &value, Encoding::Json);
    Ok(match parts.as_slice() {
        [] => json(discovery::paths(&types)),
        ["healthz" | "livez"] | ["healthz" | "livez" | "readyz", "ping"] => response::text(200, "ok"),
        ["readyz"] => readyz(server, request.uri.query()),
        ["readyz", check] => one_check(server, check),
        ["version"] => json(discovery::version()),
        ["api" | "apis"] if accepted.aggregated_discovery => {
            tagged(&discovery::aggregated(&types, parts[0] == "api").to_string(), request)
        }
        ["api"] => json(discovery::core_versions(&server.options.address)),
        ["apis"] => json(discovery::group_list(&types)),
        ["apis", group] => discovery::group(&types, group).map_or_else(not_found, json),
        ["api", version] => json(discovery::resource_list(&types, "", version).ok_or_else(Failure::no_such_path)?),
        ["apis", group, version] => discovery::resource_list(&types, group, version).map_or_else(not_found, json),
        ["openapi", "v2"] => legacy(request),
        ["openapi", "v3"] => response::text(200, documents::index(&types)),
        ["openapi", "v3", "api", version] => openapi(server, "", version).await?,
        ["openapi", "v3", "apis", group, version] => openapi(server, group, version).await?,
        _ => keys(server, &info.path).unwrap_or_else(not_found),
    })
}

fn not_found() -> Answer {
    response::text(404, "404 page not found\n")
}

/// A server that stops is not ready either, so that nobody is sent to it.
fn readyz(server: &Inner, query: Option<&str>) -> Answer {
    if server.stopping.is_cancelled() {
        return response::text(500, "[-]shutdown failed: stopping\nreadyz check failed\n");
    }
    let report = server.readiness.report();
    let verbose = query.is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("verbose")));
    match (server.readiness.is_ready(), verbose) {
        (true, false) => response::text(200, "ok"),
        (true, true) => response::text(200, format!("{report}readyz check passed\n")),
        (false, _) => response::text(500, format!("{report}readyz check failed\n")),
    }
}

/// One of the conditions of being ready.
fn one_check(server: &Inner, name: &str) -> Answer {
    match server.readiness.of(name) {
        None => not_found(),
        Some(Ok(())) => response::text(200, "ok"),
        Some(Err(reason)) => response::text(500, format!("internal server error: {reason}\n")),
    }
}

/// Clients keep discovery on disk and ask only whether it changed.
fn tagged(body: &str, request: &Parts) -> Answer {
    use sha2::Digest;
    let digest = sha2::Sha512::digest(body);
    let tag = format!("\"{}\"", go::hex(&digest).to_uppercase());
    let mut answer = response::json_bytes(200, body.to_owned());
    let known = request.headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == tag.as_bytes());
    if known {
        answer = response::json_bytes(200, "");
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(value) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, value);
    }
    answer
}

fn legacy(request: &Parts) -> Answer {
    let wanted = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let protobuf = wanted.contains("proto-openapi");
    let mut answer = response::json_bytes(200, crate::openapi::legacy(protobuf));
    if protobuf {
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(crate::openapi::LEGACY_PROTOBUF));
    }
    answer
}

async fn openapi(server: &Arc<Inner>, group: &str, version: &str) -> Result<Answer> {
    let document = documents::document(server, group, version).await?;
    Ok(document.map_or_else(not_found, |bytes| response::json_bytes(200, bytes)))
}

fn keys(server: &Inner, path: &str) -> Option<Answer> {
    let issuer = server.authenticator.issuer.as_ref()?;
    match path {
        JWKS_PATH => Some(response::value(200, &issuer.jwks(), Encoding::Json)),
        OPENID_CONFIGURATION_PATH => {
            let keys = format!("https://{}{JWKS_PATH}", server.options.address);
            Some(response::value(200, &openid_configuration(issuer.issuer(), &keys), Encoding::Json))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Request;
    use http_body_util::{BodyExt, Empty};
    use thane_kv::{MemoryOptions, MemoryStore};
    use thane_runtime::readiness::Readiness;
    use thane_runtime::{SystemClock, Tasks};

    use crate::authn::Authenticator;
    use crate::authz::{MASTERS, User};
    use crate::encryption::Encryption;
    use crate::server::{ApiServer, Options, Origin, Parts};

    async fn get(server: &ApiServer, path: &str) -> (u16, String) {
        let user = User { groups: vec![MASTERS.to_owned()], ..User::default() };
        let request = Request::get(path).extension(Origin::Process(Arc::new(user)));
        let answer = server.handle(request.body(Empty::new()).unwrap()).await;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readyz_waits_for_everybody() {
        let readiness = Readiness::new();
        let endpoints = readiness.condition("endpoints");
        let server = ApiServer::new(
            Parts {
                store: MemoryStore::new(MemoryOptions::default()),
                clock: SystemClock::shared(),
                authenticator: Authenticator { token_file: None, issuer: None, anonymous: false },
                encryption: Encryption::default(),
                audit: None,
                readiness,
                options: Options::default(),
            },
            Tasks::root("test").0,
        );
        let waiting = "[-]endpoints failed: starting\nreadyz check failed\n".to_owned();
        assert_eq!(get(&server, "/readyz").await, (500, waiting));
        assert_eq!(get(&server, "/livez").await, (200, "ok".to_owned()));
        assert_eq!(get(&server, "/readyz/endpoints").await, (500, "internal server error: starting\n".to_owned()));
        for path in ["/livez/endpoints", "/healthz/other", "/readyz/other", "/readyz/ping/more"] {
            assert_eq!(get(&server, path).await.0, 404, "{path}");
        }
        for path in ["/livez/ping", "/healthz/ping", "/readyz/ping"] {
            assert_eq!(get(&server, path).await, (200, "ok".to_owned()), "{path}");
        }
        endpoints.holds();
        assert_eq!(get(&server, "/readyz/endpoints").await.0, 200);
        assert_eq!(get(&server, "/readyz").await, (200, "ok".to_owned()));
        let verbose = "[+]endpoints ok\nreadyz check passed\n".to_owned();
        assert_eq!(get(&server, "/readyz?verbose").await, (200, verbose));
        server.inner().stopping.cancel();
        assert_eq!(get(&server, "/readyz").await.0, 500);
    }
}
