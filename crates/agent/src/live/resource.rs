//! Calls to the cluster's API, and what is answered to the hub.

use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::managed::Tracking;
use super::plan::{Call, Plan};
use super::room::{Room, Taken};

/// Why a body that was too large was not read.
const TOO_LARGE: &str = "the answer of the cluster's API is too large to be passed on";

/// What is answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
    /// Held for as long as the body is.
    pub(super) room: Taken,
}

impl Answer {
    /// A refusal in Kubernetes' own form.
    pub(super) fn refused(status: u16, message: &str) -> Self {
        let reason = match status {
            400 => "BadRequest",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            415 => "UnsupportedMediaType",
            429 => "TooManyRequests",
            504 => "Timeout",
            _ => "InternalError",
        };
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": status,
        });
        Self { status, body: body.to_string(), room: Taken::default() }
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whoever asks knows only one kind of success.
    fn into_ok(self) -> Self {
        if self.is_success() { Self { status: 200, ..self } } else { self }
    }
}

/// Does what was planned.
pub(super) async fn answer(client: &Client, tracking: &Tracking, room: &Room, plan: Plan) -> Answer {
    match plan {
        Plan::Groups => groups(client, room).await,
        Plan::Read(path) => get(client, room, &path).await,
        Plan::Object(path) => match object(client, tracking, room, &path).await {
            Ok(answer) | Err(answer) => answer,
        },
        Plan::Create(made) => call(client, room, made).await.into_ok(),
        Plan::Change { object: path, call: change } => {
            // What it is now needs no room while it is changed.
            match object(client, tracking, room, &path).await.map(drop) {
                Ok(()) => call(client, room, change).await.into_ok(),
                Err(answer) => answer,
            }
        }
    }
}

/// The object at that path, if it is Argo CD's; what to answer otherwise.
async fn object(client: &Client, tracking: &Tracking, room: &Room, path: &str) -> Result<Answer, Answer> {
    let answer = get(client, room, path).await;
    if !answer.is_success() {
        return Err(answer);
    }
    let object: Value =
        serde_json::from_str(&answer.body).map_err(|error| Answer::refused(500, &format!("no object: {error}")))?;
    match tracking.is_managed(&object).await {
        Ok(true) => Ok(answer),
        Ok(false) => Err(Answer::refused(403, "the object is not managed by an Application")),
        Err(reason) => Err(Answer::refused(403, &format!("whether an Application manages it is not known: {reason}"))),
    }
}

/// All groups in one list, the one without a name first.
async fn groups(client: &Client, room: &Room) -> Answer {
    let (core, named) = tokio::join!(get(client, room, "/api"), get(client, room, "/apis"));
    if !named.is_success() {
        return named;
    }
    let (Ok(core), Ok(mut all)) = (serde_json::from_str(&core.body), serde_json::from_str::<Value>(&named.body)) else {
        return Answer::refused(500, "the cluster's API does not tell its groups");
    };
    if let (Some(first), Some(groups)) = (unnamed_group(&core), all["groups"].as_array_mut()) {
        groups.insert(0, first);
    }
    Answer { status: 200, body: all.to_string(), room: named.room }
}

/// The group without a name, as one of a list.
fn unnamed_group(core: &Value) -> Option<Value> {
    let versions: Vec<Value> = core["versions"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .map(|version| json!({"groupVersion": version, "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": "", "versions": versions, "preferredVersion": preferred}))
}

/// Answers with what is at that path.
pub(super) async fn get(client: &Client, room: &Room, path: &str) -> Answer {
    let read =
        Call { method: Method::GET, uri: path.to_owned(), content_type: "application/json", body: bytes::Bytes::new() };
    call(client, room, read).await
}

async fn call(client: &Client, room: &Room, call: Call) -> Answer {
    let mut request = Request::builder().method(call.method).uri(call.uri).header("accept", "application/json");
    if !call.body.is_empty() {
        request = request.header("content-type", call.content_type);
    }
    let Ok(request) = request.body(Body::from(call.body.to_vec())) else {
        return Answer::refused(400, "the request has no form the cluster's API knows");
    };
    let response = match client.send(request).await {
        Ok(response) => response,
        Err(kube::Error::Api(status)) => return Answer::refused(status.code, &status.message),
        Err(error) => return Answer::refused(502, &format!("the cluster's API cannot be reached: {error}")),
    };
    let status = response.status().as_u16();
    let (mut body, mut whole, mut taken) = (response.into_body(), Vec::new(), Taken::default());
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                let data = frame.into_data().unwrap_or_default();
                if !taken.grow(room, whole.len() + data.len()).await {
                    return Answer::refused(500, TOO_LARGE);
                }
                whole.extend_from_slice(&data);
            }
            Err(error) => {
                return Answer::refused(502, &format!("the answer of the cluster's API broke off: {error}"));
            }
        }
    }
    taken.shrink(whole.len());
    match String::from_utf8(whole) {
        Ok(body) => Answer { status, body, room: taken },
        Err(_) => Answer::refused(502, "the cluster's API answered with what is no text"),
    }
}

/// How long what Argo CD's settings say is believed.
pub(super) const SETTINGS_AGE_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_has_one_number_and_refusals_keep_theirs() {
        for (status, expected) in [(201, 200), (202, 200), (200, 200), (404, 404), (302, 302)] {
            assert_eq!(Answer { status, body: String::new(), room: Taken::default() }.into_ok().status, expected);
        }
        let refused: Value = serde_json::from_str(&Answer::refused(403, "no").body).unwrap();
        assert_eq!(
            (&refused["reason"], &refused["code"], &refused["message"]),
            (&json!("Forbidden"), &json!(403), &json!("no"))
        );
    }

    #[test]
    fn the_group_without_a_name_is_one_of_the_list() {
        let group = unnamed_group(&json!({"versions": ["v1"]})).unwrap();
        assert_eq!(group["preferredVersion"], json!({"groupVersion": "v1", "version": "v1"}));
        assert_eq!(unnamed_group(&json!({})), None);
        assert_eq!(unnamed_group(&json!({"versions": []})), None);
    }
}
