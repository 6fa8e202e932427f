//! Which form a client sends and which it wants back.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::failure::Failure;

/// The form of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum View {
    /// The object itself.
    #[default]
    Full,
    /// `meta.k8s.io/v1 Table`.
    Table,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `PartialObjectMetadataList`.
    MetadataList,
}

/// The encoding of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// `application/json`.
    #[default]
    Json,
    /// `application/yaml`.
    Yaml,
}

/// What a client accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// Form.
    pub view: View,
    /// Encoding.
    pub encoding: Encoding,
    /// It asked for aggregated discovery.
    pub aggregated_discovery: bool,
}

impl Accepted {
    /// Takes the first media type we can answer with. Protobuf is never an answer of ours, and clients that ask for it
    /// also name JSON or take JSON all the same.
    pub(crate) fn negotiate(headers: &HeaderMap) -> Result<Self, Failure> {
        let Some(accept) = headers.get(ACCEPT) else { return Ok(Self::default()) };
        let text = accept.to_str().unwrap_or_default();
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let mut only_protobuf = false;
        let mut known_type = false;
        for range in text.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let encoding = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
                "application/json" | "*/*" | "application/*" => Encoding::Json,
                "application/yaml" => Encoding::Yaml,
                "application/vnd.kubernetes.protobuf" => {
                    only_protobuf = true;
                    continue;
                }
                _ => continue,
            };
            known_type = true;
            let params: Vec<(&str, &str)> = parts.filter_map(|param| param.split_once('=')).collect();
            let get = |key: &str| params.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
            let view = match (get("as"), get("g"), get("v")) {
                (None, ..) => View::Full,
                (Some("Table"), Some("meta.k8s.io"), Some("v1")) => View::Table,
                (Some("PartialObjectMetadata"), Some("meta.k8s.io"), Some("v1")) => View::Metadata,
                (Some("PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => View::MetadataList,
                (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
                    return Ok(Self { view: View::Full, encoding, aggregated_discovery: true });
                }
                _ => continue,
            };
            return Ok(Self { view, encoding, aggregated_discovery: false });
        }
        match (only_protobuf, known_type) {
            (true, _) => Ok(Self::default()),
            (false, true) => Err(not_acceptable()),
            (false, false) => Err(unroutable(
                406,
                "NotAcceptable",
                "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                 application/vnd.kubernetes.protobuf",
            )),
        }
    }
}

/// A refusal by Kubernetes' router, which knows nothing about the request but its media types.
pub(crate) fn unroutable(code: u16, reason: &'static str, message: &str) -> Failure {
    let mut failure = Failure::new(code, reason, message);
    failure.details = Some(Box::default());
    failure
}

/// A form that does not fit what is asked for.
pub(crate) fn not_acceptable() -> Failure {
    Failure::new(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// The form of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf envelope.
    Protobuf,
    /// RFC 6902.
    JsonPatch,
    /// RFC 7386.
    MergePatch,
    /// Strategic merge patch.
    StrategicPatch,
    /// Server-side apply.
    Apply,
}

impl Content {
    /// Reads the content type of a create or update; `allowed_patch` says which kinds of patch are possible.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, String> {
        let text = headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let text = text.unwrap_or_default();
        let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            "application/json-patch+json" => Ok(Self::JsonPatch),
            "application/merge-patch+json" => Ok(Self::MergePatch),
            "application/strategic-merge-patch+json" => Ok(Self::StrategicPatch),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => Err(text),
        }
    }
}

/// 415, naming what would do.
pub(crate) fn unsupported(accepted: &[&str]) -> Failure {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    Failure::new(415, "UnsupportedMediaType", message)
}

/// The media types of objects.
pub(crate) const OBJECT_TYPES: &[&str] =
    &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn accepted(text: &str) -> Result<Accepted, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, text.parse().unwrap());
        Accepted::negotiate(&headers).map_err(|failure| failure.code)
    }

    /// Media ranges, good and bad, with parameters.
    fn range() -> impl Strategy<Value = String> {
        let essence = prop::sample::select(vec![
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/*",
            "*/*",
            "text/html",
            "APPLICATION/JSON",
            "",
        ]);
        let param = prop::sample::select(vec![
            "as=Table",
            "as=PartialObjectMetadata",
            "as=PartialObjectMetadataList",
            "as=Nothing",
            "g=meta.k8s.io",
            "g=other",
            "v=v1",
            "v=v1beta1",
            "q=0.5",
            "odd",
            "=",
        ]);
        (essence, prop::collection::vec(param, 0..5))
            .prop_map(|(essence, params)| std::iter::once(essence).chain(params).collect::<Vec<_>>().join(";"))
    }

    proptest! {
        #[test]
        fn any_accept_is_answered_or_refused(text in "[ -~]{0,60}") {
            prop_assert!(matches!(accepted(&text), Ok(_) | Err(406)), "{text}");
        }

        #[test]
        fn a_range_we_cannot_answer_changes_nothing(
            before in prop::collection::vec(range(), 0..3), after in prop::collection::vec(range(), 0..3),
        ) {
            let with = [&before[..], &["image/png;as=Table;g=meta.k8s.io;v=v1".to_owned()], &after[..]].concat();
            let without = [before, after].concat().join(",");
            prop_assume!(!without.trim().is_empty());
            prop_assert_eq!(accepted(&with.join(",")), accepted(&without), "{}", without);
        }

        #[test]
        fn the_first_we_can_answer_wins(ranges in prop::collection::vec(range(), 1..5)) {
            // a range alone that is answered as protobuf's stand-in does not win over one that is meant
            let meant = |range: &String| !range.is_empty() && !range.contains("protobuf");
            let alone = ranges.iter().filter(|range| meant(range)).find_map(|range| accepted(range).ok());
            if let Some(alone) = alone {
                prop_assert_eq!(accepted(&ranges.join(",")), Ok(alone));
            }
        }
    }

    #[test]
    fn the_first_form_we_know_is_taken() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accepted(table).unwrap().view, View::Table);
        assert_eq!(accepted("application/vnd.kubernetes.protobuf,application/json").unwrap().view, View::Full);
        assert_eq!(accepted("application/vnd.kubernetes.protobuf"), Ok(Accepted::default()));
        assert_eq!(accepted("text/html"), Err(406));
        assert_eq!(accepted("application/yaml").unwrap().encoding, Encoding::Yaml);
        assert!(
            accepted("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
                .unwrap()
                .aggregated_discovery
        );
    }
}
