//! Issues and verifies service-account tokens: ES256 JWTs, as Kubernetes writes them.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Claims, TokenError};

/// Issues tokens with one key and verifies those of all its keys.
#[derive(Debug)]
pub struct TokenIssuer {
    issuer: String,
    audiences: Vec<String>,
    signing: EncodingKey,
    /// The signing key first.
    keys: Vec<VerifyingKey>,
}

#[derive(Debug)]
struct VerifyingKey {
    id: String,
    key: DecodingKey,
    /// Coordinates of the public point, in base64.
    x: String,
    y: String,
}

/// A key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No PEM, or no private key in it.
    #[error("service account key is not a PEM private key: {0}")]
    Pem(String),
    /// Of another kind.
    #[error("service account key must be an ECDSA P-256 private key")]
    Kind,
    /// The system gave no randomness.
    #[error("cannot generate a service account key")]
    Generate,
}

impl TokenIssuer {
    /// An issuer by name (a URL). `audiences` are the server's own (none: the issuer); `key` signs; tokens by the older
    /// keys are still accepted, so that a key can be replaced. All are PEM private keys.
    pub fn new(issuer: &str, audiences: &[String], key: &str, older: &[String]) -> Result<Self, KeyError> {
        let pair = read_pem(key)?;
        let pkcs8 = pair.to_pkcs8v1().map_err(|_| KeyError::Kind)?;
        let mut keys = vec![VerifyingKey::of(&pair)?];
        for pem in older {
            keys.push(VerifyingKey::of(&read_pem(pem)?)?);
        }
        let own = if audiences.is_empty() { vec![issuer.to_owned()] } else { audiences.to_vec() };
        let signing = EncodingKey::from_ec_der(pkcs8.as_ref());
        Ok(Self { issuer: issuer.to_owned(), audiences: own, signing, keys })
    }

    /// A new key, as PEM.
    pub fn generate_key() -> Result<String, KeyError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(|_| KeyError::Generate)?;
        let text = STANDARD.encode(document.as_ref());
        let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(64));
            pem.push_str(line);
            pem.push('\n');
            rest = after;
        }
        pem.push_str("-----END PRIVATE KEY-----\n");
        Ok(pem)
    }

    /// The issuer's name.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The server's own audiences.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Signs claims.
    pub fn sign(&self, claims: &Claims) -> Result<String, String> {
        let id = self.keys.first().map(|key| key.id.clone());
        let header = Header { typ: None, kid: id, ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, claims, &self.signing).map_err(|error| error.to_string())
    }

    /// The claims of a valid token for one of the audiences (none: the server's own); `None` when the token is not of
    /// this issuer at all. Whether its objects still exist is for [`Claims::user`] to say.
    pub fn read(&self, token: &str, audiences: &[String], now: Timestamp) -> Result<Option<Claims>, TokenError> {
        if !self.is_own(token) {
            return Ok(None);
        }
        let Ok(header) = jsonwebtoken::decode_header(token) else { return Ok(None) };
        let mut claims = Err(TokenError::NoKey);
        for key in self.keys.iter().filter(|key| header.kid.as_ref().is_none_or(|id| *id == key.id)) {
            claims = key.verify(token);
            if claims.is_ok() {
                break;
            }
        }
        let claims = claims?;
        if claims.iss != self.issuer {
            return Err(TokenError::Issuer(claims.iss));
        }
        let wanted = if audiences.is_empty() { &self.audiences } else { audiences };
        let given = if claims.aud.is_empty() { &self.audiences } else { &claims.aud };
        if !given.iter().any(|audience| wanted.contains(audience)) {
            return Err(TokenError::Audience(given.clone(), wanted.to_vec()));
        }
        claims.check_times(now)?;
        Ok(Some(claims))
    }

    /// The audiences of a token that are also asked for.
    pub fn common_audiences(&self, token: &[String], asked: &[String]) -> Vec<String> {
        let given = if token.is_empty() { &self.audiences } else { token };
        let wanted = if asked.is_empty() { &self.audiences } else { asked };
        given.iter().filter(|audience| wanted.contains(audience)).cloned().collect()
    }

    /// The public keys, as a JSON Web Key Set.
    pub fn jwks(&self) -> Value {
        let keys = self.keys.iter().map(|key| {
            json!({
                "use": "sig", "kty": "EC", "kid": key.id, "crv": "P-256", "alg": "ES256", "x": key.x, "y": key.y,
            })
        });
        json!({ "keys": keys.collect::<Value>() })
    }

    /// Whether the token says, unverified, that it is from this issuer.
    fn is_own(&self, token: &str) -> bool {
        let mut parts = token.split('.');
        let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return false;
        };
        let claims = URL_SAFE_NO_PAD.decode(payload).ok().and_then(|json| serde_json::from_slice::<Value>(&json).ok());
        claims.is_some_and(|claims| claims.get("iss").and_then(Value::as_str) == Some(&self.issuer))
    }
}

impl VerifyingKey {
    fn of(pair: &EcdsaKeyPair) -> Result<Self, KeyError> {
        let public = pair.public_key();
        let point = public.as_ref();
        // An uncompressed point: a marker byte and two coordinates of 32 bytes.
        let (Some(x), Some(y)) = (point.get(1..33), point.get(33..65)) else { return Err(KeyError::Kind) };
        let der = AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(public).map_err(|_| KeyError::Kind)?;
        Ok(Self {
            id: URL_SAFE_NO_PAD.encode(Sha256::digest(der.as_ref())),
            key: DecodingKey::from_ec_der(point),
            x: URL_SAFE_NO_PAD.encode(x),
            y: URL_SAFE_NO_PAD.encode(y),
        })
    }

    fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        let mut validation = Validation::new(Algorithm::ES256);
        // Times and audiences are checked by `read`, against the caller's clock.
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        jsonwebtoken::decode::<Claims>(token, &self.key, &validation).map(|data| data.claims).map_err(|error| {
            match error.kind() {
                ErrorKind::InvalidSignature | ErrorKind::InvalidAlgorithm => TokenError::Signature,
                _ => TokenError::Malformed(error.to_string()),
            }
        })
    }
}

fn read_pem(pem: &str) -> Result<EcdsaKeyPair, KeyError> {
    let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| KeyError::Pem(error.to_string()))?;
    EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_der())
        .or_else(|_| EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_der()))
        .map_err(|_| KeyError::Kind)
}
