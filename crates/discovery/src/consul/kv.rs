//! Reads of `/v1/kv/*`.

use std::collections::BTreeSet;

use http::header::{CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, StatusCode};

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::headers::{Detail, put_reading};
use super::health::absent;
use super::hot::{entries, shared};
use super::options::ReadOptions;
use super::view::KvView;
use crate::backend::Reading;
use crate::http::Answer;
use crate::model::{Policy, Resource};
use crate::topic::{Memo, Row, Topic};

impl Call<'_> {
    pub(super) async fn kv(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let key = cleaned(self.rest);
        refuse_unusual(&key)?;
        match self.request.method {
            Method::PUT => self.kv_put(&key).await,
            Method::DELETE => self.kv_delete(&key).await,
            _ if self.query().has("keys") => self.kv_keys(&key, &options).await,
            _ if self.query().has("recurse") => self.kv_tree(&key, &options).await,
            _ => self.kv_get(key, &options).await,
        }
    }

    async fn kv_get(&self, key: String, options: &ReadOptions) -> Outcome {
        if key.is_empty() {
            return Err(Failure::bad("Missing key name"));
        }
        self.access.require(Resource::Key, &key, Policy::Read)?;
        let reading = self.topic_if(&Topic::Key(key), options, |data| !data.rows.is_empty()).await?;
        let Some(Row::Key(entry)) = reading.data.rows.first() else { return Ok(absent(&reading, options)) };
        if !self.query().has("raw") {
            if self.is_plain() {
                return Ok(shared(Memo::Plain, &reading, options, Detail::Plain));
            }
            return self.read_json(&[KvView::new(entry)], &reading, options, Detail::Plain);
        }
        // A value must not become a page of this origin.
        let mut answer = Answer::text(StatusCode::OK, entry.value.value.clone());
        answer.headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        answer.headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
        put_reading(&mut answer.headers, &reading, options, Detail::Plain);
        Ok(answer)
    }

    async fn kv_tree(&self, prefix: &str, options: &ReadOptions) -> Outcome {
        let reading = self.keys(prefix, options).await?;
        if self.is_plain() && !reading.data.rows.is_empty() {
            return Ok(shared(Memo::Plain, &reading, options, Detail::Plain));
        }
        let (seen, hidden): (Vec<_>, Vec<_>) =
            entries(&reading.data).partition(|entry| self.sees_key(&entry.value.key));
        if seen.is_empty() {
            return Ok(absent(&reading, options));
        }
        let views: Vec<_> = seen.into_iter().map(KvView::new).collect();
        let mut answer = self.read_json(&views, &reading, options, Detail::Plain)?;
        self.tell_hidden(&mut answer, !hidden.is_empty());
        Ok(answer)
    }

    async fn kv_keys(&self, prefix: &str, options: &ReadOptions) -> Outcome {
        let query = self.query();
        let separator = query.given("separator").or_else(|| query.given("seperator")).unwrap_or_default();
        let reading = self.keys(prefix, options).await?;
        let (seen, hidden): (Vec<_>, Vec<_>) =
            entries(&reading.data).partition(|entry| self.sees_key(&entry.value.key));
        let keys = seen.into_iter().map(|entry| folded(&entry.value.key, prefix, separator));
        let keys: BTreeSet<&str> = keys.collect();
        if keys.is_empty() && !prefix.is_empty() {
            return Ok(absent(&reading, options));
        }
        let mut answer = self.read_json(&keys, &reading, options, Detail::Plain)?;
        self.tell_hidden(&mut answer, !hidden.is_empty());
        Ok(answer)
    }

    async fn keys(&self, prefix: &str, options: &ReadOptions) -> Result<Reading, Failure> {
        self.topic_if(&Topic::Keys(prefix.to_owned()), options, |data| !data.rows.is_empty()).await
    }

    fn sees_key(&self, key: &str) -> bool {
        self.access.allows(Resource::Key, key, Policy::Read)
    }
}

/// A key up to and with the first separator behind the prefix.
fn folded<'a>(key: &'a str, prefix: &str, separator: &str) -> &'a str {
    let behind = key.get(prefix.len()..).unwrap_or_default();
    match behind.find(separator) {
        Some(at) if !separator.is_empty() => &key[..prefix.len() + at + separator.len()],
        _ => key,
    }
}

/// The path of a key without empty, `.` and `..` parts; a slash at the end stays.
pub(super) fn cleaned(key: &str) -> String {
    if key.is_empty() {
        return String::new();
    }
    let rooted = key.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in key.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if rooted => {}
            _ => parts.push(part),
        }
    }
    let mut clean = parts.join("/");
    if rooted {
        clean.insert(0, '/');
    } else if clean.is_empty() {
        clean.push('.');
    }
    if key.ends_with('/') && !clean.ends_with('/') {
        clean.push('/');
    }
    clean
}

/// Keys that Consul does not take.
fn refuse_unusual(key: &str) -> Result<(), Failure> {
    let spaces = || Failure::failed("invalid key name, leading/trailing spaces are not allowed");
    let climbs = || Failure::failed("invalid key name, path traversal is not allowed");
    if key.starts_with(' ') || key.ends_with(' ') {
        return Err(spaces());
    }
    if key.split('/').any(|part| part == "..") {
        return Err(climbs());
    }
    // What another round of decoding would make of it.
    match crate::http::percent_decoded(key) {
        Some(again) if again != key && again.contains("..") => Err(climbs()),
        Some(again) if again != key && again.contains(' ') => Err(spaces()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_cleaned_as_go_cleans_paths() {
        let table = [
            ("", ""),
            ("a", "a"),
            ("a/", "a/"),
            ("a//b", "a/b"),
            ("a/./b/", "a/b/"),
            ("a/../b", "b"),
            ("../b", "../b"),
            ("/b", "/b"),
            ("/../b", "/b"),
            ("a/..", "."),
            ("/", "/"),
        ];
        for (key, expected) in table {
            assert_eq!(cleaned(key), expected, "{key}");
        }
    }

    #[test]
    fn keys_fold_at_the_separator() {
        let table = [
            ("a/b/c", "", "/", "a/"),
            ("a/b/c", "a/", "/", "a/b/"),
            ("a/b", "a/b", "/", "a/b"),
            ("a/b", "", "", "a/b"),
        ];
        for (key, prefix, separator, expected) in table {
            assert_eq!(folded(key, prefix, separator), expected);
        }
    }

    #[test]
    fn unusual_keys_are_refused() {
        for key in [" a", "a ", "../a", "%2e%2e/a", "a%20b"] {
            assert!(refuse_unusual(key).is_err(), "{key:?}");
        }
        for key in ["a b", "a..b", "a%", "", "%41"] {
            assert!(refuse_unusual(key).is_ok(), "{key:?}");
        }
    }
}
