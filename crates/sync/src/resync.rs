//! Messages that compare what both sides have: upstream's, byte for byte, and our own digests.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::checksum;
use crate::link::Peer;
use crate::mapping::{self, Reason, Refusal};
use crate::object::{self, Kind};

/// Capability of a peer that compares by digest.
pub const DIGEST: &str = "digest";
/// Capability of a peer whose digests also cover where an Application is deployed to.
pub const PLACES: &str = "digest-places";
/// Capability of a peer that wants an answer to its pings.
pub const PONG: &str = "pong";

/// Objects in one message of digests.
pub const ITEMS_MAX: usize = 1_000;

/// A checksum as Go writes bytes: base64, or null for none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checksum(pub Option<Vec<u8>>);

impl Serialize for Checksum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().map(|bytes| BASE64_STANDARD.encode(bytes)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Self(None)) };
        BASE64_STANDARD.decode(text).map(|bytes| Self(Some(bytes))).map_err(serde::de::Error::custom)
    }
}

/// Ours: what a request for a comparison says besides; upstream's and older ones of ours say nothing and read nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestResync {
    /// Whether everything is to be sent again, the same or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub everything: bool,
}

/// "What do you have? I have this much."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestList {
    /// Over the sender's inventory.
    #[serde(default)]
    pub checksum: Checksum,
}

/// "I have this one."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncedResource {
    /// Its name.
    pub name: String,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The uid both sides know it by.
    #[serde(default)]
    pub uid: String,
    /// Its kind.
    pub kind: String,
}

/// "Send me this one if it differs."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestUpdate {
    /// Its name.
    pub name: String,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The uid both sides know it by; empty when the sender lacks it.
    #[serde(default)]
    pub uid: String,
    /// Its kind.
    pub kind: String,
    /// Over the sender's copy; none when it lacks it.
    #[serde(default)]
    pub checksum: Checksum,
}

/// Ours: one digest over everything the sender has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// Over all objects, in order.
    pub digest: Checksum,
    /// How many.
    pub count: usize,
}

/// Ours: the digests of single objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestItems {
    /// Which comparison they belong to: the digest that differed.
    pub round: Checksum,
    /// Whether more follow.
    pub more: bool,
    /// The objects.
    pub items: Vec<DigestItem>,
}

/// Ours: one object's digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestItem {
    /// Its kind.
    pub kind: String,
    /// Its namespace on the hub.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name on the hub.
    pub name: String,
    /// The uid both sides know it by.
    pub uid: String,
    /// Over what its source decides.
    pub spec: Checksum,
    /// Over what was observed of it.
    pub status: Checksum,
}

/// Reads a message.
pub fn read<'a, T: Deserialize<'a>>(data: &'a Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(data).map_err(|error| Refusal::new(Reason::Invalid, format!("its body: {error}")))
}

/// The kind that a message names.
pub fn kind(name: &str) -> Result<Kind, Refusal> {
    Kind::of_name(name).ok_or_else(|| Refusal::new(Reason::Invalid, format!("kind {name:?} is not kept in step")))
}

/// Writes a message.
pub fn write<T: Serialize>(message: &T) -> Bytes {
    Bytes::from(serde_json::to_vec(message).expect("these messages have no keys that JSON lacks"))
}

/// One side's digests by object, and the one over them all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Kind, namespace and name on the hub.
    pub items: BTreeMap<(String, String, String), Entry>,
    /// Whether digests cover where an Application is deployed to: both sides must be of a version that does.
    places: bool,
}

/// What one object's digest is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The uid both sides know it by.
    pub uid: String,
    /// Over what its source decides.
    pub spec: [u8; 32],
    /// Over what was observed of it.
    pub status: [u8; 32],
}

impl Inventory {
    /// An empty one, for a comparison with that peer.
    pub fn with(peer: Option<&Peer>) -> Self {
        Self { places: peer.is_some_and(|peer| peer.can(PLACES)), ..Self::default() }
    }

    /// Adds an object under its name on the hub; `is_ending` is whether the other side is to delete it too.
    pub fn add(&mut self, kind: Kind, namespace: String, name: &str, object: &Value, is_ending: bool) {
        let uid = object::origin_uid(object);
        let mut spec = Sha256::new();
        spec.update(checksum::spec_checksum(kind, object).unwrap_or_default());
        spec.update(checksum::go_json(&mapping::shared_metadata(object)));
        spec.update([u8::from(is_ending)]);
        if self.places && kind == Kind::Application {
            spec.update(checksum::go_json(&mapping::shared_destination(object)));
        }
        let spec = spec.finalize().into();
        let mut status = Sha256::new();
        if kind == Kind::Application {
            for part in [&object["status"], &object["operation"]] {
                let json = checksum::go_json(part);
                status.update((json.len() as u64).to_be_bytes());
                status.update(json);
            }
        }
        let status = status.finalize().into();
        let entry = Entry { uid: uid.to_owned(), spec, status };
        self.items.insert((kind.name().to_owned(), namespace, name.to_owned()), entry);
    }

