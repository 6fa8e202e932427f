//! Listing, page by page, at one revision.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Value, json};
use thane_kv::Query as Range;

use super::Call;
use crate::body;
use crate::failure::{Cause, Details, Failure, Result};
use crate::media::{self, Encoding, View};
use crate::objects::{Stored, append_json, storage_failure};
use crate::options::{ListOptions, VersionMatch};
use crate::resource::ResourceType;
use crate::response::{self, Answer};
use crate::selector::{Fields, Labels};
use crate::table;

/// Keys read at once, so that a long list neither holds a read transaction long nor needs much memory twice.
const CHUNK: usize = 500;
/// How large the pieces of a long answer are, about.
const PIECE_BYTES: usize = 64 * 1024;

/// Which objects of a collection are meant.
pub(crate) struct Filter {
    labels: Labels,
    fields: Fields,
}

impl Filter {
    /// Everything.
    #[cfg(test)]
    pub(super) fn open() -> Self {
        Self { labels: Labels::parse("").unwrap(), fields: Fields::default() }
    }

    /// Reads both selectors and refuses what the type does not know.
    pub(crate) fn parse(call: &Call<'_>, options: &ListOptions) -> Result<Self> {
        let labels = Labels::parse(&options.label_selector).map_err(|why| Failure::bad_request(why.to_string()))?;
        let fields = Fields::parse(&options.field_selector).map_err(|why| Failure::bad_request(why.to_string()))?;
        if let Some(why) = call.kind.field_selector_error(&fields) {
            return Err(Failure::bad_request(why));
        }
        Ok(Self { labels, fields })
    }

    /// Everything passes.
    pub(crate) fn is_open(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object passes. It is read whole only if a selector asks for more than it is marked with.
    pub(crate) fn admits(&self, kind: &ResourceType, stored: &Stored) -> Result<bool> {
        if self.is_open() {
            return Ok(true);
        }
        let marks = stored.marks()?;
        if !self.labels.matches(marks.labels.as_ref()) {
            return Ok(false);
        }
        if self.fields.names().all(|field| matches!(field, "metadata.name" | "metadata.namespace")) {
            let read = |field: &str| if field == "metadata.name" { &marks.name } else { &marks.namespace }.into();
            return Ok(self.fields.matches(read));
        }
        Ok(kind.is_selected(&stored.value(kind)?, &self.fields))
    }
}

/// One page of a collection.
pub(crate) struct Page {
    /// The revision it is true for.
    pub revision: u64,
    /// Its objects.
    pub items: Vec<Stored>,
    /// Where the next one starts.
    pub next: Option<String>,
    /// How many follow, where that is known.
    pub rest: Option<u64>,
}

/// Where a page starts and at which revision.
struct Start {
    key: Bytes,
    at: Option<u64>,
}

/// Reads a page.
pub(crate) async fn page(call: &Call<'_>, options: &ListOptions, filter: &Filter) -> Result<Page> {
    let kind = &call.kind;
    let prefix = kind.key(call.namespace(), "");
    let start = start(call, options, &prefix)?;
    let mut range = Range::prefix(prefix.clone());
    range.start = start.key;
    range.at = start.at;
    let limit = usize::try_from(options.limit).unwrap_or(usize::MAX);
    let mut page = Page { revision: 0, items: Vec::new(), next: None, rest: None };
    loop {
        let wanted = if limit == 0 { CHUNK } else { CHUNK.min(limit - page.items.len()) };
        range.limit = Some(wanted);
        range.count_rest = limit > 0 && filter.is_open();
        let found = call
            .objects()
            .store()
            .range(range.clone())
            .await
            .map_err(|error| expired(error, options, &prefix, &range))?;
        if range.at.is_none() {
            range.at = Some(found.revision);
        }
        page.revision = start.at.unwrap_or(found.revision).max(page.revision);
        let last = found.entries.last().map(|entry| entry.key.clone());
        for entry in &found.entries {
            let stored = call.objects().open(kind, entry)?;
            if filter.admits(kind, &stored)? {
                page.items.push(stored);
            }
        }
        let Some(last) = last.filter(|_| found.more) else { return Ok(page) };
        if limit > 0 && page.items.len() >= limit {
            page.next = Some(token(page.revision, &prefix, &last));
            page.rest = found.rest.filter(|_| filter.is_open());
            return Ok(page);
        }
        range.start = after(&last);
    }
}

/// The first key behind `key`.
fn after(key: &[u8]) -> Bytes {
    let mut next = key.to_vec();
    next.push(0);
    next.into()
}

fn start(call: &Call<'_>, options: &ListOptions, prefix: &Bytes) -> Result<Start> {
    if !options.continue_token.is_empty() {
        if options.resource_version.is_some_and(|version| version != 0) {
            return Err(Failure::bad_request("specifying resource version is not allowed when using continue"));
        }
        let (at, key) = parse_token(&options.continue_token, prefix)?;
        return Ok(Start { key, at });
    }
    let at = match (options.resource_version, options.version_match) {
        (None | Some(0), _) => None,
        (Some(version), Some(VersionMatch::Exact)) => {
            known_revision(call, version)?;
            Some(version)
        }
        (Some(version), None) if options.limit > 0 => {
            known_revision(call, version)?;
            Some(version)
        }
        (Some(version), _) => {
            known_revision(call, version)?;
            None
        }
    };
    Ok(Start { key: prefix.clone(), at })
}

/// A revision that has not happened yet is an error after Kubernetes' three seconds; ours is known at once.
pub(crate) fn known_revision(call: &Call<'_>, wanted: u64) -> Result<()> {
    let current = call.objects().store().revision();
    if wanted <= current {
        return Ok(());
    }
    let mut failure =
        Failure::new(504, "Timeout", format!("Timeout: Too large resource version: {wanted}, current: {current}"));
    failure.details = Some(Box::new(Details {
        causes: vec![Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".to_owned(),
            field: String::new(),
        }],
        retry_after_seconds: Some(1),
        ..Details::default()
    }));
    Err(failure)
}

