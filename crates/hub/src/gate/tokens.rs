//! Tokens: JSON web tokens that agents show with every call.
//!
//! Only hubs with the same key ever check those, so they carry a MAC (HS512) whose key comes from the RSA key: a signature of
//! 4096 bits takes milliseconds, and a thousand agents that come back at once would wait for two each. Tokens for the
//! resource proxy outlive a hub and stay signed (RS512), as argocd-agent makes and expects them; signed ones of either
//! use are accepted, so that agents of a hub whose image was switched go on.

use std::fmt::Write as _;
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA512};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thane_api::event::Mode;

/// How long an access token is good for.
pub const ACCESS: Duration = Duration::from_mins(5);
/// How long a refresh token is good for.
pub const REFRESH: Duration = Duration::from_hours(24);
/// A refresh token with less left than this is replaced when it is used.
pub const ROTATE: Duration = Duration::from_mins(10);
/// How far clocks may be apart.
pub const LEEWAY: Duration = Duration::from_mins(1);

/// Headers of tokens that are signed, and of those with a MAC.
const SIGNED: &str = r#"{"alg":"RS512","typ":"JWT"}"#;
const MACED: &str = r#"{"alg":"HS512","typ":"JWT"}"#;
/// What the key for MACs is made for.
const PURPOSE: &[u8] = b"thane: tokens of agents, HS512";
const ISSUER: &str = "argocd-agent-server";
/// Longer texts are no token of ours.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
const PEM_WIDTH: usize = 64;

/// What a token may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Calls.
    Access,
    /// New access tokens.
    Refresh,
    /// The resource proxy: by Argo CD, in the name of an agent.
    ResourceProxy,
}

impl Audience {
    fn name(self) -> &'static str {
        match self {
            Self::Access => "argocd-agent-server-access",
            Self::Refresh => "argocd-agent-server-refresh",
            Self::ResourceProxy => "argocd-agent-server-resource-proxy",
        }
    }
}

/// Whom a token stands for; the JSON text in its subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The agent's name.
    #[serde(rename = "clientID")]
    pub agent: String,
    /// Its mode, in words.
    pub mode: String,
}

impl Subject {
    /// An agent in a mode.
    pub fn new(agent: impl Into<String>, mode: Mode) -> Self {
        Self { agent: agent.into(), mode: mode.to_string() }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<i64>,
    nbf: i64,
    iat: i64,
    jti: String,
}

/// Why a text is not a token that can be used now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is no token of ours for this use.
    #[error("the token is not valid")]
    Foreign,
    /// It was, until some time ago.
    #[error("the token has expired")]
    Expired,
    /// It will be, if the clock is right.
    #[error("the token is not valid yet")]
    Early,
    /// It stands for nobody.
    #[error("the token's subject is not readable")]
    Subject,
}

/// Why a key cannot sign tokens.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It is not an RSA key in a PKCS#8 PEM block.
    #[error("the key for tokens is not an RSA private key in PKCS#8 PEM: {0}")]
    Unreadable(String),
    /// No key could be made.
    #[error("make a key for tokens")]
    Generate,
    /// The key refused to sign.
    #[error("sign a token: {0}")]
    Sign(String),
}

