//! Signatures of requests, version 4.

use std::fmt::Write;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// Who asks.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) access: String,
    pub(super) secret: String,
    pub(super) session: Option<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("access", &self.access).finish_non_exhaustive()
    }
}

/// What is signed.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    /// Encoded already.
    pub(super) path: &'a str,
    /// Names and values as they are, in any order.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// Hexadecimal SHA-256 of the body.
    pub(super) payload: &'a str,
}

/// The headers that make a request somebody's.
pub(super) fn headers(
    request: &Request<'_>,
    credentials: &Credentials,
    region: &str,
    now: Timestamp,
) -> Vec<(&'static str, String)> {
    let stamp = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = stamp.get(..8).unwrap_or_default();
    let mut signed = vec![
        ("host", request.host.to_owned()),
        ("x-amz-content-sha256", request.payload.to_owned()),
        ("x-amz-date", stamp.clone()),
    ];
    if let Some(session) = &credentials.session {
        signed.push(("x-amz-security-token", session.clone()));
    }
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, query(request.query));
    for (name, value) in &signed {
        let _ = writeln!(canonical, "{name}:{}", value.trim());
    }
    let _ = write!(canonical, "\n{names}\n{}", request.payload);
    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = hmac(format!("AWS4{}", credentials.secret).as_bytes(), day.as_bytes());
    for part in [region, "s3", "aws4_request"] {
        key = hmac(&key, part.as_bytes());
    }
    let signature = hex(&hmac(&key, text.as_bytes()));
    let access = &credentials.access;
    let value = format!("AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}");
    signed.push(("authorization", value));
    signed
}

/// A query in the form that is signed, which is also the one that is sent.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let mut encoded: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", self::encoded(name, false), self::encoded(value, false)))
        .collect();
    encoded.sort();
    encoded.join("&")
}

/// Text with everything quoted that is not plain; slashes may stay.
pub(crate) fn encoded(text: &str, slashes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (slashes && byte == b'/') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_standard() {
        // RFC 4231, cases 1, 2 and 6.
        let cases: [(&[u8], &[u8], &str); 3] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, message, expected) in cases {
            assert_eq!(hex(&hmac(key, message)), expected);
        }
    }

    #[test]
    fn a_documented_request_has_its_documented_signature() {
        let credentials = Credentials {
            access: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session: None,
        };
        let empty = hex(&Sha256::digest(b""));
        let request = Request {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            path: "/",
            query: &[("prefix", "J"), ("max-keys", "2")],
            payload: &empty,
        };
        let now: Timestamp = "2013-05-24T00:00:00Z".parse().unwrap();
        let headers = headers(&request, &credentials, "us-east-1", now);
        let (_, value) = headers.iter().find(|(name, _)| *name == "authorization").unwrap();
        let signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        assert!(value.ends_with(signature), "{value}");
        assert_eq!(encoded("a b/ü+", true), "a%20b/%C3%BC%2B");
        assert!(!format!("{credentials:?}").contains("wJal"));
    }
}
