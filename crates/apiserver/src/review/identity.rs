//! Who am I? Whose token is this?

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{strings, text};
use crate::authn::TokenError;
use crate::authz::User;
use crate::failure::{Failure, Result};

const API_VERSION: &str = "authentication.k8s.io/v1";

/// Who the user is: a `SelfSubjectReview`.
pub(crate) fn self_subject_review(user: &User, now: Timestamp) -> Value {
    let created = Timestamp::from_second(now.as_second()).unwrap_or(now);
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": API_VERSION,
        "metadata": { "creationTimestamp": created.to_string() },
        "status": { "userInfo": user_info(user) },
    })
}

/// What a `TokenReview` asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenQuestion {
    /// The token.
    pub token: String,
    /// For whom it should be; empty for the server itself.
    pub audiences: Vec<String>,
}

impl TokenQuestion {
    /// Reads the posted object.
    pub(crate) fn from_body(body: &Value) -> Result<Self> {
        let spec = body.get("spec").unwrap_or(&Value::Null);
        let token = text(spec, "token");
        if token.is_empty() {
            return Err(Failure::bad_request("token is required for TokenReview in authentication"));
        }
        Ok(Self { token: token.to_owned(), audiences: strings(spec.get("audiences")) })
    }
}

/// A token that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verified {
    /// Whose it is.
    pub user: User,
    /// Which of the audiences asked for it is for.
    pub audiences: Vec<String>,
}

/// The answer to a `TokenReview`: the outcome of [`crate::authn::Authenticator::identify_token`] (and, for claims, of
/// [`crate::authn::Claims::user`]).
pub(crate) fn token_review(body: &Value, outcome: &Result<Verified, Vec<TokenError>>) -> Value {
    let status = match outcome {
        Ok(verified) => {
            let mut status = json!({ "authenticated": true, "user": user_info(&verified.user) });
            if !verified.audiences.is_empty() {
                status["audiences"] = verified.audiences.clone().into();
            }
            status
        }
        Err(errors) => json!({ "user": {}, "error": refusal(errors) }),
    };
    json!({
        "kind": "TokenReview",
        "apiVersion": API_VERSION,
        "metadata": body.get("metadata").filter(|part| part.is_object()).cloned().unwrap_or_else(|| json!({})),
        "spec": body.get("spec").cloned().unwrap_or_else(|| json!({})),
        "status": status,
    })
}

/// Kubernetes lists what each way of authenticating said, the general refusal first.
fn refusal(errors: &[TokenError]) -> String {
    let special = errors.iter().filter(|error| **error != TokenError::Unknown).map(ToString::to_string);
    let all = std::iter::once(TokenError::Unknown.to_string()).chain(special).collect::<Vec<_>>();
    if all.len() == 1 { all.concat() } else { format!("[{}]", all.join(", ")) }
}

/// `UserInfo`, without what is empty.
pub(crate) fn user_info(user: &User) -> Value {
    let mut out = Map::new();
    out.insert("username".into(), user.name.as_str().into());
    if !user.uid.is_empty() {
        out.insert("uid".into(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        out.insert("groups".into(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        out.insert("extra".into(), json!(user.extra));
    }
    Value::Object(out)
}