/// The continue token: which revision, and the key (below the collection) the next page starts at.
fn token(revision: u64, prefix: &[u8], last: &[u8]) -> String {
    let relative = String::from_utf8_lossy(&last[prefix.len()..]);
    let text = json!({ "v": "meta.k8s.io/v1", "rv": revision, "start": format!("{relative}\0") }).to_string();
    URL_SAFE_NO_PAD.encode(text)
}

fn parse_token(token: &str, prefix: &Bytes) -> Result<(Option<u64>, Bytes)> {
    let bad = |why: String| Failure::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let bytes = URL_SAFE_NO_PAD
        .decode(token.trim_end_matches('='))
        .map_err(|_| bad("illegal base64 data at input byte 0".to_owned()))?;
    let value = body::json_value(&bytes).map_err(bad)?;
    if value["v"] != "meta.k8s.io/v1" {
        return Err(bad(format!(
            "server does not recognize this encoded version {}",
            value["v"].as_str().unwrap_or_default()
        )));
    }
    let start = value["start"].as_str().unwrap_or_default();
    if start.is_empty() {
        return Err(bad("encoded start key empty (version meta.k8s.io/v1)".to_owned()));
    }
    if start.split('/').any(|part| matches!(part, "." | "..")) || start.starts_with('/') {
        return Err(bad(start.to_owned()));
    }
    let revision = match value["rv"].as_i64() {
        Some(0) | None => {
            return Err(bad("incorrect encoded start resourceVersion 0 (version meta.k8s.io/v1)".to_owned()));
        }
        Some(-1) => None,
        Some(revision) => u64::try_from(revision).ok(),
    };
    let mut key = prefix.to_vec();
    key.extend_from_slice(start.as_bytes());
    Ok((revision, key.into()))
}

/// The revision of a list is gone: its client may start again, or go on from the same place at the present revision.
fn expired(error: thane_kv::Error, options: &ListOptions, prefix: &[u8], range: &Range) -> Failure {
    match error {
        thane_kv::Error::Compacted { .. } if !options.continue_token.is_empty() => {
            let mut failure = Failure::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new \
                 list without the continue parameter, or use the continue token in this response to retrieve the \
                 remainder of the results. Continuing with the provided token results in an inconsistent list - \
                 objects that were created, modified, or deleted between the time the first chunk was returned and now \
                 may show up in the list.",
            );
            let start = String::from_utf8_lossy(&range.start[prefix.len()..]);
            let next = URL_SAFE_NO_PAD.encode(json!({ "v": "meta.k8s.io/v1", "rv": -1, "start": start }).to_string());
            failure.details = Some(Box::new(Details { next: Some(next), ..Details::default() }));
            failure
        }
        error => storage_failure(error),
    }
}

/// Answers a list.
pub(crate) async fn list(call: &Call<'_>) -> Result<Answer> {
    let options = ListOptions::parse(call.query, false)?;
    let filter = Filter::parse(call, &options)?;
    let page = page(call, &options, &filter).await?;
    match call.accepted.view {
        View::Full if call.accepted.encoding == Encoding::Json => answer(Pieces::new(call, page)),
        View::Full => {
            let pieces = Pieces::new(call, page).collect::<Result<Vec<_>>>()?;
            let value: Value = serde_json::from_slice(&pieces.concat()).map_err(Failure::internal)?;
            Ok(response::value(200, &value, call.accepted.encoding))
        }
        View::Metadata => Err(media::not_acceptable()),
        view => {
            let items = page.items.iter().map(|item| item.value(&call.kind)).collect::<Result<Vec<_>>>()?;
            let list = metadata(call, &page);
            let shown = if view == View::Table {
                table::table(call.kind.rows(), &items, &list, call.include()?, true, call.now)
            } else {
                table::partial_list(&items, &list)
            };
            Ok(response::value(200, &shown, call.accepted.encoding))
        }
    }
}

