//! Probes by HTTP and HTTPS.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::HTTPGetAction;
use thane_runtime::net::BoxIo;
use thane_runtime::tls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{Subject, address};

/// Asks an HTTP server in the pod; 200 to 399 is good.
pub(crate) async fn get(subject: &Subject, action: &HTTPGetAction) -> Result<(), String> {
    let address = address(subject, action.host.as_deref(), &action.port)?;
    let path = action.path.as_deref().unwrap_or("/");
    let is_tls = action.scheme.as_deref() == Some("HTTPS");
    let request = request(action, path, address)?;
    let exchange = async {
        let mut stream = connect(subject, address, is_tls).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(64).read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let scheme = if is_tls { "https" } else { "http" };
    let answer = exchange.await.map_err(|error| format!("Get \"{scheme}://{address}{path}\": {error}"))?;
    match status(&answer) {
        Some(code) if (200..400).contains(&code) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err("the answer is not HTTP".to_owned()),
    }
}

/// Over TLS whoever answers is believed, as kubelets do: it is asked whether it lives, not who it is.
async fn connect(subject: &Subject, address: SocketAddr, is_tls: bool) -> std::io::Result<BoxIo> {
    let stream = subject.network.connect(address).await?;
    if !is_tls {
        return Ok(Box::new(stream));
    }
    let config = tls::unverified_client().map_err(std::io::Error::other)?;
    let name = ServerName::IpAddress(address.ip().into());
    Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
}

fn request(action: &HTTPGetAction, path: &str, address: SocketAddr) -> Result<String, String> {
    let own = action.http_headers.iter().flatten();
    let mut headers: Vec<(&str, &str)> = own.map(|header| (header.name.as_str(), header.value.as_str())).collect();
    let host = address.to_string();
    for (name, value) in [("Host", host.as_str()), ("User-Agent", "kube-probe/1.34"), ("Connection", "close")] {
        if !headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            headers.push((name, value));
        }
    }
    if path.contains(['\r', '\n', ' '])
        || headers.iter().any(|(name, value)| name.contains(['\r', '\n']) || value.contains(['\r', '\n']))
    {
        return Err("the path or a header holds the end of a line".to_owned());
    }
    let mut request = format!("GET {path} HTTP/1.1\r\n");
    for (name, value) in headers {
        request.extend([name, ": ", value, "\r\n"]);
    }
    request.push_str("\r\n");
    Ok(request)
}

fn status(answer: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(answer.get(..12)?).ok()?;
    text.strip_prefix("HTTP/1.")?.get(2..)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read() {
        for (answer, expected) in [
            (&b"HTTP/1.1 204 No Content\r\n"[..], Some(204)),
            (b"HTTP/1.0 500 Oh", Some(500)),
            (b"HTTP/1.1 xyz", None),
            (b"ssh", None),
        ] {
            assert_eq!(status(answer), expected);
        }
    }

    #[test]
    fn requests_say_what_the_pod_says() {
        let action: HTTPGetAction = serde_json::from_value(json!({
            "port": 80, "httpHeaders": [{"name": "host", "value": "web"}, {"name": "X", "value": "1"}],
        }))
        .unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], 80));
        let expected =
            "GET /a HTTP/1.1\r\nhost: web\r\nX: 1\r\nUser-Agent: kube-probe/1.34\r\nConnection: close\r\n\r\n";
        assert_eq!(request(&action, "/a", to).unwrap(), expected);
        assert!(request(&action, "/a\r\nY: 2", to).is_err());
    }
}
