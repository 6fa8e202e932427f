//! What the headers of a read say.

use http::header::AGE;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::options::ReadOptions;
use super::read::shown;
use crate::backend::{Consistency, Reading};
use crate::model::Index;

const INDEX: HeaderName = HeaderName::from_static("x-consul-index");
const KNOWN_LEADER: HeaderName = HeaderName::from_static("x-consul-knownleader");
const LAST_CONTACT: HeaderName = HeaderName::from_static("x-consul-lastcontact");
const CONSISTENCY: HeaderName = HeaderName::from_static("x-consul-effective-consistency");
const BACKEND: HeaderName = HeaderName::from_static("x-consul-query-backend");
const CACHE: HeaderName = HeaderName::from_static("x-cache");
const FILTERED: HeaderName = HeaderName::from_static("x-consul-results-filtered-by-acls");
const DEFAULT_POLICY: HeaderName = HeaderName::from_static("x-consul-default-acl-policy");

/// Which of the headers an endpoint has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Index and leader: keys and sessions.
    Plain,
    /// Also the consistency: catalog and health.
    Consistency,
}

/// Says how fresh a reading is.
pub(super) fn put_reading(headers: &mut HeaderMap, reading: &Reading, options: &ReadOptions, detail: Detail) {
    let fresh = &reading.freshness;
    put_index(headers, reading.data.index);
    headers.insert(KNOWN_LEADER, HeaderValue::from_static(if fresh.connected { "true" } else { "false" }));
    let milliseconds = u64::try_from(fresh.last_contact.as_millis()).unwrap_or(u64::MAX);
    headers.insert(LAST_CONTACT, HeaderValue::from(milliseconds));
    headers.insert(BACKEND, HeaderValue::from_static("blocking-query"));
    if detail == Detail::Consistency {
        let word = match options.consistency {
            // What nobody confirms is stale, whatever was asked for.
            Consistency::Default if !fresh.connected => "stale",
            Consistency::Default => "leader",
            Consistency::Consistent => "consistent",
            Consistency::Stale => "stale",
        };
        headers.insert(CONSISTENCY, HeaderValue::from_static(word));
    }
    if options.cached {
        headers.insert(CACHE, HeaderValue::from_static(if fresh.hit.is_some() { "HIT" } else { "MISS" }));
        if let Some(age) = fresh.hit {
            headers.insert(AGE, HeaderValue::from(age.as_secs()));
        }
    }
}

/// Says whether the hub is there, for reads that have no index.
pub(super) fn put_leader(headers: &mut HeaderMap, known: bool) {
    headers.insert(KNOWN_LEADER, HeaderValue::from_static(if known { "true" } else { "false" }));
    headers.insert(LAST_CONTACT, HeaderValue::from_static("0"));
}

/// Says at which index the answer is.
pub(super) fn put_index(headers: &mut HeaderMap, index: Index) {
    headers.insert(INDEX, HeaderValue::from(shown(index)));
}

/// Says that something was left out because the token may not see it.
pub(super) fn put_filtered(headers: &mut HeaderMap) {
    headers.insert(FILTERED, HeaderValue::from_static("true"));
}

/// Says what happens to those without a token.
pub(super) fn put_policy(headers: &mut HeaderMap, open: bool) {
    headers.insert(DEFAULT_POLICY, HeaderValue::from_static(if open { "allow" } else { "deny" }));
}
