//! YAML as Go's library for Kubernetes reads it.

use serde_json::Value;

/// Files are never read that have more documents.
const DOCUMENTS_MAX: usize = 10_000;

/// A text that is no YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("yaml file is not valid: {0}")]
pub struct YamlError(String);

/// The documents of a text, empty ones left out. `yes`, `on` and their kind are truth values, 0644 is octal.
pub fn documents(text: &str) -> Result<Vec<Value>, YamlError> {
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_events: 20_000_000, max_nodes: 10_000_000, max_documents: DOCUMENTS_MAX },
    };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| YamlError(error.without_snippet().to_string()))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}