fn metadata(call: &Call<'_>, page: &Page) -> Value {
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    if let Some(next) = &page.next {
        metadata["continue"] = next.as_str().into();
    } else if call.kind.is_custom() && call.accepted.view == View::Full {
        metadata["continue"] = "".into();
    }
    if let Some(rest) = page.rest {
        metadata["remainingItemCount"] = rest.into();
    }
    metadata
}

/// A long list goes out piece by piece, so that its bytes are not in memory twice. One of a single piece, or with objects
/// that have to be looked into (which may fail), is finished first.
fn answer(mut pieces: Pieces) -> Result<Answer> {
    if pieces.piece_bytes < usize::MAX {
        return Ok(response::stream(futures::stream::iter(pieces.map_while(Result::ok))));
    }
    let whole = pieces.next().transpose()?.unwrap_or_default();
    Ok(response::json_bytes(200, whole))
}

/// The bytes of a list as JSON, in pieces of about so many.
struct Pieces {
    kind: Arc<ResourceType>,
    items: std::iter::Peekable<std::vec::IntoIter<Stored>>,
    /// How the next piece begins; nothing once the list is closed.
    next: Option<Vec<u8>>,
    piece_bytes: usize,
}

impl Pieces {
    fn new(call: &Call<'_>, page: Page) -> Self {
        let kind = Arc::clone(&call.kind);
        let whole = page.items.len() <= CHUNK || page.items.iter().any(|item| kind.changes_on_read(item.revision));
        let piece_bytes = if whole { usize::MAX } else { PIECE_BYTES };
        let mut head = Vec::with_capacity(PIECE_BYTES.min(512 + page.items.len() * 1024));
        head.extend_from_slice(b"{\"kind\":");
        append_json(&mut head, kind.list_kind.as_str());
        head.extend_from_slice(b",\"apiVersion\":");
        append_json(&mut head, kind.api_version());
        head.extend_from_slice(b",\"metadata\":");
        append_json(&mut head, &metadata(call, &page));
        head.extend_from_slice(b",\"items\":[");
        Self { kind, items: page.items.into_iter().peekable(), next: Some(head), piece_bytes }
    }
}

impl Iterator for Pieces {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        let mut out = self.next.take()?;
        while let Some(item) = self.items.next() {
            if let Err(failure) = item.render(&self.kind, self.kind.is_custom(), &mut out) {
                return Some(Err(failure));
            }
            if self.items.peek().is_some() {
                out.push(b',');
                if out.len() >= self.piece_bytes {
                    self.next = Some(Vec::with_capacity(out.len()));
                    return Some(Ok(out.into()));
                }
            }
        }
        out.extend_from_slice(b"]}");
        Some(Ok(out.into()))
    }
}

#[cfg(test)]
mod tests {
    use thane_kv::{Entry, MemoryOptions, MemoryStore};

    use super::*;
    use crate::catalog::Catalog;
    use crate::encryption::Encryption;
    use crate::objects::Objects;

    #[test]
    fn pieces_make_up_the_whole() {
        let kind = Catalog::default().builtin("", "configmaps");
        let store = MemoryStore::new(MemoryOptions::default());
        let objects = Objects::new(store, Arc::new(Encryption::default()), 1024, std::time::Duration::from_mins(1));
        let entry = |name: &str, mod_revision| Entry {
            key: kind.key("ns", name),
            value: format!(r#"{{"metadata":{{"name":"{name}"}}}}"#).into(),
            create_revision: 1,
            mod_revision,
            version: 1,
            lease: None,
        };
        let items: Vec<Stored> =
            ["a", "b", "c"].iter().zip(1..).map(|(name, at)| objects.open(&kind, &entry(name, at)).unwrap()).collect();
        let whole = ["a", "b", "c"].iter().zip(1..);
        let whole = whole.map(|(name, at)| format!(r#"{{"metadata":{{"resourceVersion":"{at}","name":"{name}"}}}}"#));
        let whole = format!("[{}]}}", whole.collect::<Vec<_>>().join(","));
        for (piece_bytes, count) in [(1, 3), (60, 2), (usize::MAX, 1)] {
            let items = items.clone().into_iter().peekable();
            let pieces = Pieces { kind: Arc::clone(&kind), items, next: Some(b"[".to_vec()), piece_bytes };
            let pieces = pieces.collect::<Result<Vec<_>>>().unwrap();
            assert_eq!(pieces.len(), count, "pieces of {piece_bytes}");
            assert_eq!(pieces.concat(), whole.as_bytes());
        }
    }

    #[test]
    fn tokens_round_trip_and_foreign_ones_are_refused() {
        let prefix = Bytes::from_static(b"/registry/core/pods/ns/");
        let text = token(7, &prefix, b"/registry/core/pods/ns/a");
        assert_eq!(parse_token(&text, &prefix).unwrap(), (Some(7), Bytes::from_static(b"/registry/core/pods/ns/a\0")));
        let escape = URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../secrets"}"#);
        for bad in ["x", "!!", "e30", escape.as_str()] {
            assert_eq!(parse_token(bad, &prefix).unwrap_err().code, 400, "{bad}");
        }
    }
}