    /// One digest over everything.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for ((kind, namespace, name), entry) in &self.items {
            for text in [kind, namespace, name, &entry.uid] {
                hash.update((text.len() as u64).to_be_bytes());
                hash.update(text.as_bytes());
            }
            hash.update(entry.spec);
            hash.update(entry.status);
        }
        hash.finalize().into()
    }

    /// The single digests, in messages of bounded size; at least one.
    pub fn messages(&self, round: &Checksum) -> Vec<DigestItems> {
        let items: Vec<DigestItem> = self.items.iter().map(|(key, entry)| entry.item(key)).collect();
        let chunks = items.chunks(ITEMS_MAX);
        let last = chunks.len().saturating_sub(1);
        let mut messages: Vec<DigestItems> = chunks
            .enumerate()
            .map(|(number, items)| DigestItems { round: round.clone(), more: number < last, items: items.to_vec() })
            .collect();
        if messages.is_empty() {
            messages.push(DigestItems { round: round.clone(), more: false, items: Vec::new() });
        }
        messages
    }
}

impl Entry {
    fn item(&self, (kind, namespace, name): &(String, String, String)) -> DigestItem {
        DigestItem {
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            uid: self.uid.clone(),
            spec: Checksum(Some(self.spec.to_vec())),
            status: Checksum(Some(self.status.to_vec())),
        }
    }

    /// Whether both have the same source and content of it.
    pub fn same_spec(&self, item: &DigestItem) -> bool {
        self.uid == item.uid && item.spec.0.as_deref() == Some(self.spec.as_slice())
    }

    /// Whether both have observed the same.
    pub fn same_status(&self, item: &DigestItem) -> bool {
        item.status.0.as_deref() == Some(self.status.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(data: &Bytes) -> [bool; 6] {
        [
            read::<RequestResync>(data).is_ok(),
            read::<RequestList>(data).is_ok(),
            read::<SyncedResource>(data).is_ok(),
            read::<RequestUpdate>(data).is_ok(),
            read::<Digest>(data).is_ok(),
            read::<DigestItems>(data).is_ok(),
        ]
    }

    fn checksum() -> impl Strategy<Value = Checksum> {
        // None and no bytes are the same to Go.
        prop::option::of(prop::collection::vec(any::<u8>(), 1..40)).prop_map(Checksum)
    }

    fn item() -> impl Strategy<Value = DigestItem> {
        (any::<[String; 4]>(), checksum(), checksum()).prop_map(|([kind, namespace, name, uid], spec, status)| {
            DigestItem { kind, namespace, name, uid, spec, status }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            read_all(&Bytes::from(bytes));
        }

        #[test]
        fn any_json_is_read_or_refused(field in "[a-z]{1,8}", text in any::<String>(), number in any::<i64>()) {
            for value in [serde_json::json!(text), serde_json::json!(number), Value::Null, serde_json::json!([number])] {
                for name in ["checksum", "digest", "count", "round", "items", "more", "name", "kind", "everything", &field] {
                    let body = serde_json::json!({"name": "a", "kind": "Application", name: value});
                    read_all(&write(&body));
                }
            }
        }

        #[test]
        fn what_is_written_is_read_back(
            round in checksum(),
            more in any::<bool>(),
            items in prop::collection::vec(item(), 0..5),
            [name, namespace, uid, kind] in any::<[String; 4]>(),
            everything in any::<bool>(),
        ) {
            let update =
                RequestUpdate { name: name.clone(), namespace: namespace.clone(), uid: uid.clone(), kind: kind.clone(), checksum: round.clone() };
            prop_assert_eq!(read::<RequestUpdate>(&write(&update)).ok(), Some(update));
            let synced = SyncedResource { name, namespace, uid, kind };
            prop_assert_eq!(read::<SyncedResource>(&write(&synced)).ok(), Some(synced));
            let list = RequestList { checksum: round.clone() };
            prop_assert_eq!(read::<RequestList>(&write(&list)).ok(), Some(list));
            let digest = Digest { digest: round.clone(), count: items.len() };
            prop_assert_eq!(read::<Digest>(&write(&digest)).ok(), Some(digest));
            let items = DigestItems { round, more, items };
            prop_assert_eq!(read::<DigestItems>(&write(&items)).ok(), Some(items));
            let resync = RequestResync { everything };
            prop_assert_eq!(read::<RequestResync>(&write(&resync)).ok(), Some(resync));
        }
    }
}
