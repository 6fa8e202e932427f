//! What tells others how to verify service-account tokens.

use serde_json::{Value, json};

/// Where [`openid_configuration`] is served.
pub const OPENID_CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// Where [`super::TokenIssuer::jwks`] is served.
pub const JWKS_PATH: &str = "/openid/v1/jwks";

/// The discovery document of an issuer whose keys are at `jwks_uri`.
pub fn openid_configuration(issuer: &str, jwks_uri: &str) -> Value {
    json!({
        "issuer": issuer,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}
