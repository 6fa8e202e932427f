//! Live access in argocd-agent's protocol: what requests and answers carry as JSON.

mod query;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use query::Query;

/// A request to the Kubernetes API of an agent's cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceRequest {
    /// Which request it is.
    pub uuid: String,
    /// The namespace; none for what has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object's name; none for all of them.
    pub name: String,
    /// What of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// The HTTP method.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// What is written.
    #[serde(skip_serializing_if = "Bytes::is_empty", with = "base64_bytes")]
    pub body: Bytes,
    /// Parameters of the query, the first value of each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub params: BTreeMap<String, String>,
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The resource, in the plural of URLs.
    pub resource: String,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceResponse {
    /// Which request it answers.
    pub uuid: String,
    /// The HTTP status.
    pub status: i64,
    /// The body, as text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
}

/// A request for a container's log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the wire has these fields")]
pub struct LogRequest {
    /// Which request it is.
    pub uuid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod_name: String,
    /// The container; none for the only one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// Whether it goes on as the container writes.
    #[serde(skip_serializing_if = "is_false")]
    pub follow: bool,
    /// Only so many lines from the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_lines: Option<i64>,
    /// Only what is no older.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_seconds: Option<i64>,
    /// Only what is not from before.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since_time: String,
    /// Whether each line begins with its time.
    #[serde(skip_serializing_if = "is_false")]
    pub timestamps: bool,
    /// Whether the container's predecessor is meant.
    #[serde(skip_serializing_if = "is_false")]
    pub previous: bool,
    /// Whether the node's certificate does not matter.
    #[serde(rename = "insecureSkipTLSVerifyBackend", skip_serializing_if = "is_false")]
    pub insecure_backend: bool,
    /// Only so many bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<i64>,
}

/// A request for a terminal in a container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the wire has these fields")]
pub struct TerminalRequest {
    /// Which session it is.
    pub uuid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod_name: String,
    /// The container; none for the only one.
    pub container_name: String,
    /// What is run.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub command: Vec<String>,
    /// Whether it gets a terminal.
    pub tty: bool,
    /// Whether it reads.
    pub stdin: bool,
    /// Whether what it writes is wanted.
    pub stdout: bool,
    /// Whether what it complains about is wanted.
    pub stderr: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// Go writes null where there is nothing.
fn or_default<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Go writes bytes as standard base64.
mod base64_bytes {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use bytes::Bytes;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        let text = Option::<String>::deserialize(from)?.unwrap_or_default();
        BASE64_STANDARD.decode(text).map(Bytes::from).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_written_as_go_writes_them() {
        let request = ResourceRequest {
            uuid: "u".to_owned(),
            name: "web".to_owned(),
            method: "PATCH".to_owned(),
            body: Bytes::from_static(b"{}"),
            version: "v1".to_owned(),
            resource: "configmaps".to_owned(),
            ..ResourceRequest::default()
        };
        let wire = json!({"uuid": "u", "name": "web", "method": "PATCH", "body": "e30=", "group": "", "version": "v1", "resource": "configmaps"});
        assert_eq!(serde_json::to_value(&request).unwrap(), wire);
        assert_eq!(serde_json::from_value::<ResourceRequest>(wire).unwrap(), request);
        let bare = r#"{"uuid":"u","name":"","body":null,"params":null,"group":"","version":"","resource":""}"#;
        let expected = ResourceRequest { uuid: "u".to_owned(), ..ResourceRequest::default() };
        assert_eq!(serde_json::from_str::<ResourceRequest>(bare).unwrap(), expected);
        assert!(serde_json::from_str::<ResourceRequest>(r#"{"body":"?"}"#).is_err());
    }

    #[test]
    fn logs_and_terminals_have_their_own_forms() {
        let log = LogRequest {
            pod_name: "p".to_owned(),
            tail_lines: Some(3),
            insecure_backend: true,
            ..LogRequest::default()
        };
        let wire =
            json!({"uuid": "", "namespace": "", "podName": "p", "tailLines": 3, "insecureSkipTLSVerifyBackend": true});
        assert_eq!(serde_json::to_value(&log).unwrap(), wire);
        let terminal: TerminalRequest =
            serde_json::from_value(json!({"uuid": "u", "containerName": "c", "command": null, "tty": true})).unwrap();
        assert_eq!((&*terminal.container_name, terminal.command.len(), terminal.tty), ("c", 0, true));
    }
}
