//! The content of a topic as it is held: open, as readers use it, or folded, which takes a tenth of the room.

use std::sync::Arc;

use crate::model::Index;
use crate::topic::{Row, Topic, TopicData};

use super::limits::Sort;

/// About what an open row takes: an instance, its checks, and its part of an answer that is kept.
const ROW_BYTES: usize = 2_500;

/// What a key takes besides itself and its value.
const KEY_BYTES: usize = 250;

/// The content of a topic.
pub(super) enum Held {
    /// As readers use it.
    Open(Arc<TopicData>),
    /// The rows as compressed JSON.
    Folded(Index, Box<[u8]>),
}

impl Held {
    pub(super) fn index(&self) -> Index {
        match self {
            Self::Open(data) => data.index,
            Self::Folded(index, _) => *index,
        }
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Open(data) => data.rows.iter().map(row_bytes).sum(),
            Self::Folded(_, bytes) => bytes.len(),
        }
    }

    /// The same, folded; `None` if it is already, or cannot be.
    pub(super) fn folded(&self) -> Option<Self> {
        let Self::Open(data) = self else { return None };
        let rows = serde_json::to_vec(&data.rows).ok()?;
        let bytes = snap::raw::Encoder::new().compress_vec(&rows).ok()?;
        Some(Self::Folded(data.index, bytes.into_boxed_slice()))
    }

    /// What readers use; `share` is given rows that are made for it.
    pub(super) fn content(&self, share: impl FnOnce(&mut [Row])) -> Option<Arc<TopicData>> {
        match self {
            Self::Open(data) => Some(Arc::clone(data)),
            Self::Folded(index, bytes) => {
                let rows = snap::raw::Decoder::new().decompress_vec(bytes).ok()?;
                let mut rows: Vec<Row> = serde_json::from_slice(&rows).ok()?;
                share(&mut rows);
                Some(Arc::new(TopicData::new(*index, rows)))
            }
        }
    }
}

fn row_bytes(row: &Row) -> usize {
    match row {
        Row::Key(entry) => KEY_BYTES + entry.value.key.len() + entry.value.value.len(),
        Row::Event(event) => KEY_BYTES + event.value.payload.len(),
        _ => ROW_BYTES,
    }
}

/// About how many bytes the content of a topic takes while it is open and could be saved; keys are not folded, their
/// values take what they take.
pub(super) fn weight(topic: &Topic, data: &TopicData) -> usize {
    if Sort::of(topic) == Sort::Kv { 0 } else { data.rows.len() * ROW_BYTES }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Check, CheckDefinition, Indexed, Node, Service, Status};
    use crate::topic::Instance;

    fn indexed<T>(value: T) -> Indexed<T> {
        Indexed { create_index: 3, modify_index: 4, value: Arc::new(value) }
    }

    /// Ten instances as services have them.
    pub(in crate::agent::followed) fn web(name: &str) -> TopicData {
        let instance = |number: u16| {
            let meta = [("version".to_owned(), "1.4.2".to_owned())];
            let node = Node { name: format!("n{number}"), address: format!("10.0.0.{number}"), ..Node::default() };
            let service = Service {
                id: format!("{name}-{number}"),
                name: name.to_owned(),
                tags: vec!["v1".to_owned(), "ü \"quoted\"".to_owned()],
                port: 8000 + number,
                meta: meta.into(),
                ..Service::default()
            };
            let check = Check {
                id: format!("service:{name}-{number}"),
                name: "http".to_owned(),
                status: Status::Warning,
                notes: String::new(),
                output: "HTTP GET http://10.1.0.1/health: 429".to_owned(),
                service_id: service.id.clone(),
                service_name: name.to_owned(),
                service_tags: service.tags.clone(),
                kind: "http".to_owned(),
                definition: CheckDefinition { interval: Duration::from_millis(1_500), ..CheckDefinition::default() }
                    .into(),
            };
            Row::Instance(Arc::new(Instance {
                node: indexed(node),
                service: indexed(service),
                checks: vec![indexed(check)],
            }))
        };
        TopicData::new(9, (0..10).map(instance).collect())
    }

    #[test]
    fn what_is_folded_is_the_same_again_and_takes_a_fraction() {
        let data = Arc::new(web("web"));
        let folded = Held::Open(Arc::clone(&data)).folded().expect("it can be");
        assert_eq!(folded.index(), data.index);
        let mut shared = 0;
        assert_eq!(folded.content(|rows| shared = rows.len()).as_ref(), Some(&data));
        assert_eq!(shared, 10);
        let Held::Folded(_, bytes) = &folded else { panic!("it is open") };
        let (folds, opens) = (bytes.len(), weight(&Topic::Service("web".to_owned()), &data));
        assert!(folds * 8 < opens, "{folds} of {opens} bytes");
        assert!(folded.folded().is_none(), "once is enough");
        assert!(Held::Folded(9, Box::from(*b"nonsense")).content(|_| {}).is_none());
    }
}