/// Signs and verifies tokens.
pub struct Tokens {
    signing: KeyPair,
    verifying: DecodingKey,
    mac: hmac::Key,
    mac_verifying: DecodingKey,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

/// A new RSA key of 4096 bits as PKCS#8 PEM.
pub fn generate_key() -> Result<String, KeyError> {
    generate(KeySize::Rsa4096)
}

/// A new RSA key of 2048 bits, which is made faster: for trying things out.
pub fn generate_short_key() -> Result<String, KeyError> {
    generate(KeySize::Rsa2048)
}

fn generate(size: KeySize) -> Result<String, KeyError> {
    let key = KeyPair::generate(size).map_err(|_| KeyError::Generate)?;
    let der = key.as_der().map_err(|_| KeyError::Generate)?;
    let text = STANDARD.encode(der.as_ref());
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(PEM_WIDTH.min(rest.len()));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    Ok(pem)
}

impl Tokens {
    /// Tokens signed with an RSA key in PKCS#8 PEM.
    pub fn new(pem: &str) -> Result<Self, KeyError> {
        let unreadable = |error: &dyn std::fmt::Display| KeyError::Unreadable(error.to_string());
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| unreadable(&error))?;
        let pair = KeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|error| unreadable(&error))?;
        let verifying = DecodingKey::from_rsa_der(pair.public_key().as_ref());
        let secret = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA512, der.secret_pkcs8_der()), PURPOSE);
        Ok(Self {
            signing: pair,
            verifying,
            mac: hmac::Key::new(hmac::HMAC_SHA512, secret.as_ref()),
            mac_verifying: DecodingKey::from_secret(secret.as_ref()),
        })
    }

    /// Bits of the key.
    pub fn bits(&self) -> usize {
        self.signing.public_modulus_len() * 8
    }

    /// SHA-256 of the public half of the key, in hexadecimal: the same key has the same wherever it is kept.
    pub fn fingerprint(&self) -> String {
        let der: Result<PublicKeyX509Der<'_>, _> = self.signing.public_key().as_der();
        // A key that signs can be written down.
        let bytes = der.map(|der| der.as_ref().to_vec()).unwrap_or_default();
        Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// A token for an agent's calls.
    pub fn access(&self, subject: &Subject, now: Timestamp) -> Result<String, KeyError> {
        self.issue(text(subject)?, Audience::Access, Some(ACCESS), now)
    }

    /// A token to get others with.
    pub fn refresh(&self, subject: &Subject, now: Timestamp) -> Result<String, KeyError> {
        self.issue(text(subject)?, Audience::Refresh, Some(REFRESH), now)
    }

    /// A token for the resource proxy, which does not expire.
    pub fn resource_proxy(&self, agent: &str, now: Timestamp) -> Result<String, KeyError> {
        self.issue(agent.to_owned(), Audience::ResourceProxy, None, now)
    }

    fn issue(
        &self,
        sub: String,
        audience: Audience,
        lifetime: Option<Duration>,
        now: Timestamp,
    ) -> Result<String, KeyError> {
        let now = now.as_second();
        let end = |lifetime: Duration| now.saturating_add(i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX));
        let claims = Claims {
            iss: ISSUER.to_owned(),
            sub,
            aud: vec![audience.name().to_owned()],
            exp: lifetime.map(end),
            nbf: now,
            iat: now,
            jti: uuid::Uuid::new_v4().to_string(),
        };
        let claims = serde_json::to_vec(&claims).map_err(|error| KeyError::Sign(error.to_string()))?;
        match audience {
            Audience::Access | Audience::Refresh => Ok(self.mac(&claims)),
            Audience::ResourceProxy => self.sign(&claims),
        }
    }

    fn mac(&self, claims: &[u8]) -> String {
        let mut token = unsigned(MACED, claims);
        let tag = hmac::sign(&self.mac, token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(tag, &mut token);
        token
    }

    /// Signs with the key as it was read once; the library would read it anew for each token.
    fn sign(&self, claims: &[u8]) -> Result<String, KeyError> {
        let mut token = unsigned(SIGNED, claims);
        let mut signature = vec![0; self.signing.public_modulus_len()];
        self.signing
            .sign(&RSA_PKCS1_SHA512, &SystemRandom::new(), token.as_bytes(), &mut signature)
            .map_err(|_| KeyError::Sign("the key refused".to_owned()))?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    /// Whom a token stands for, and how long it still does.
    pub fn verify(&self, token: &str, audience: Audience, now: Timestamp) -> Result<(Subject, Duration), Invalid> {
        let claims = self.claims(token, audience, now)?;
        let left = claims.exp.ok_or(Invalid::Foreign)?.saturating_sub(now.as_second());
        let subject = serde_json::from_str(&claims.sub).map_err(|_| Invalid::Subject)?;
        Ok((subject, Duration::from_secs(u64::try_from(left).unwrap_or_default())))
    }

    /// The agent that a token for the resource proxy stands for.
    pub fn verify_resource_proxy(&self, token: &str, now: Timestamp) -> Result<String, Invalid> {
        Ok(self.claims(token, Audience::ResourceProxy, now)?.sub)
    }

    fn claims(&self, token: &str, audience: Audience, now: Timestamp) -> Result<Claims, Invalid> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Invalid::Foreign);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| Invalid::Foreign)?;
        // Each key is for one algorithm only, whatever a header says.
        let (algorithm, key) = match header.alg {
            Algorithm::HS512 => (Algorithm::HS512, &self.mac_verifying),
            _ => (Algorithm::RS512, &self.verifying),
        };
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[ISSUER]);
        validation.set_audience(&[audience.name()]);
        validation.set_required_spec_claims(&["iss", "aud", "sub"]);
        // The library reads the machine's clock; ours is the one that counts.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let claims = jsonwebtoken::decode::<Claims>(token, key, &validation).map_err(|_| Invalid::Foreign)?.claims;
        let (now, leeway) = (now.as_second(), i64::try_from(LEEWAY.as_secs()).unwrap_or_default());
        if claims.exp.is_some_and(|end| now.saturating_sub(leeway) >= end) {
            return Err(Invalid::Expired);
        }
        if claims.nbf.saturating_sub(leeway) > now {
            return Err(Invalid::Early);
        }
        Ok(claims)
    }
}

/// Header and claims of a token.
fn unsigned(header: &str, claims: &[u8]) -> String {
    let mut token = URL_SAFE_NO_PAD.encode(header);
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(claims, &mut token);
    token
}

fn text(subject: &Subject) -> Result<String, KeyError> {
    serde_json::to_string(subject).map_err(|error| KeyError::Sign(error.to_string()))
}

#[cfg(test)]
mod tests;
