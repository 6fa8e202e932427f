//! Times as Kubernetes writes them.

use jiff::Timestamp;

/// RFC 3339 in whole seconds, as `metav1.Time`.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// RFC 3339 with six digits, as `metav1.MicroTime`.
pub(crate) fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Reads either.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}
