//! Reads that most requests are: answered from bytes that were written when the topic last changed.

use bytes::Bytes;
use http::header::CACHE_CONTROL;
use http::{Method, StatusCode};

use super::Consul;
use super::headers::{Detail, put_policy, put_reading};
use super::health::is_passing;
use super::options::ReadOptions;
use super::view::{CatalogView, HealthView, KvView};
use crate::backend::{Consistency, Reading};
use crate::http::{Answer, Head};
use crate::topic::{Instance, Memo, Row, Topic, TopicData};

impl Consul {
    /// The answer, if it is one of the hot reads and can be given at once.
    pub(super) fn hot(&self, head: &Head<'_>) -> Option<Answer> {
        let unusual = head.path.contains(['%', '+']) || head.headers.contains_key(CACHE_CONTROL);
        if head.method != Method::GET || unusual || !self.guard.is_open() {
            return None;
        }
        let (options, passing) = simple(head.query.unwrap_or_default())?;
        let (topic, memo, detail) = subject(head.path, passing)?;
        let reading = self.backend.ready(&topic, options.consistency)?;
        if memo == Memo::Plain && reading.data.rows.is_empty() {
            return None;
        }
        let mut answer = shared(memo, &reading, &options, detail);
        put_policy(&mut answer.headers, true);
        Some(answer)
    }
}

/// An answer of bytes that are made once for a topic's content: whoever waited for it gets the same.
pub(super) fn shared(memo: Memo, reading: &Reading, options: &ReadOptions, detail: Detail) -> Answer {
    let body = reading.data.memo(memo, || written(memo, &reading.data));
    let mut answer = Answer::json(StatusCode::OK, body);
    put_reading(&mut answer.headers, reading, options, detail);
    answer
}

/// What a path without anything unusual in it asks for.
fn subject(path: &str, passing: bool) -> Option<(Topic, Memo, Detail)> {
    let path = path.strip_prefix("/v1/")?;
    if let Some(key) = path.strip_prefix("kv/") {
        // Keys that the long way would clean or refuse.
        let unusual =
            key.is_empty() || passing || key.contains("//") || key.split('/').any(|part| matches!(part, "." | ".."));
        return (!unusual && !key.starts_with('/')).then(|| (Topic::Key(key.to_owned()), Memo::Plain, Detail::Plain));
    }
    let (name, memo) = if let Some(name) = path.strip_prefix("health/service/") {
        (name, if passing { Memo::Passing } else { Memo::Health })
    } else {
        (path.strip_prefix("catalog/service/").filter(|_| !passing)?, Memo::Catalog)
    };
    (!name.is_empty()).then(|| (Topic::Service(name.to_lowercase()), memo, Detail::Consistency))
}

/// Parameters that do not change what is answered, only how fresh it must be.
fn simple(query: &str) -> Option<(ReadOptions, bool)> {
    let (mut options, mut passing) = (ReadOptions::default(), false);
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=').unwrap_or((part, "")) {
            ("stale", _) => options.consistency = Consistency::Stale,
            ("passing", "" | "1" | "true") => passing = true,
            ("cached", _) => options.cached = true,
            _ => return None,
        }
    }
    Some((options, passing))
}

fn written(memo: Memo, data: &TopicData) -> Bytes {
    let text = match memo {
        Memo::Health => serde_json::to_vec(&instances(data).map(HealthView::new).collect::<Vec<_>>()),
        Memo::Passing => {
            serde_json::to_vec(&instances(data).filter(|it| is_passing(it)).map(HealthView::new).collect::<Vec<_>>())
        }
        Memo::Catalog => serde_json::to_vec(&instances(data).map(CatalogView::new).collect::<Vec<_>>()),
        Memo::Plain => serde_json::to_vec(&entries(data).map(KvView::new).collect::<Vec<_>>()),
    };
    Bytes::from(text.expect("text, numbers and lists of them can always be written as JSON"))
}

/// The instances of a topic.
pub(super) fn instances(data: &TopicData) -> impl Iterator<Item = &Instance> {
    data.rows.iter().filter_map(|row| match row {
        Row::Instance(instance) => Some(instance.as_ref()),
        _ => None,
    })
}

/// The keys of a topic.
pub(super) fn entries(data: &TopicData) -> impl Iterator<Item = &crate::model::Indexed<crate::model::KvEntry>> {
    data.rows.iter().filter_map(|row| match row {
        Row::Key(entry) => Some(entry),
        _ => None,
    })
}
