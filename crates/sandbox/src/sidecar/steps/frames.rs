//! Facts about a sandbox as bytes: a length, a checksum, a kind and a content.

use prost::Message;
use sha2::{Digest, Sha256};
use thane_api::wire::sandbox::{BindRequest, Change, StepRecord};

/// Length and checksum in front of a fact.
pub(in crate::sidecar) const HEADER: usize = 12;
/// A fact longer than this is none: what steps are told and what they say is bounded far below.
pub(in crate::sidecar) const FACT_MAX: usize = 80 * 1024 * 1024;
const CHECKSUM: usize = 8;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sidecar) enum Fact {
    /// A step has ended.
    Ended(StepRecord),
    /// A step has begun; it says what was asked.
    Began(StepRecord),
    /// It belongs to a session, bound with this, which has that digest.
    Bound(BindRequest, Vec<u8>),
    /// Its files are those after this step; -1: as it was made.
    Moved(i64),
    /// Its executor is the one that is found there; with another, files are as they were made.
    Lives(String),
    /// Steps so far are forgotten: others take their place.
    Forgotten,
    /// A file was written or removed between steps; none: more than is recorded.
    Changed(Option<Change>),
}

impl Fact {
    /// As it is written.
    pub(in crate::sidecar) fn encode(&self) -> Vec<u8> {
        let (kind, content) = match self {
            Self::Ended(record) => (1, record.encode_to_vec()),
            Self::Began(record) => (2, record.encode_to_vec()),
            Self::Bound(bound, digest) => {
                let (name, digest) = (bound.session.clone(), digest.clone().into());
                // What was asked of a step that is none.
                let stdin = bound.encode_to_vec().into();
                let record = StepRecord { name, digest, stdin, ..StepRecord::default() };
                (3, record.encode_to_vec())
            }
            Self::Moved(step) => (4, step.to_be_bytes().to_vec()),
            Self::Lives(place) => (5, place.as_bytes().to_vec()),
            Self::Forgotten => (6, Vec::new()),
            Self::Changed(Some(change)) => (7, change.encode_to_vec()),
            Self::Changed(None) => (8, Vec::new()),
        };
        let length = u32::try_from(content.len() + 1).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(HEADER + content.len() + 1);
        bytes.extend(length.to_be_bytes());
        bytes.extend([0; CHECKSUM]);
        bytes.push(kind);
        bytes.extend(content);
        let checksum = checksum(&bytes[HEADER..]);
        bytes[4..HEADER].copy_from_slice(&checksum);
        bytes
    }

    /// The length of what follows a header.
    pub(in crate::sidecar) fn length(header: [u8; HEADER]) -> Option<usize> {
        let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        usize::try_from(length).ok().filter(|length| (1..=FACT_MAX).contains(length))
    }

    /// What follows a header; none if it is not what was written.
    pub(in crate::sidecar) fn decode(header: [u8; HEADER], content: &[u8]) -> Option<Self> {
        if checksum(content) != header[4..] {
            return None;
        }
        let (kind, content) = content.split_first()?;
        Some(match kind {
            1 => Self::Ended(StepRecord::decode(content).ok()?),
            2 => Self::Began(StepRecord::decode(content).ok()?),
            3 => {
                let record = StepRecord::decode(content).ok()?;
                let bound = BindRequest::decode(record.stdin).ok()?;
                Self::Bound(BindRequest { session: record.name, ..bound }, record.digest.to_vec())
            }
            4 => Self::Moved(i64::from_be_bytes(content.try_into().ok()?)),
            5 => Self::Lives(String::from_utf8(content.to_vec()).ok()?),
            6 => Self::Forgotten,
            7 => Self::Changed(Some(Change::decode(content).ok()?)),
            8 => Self::Changed(None),
            _ => return None,
        })
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let digest = Sha256::digest(bytes);
    std::array::from_fn(|at| digest[at])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn facts() -> impl Strategy<Value = Fact> {
        let record =
            (any::<i64>(), ".*", proptest::collection::vec(any::<u8>(), 0..200)).prop_map(|(index, name, stdout)| {
                StepRecord { index, name, stdout: stdout.into(), ..StepRecord::default() }
            });
        prop_oneof![
            record.clone().prop_map(Fact::Ended),
            record.prop_map(Fact::Began),
            (".*", ".*", proptest::collection::vec(any::<u8>(), 0..40)).prop_map(|(session, value, digest)| {
                let env = [("NAME".to_owned(), value)].into();
                Fact::Bound(BindRequest { session, env, files: Vec::new() }, digest)
            }),
            (".*", any::<bool>()).prop_map(|(path, removed)| {
                Fact::Changed((!path.is_empty()).then(|| Change { path, removed, ..Change::default() }))
            }),
            any::<i64>().prop_map(Fact::Moved),
            ".*".prop_map(Fact::Lives),
            Just(Fact::Forgotten),
        ]
    }

    fn split(bytes: &[u8]) -> ([u8; HEADER], &[u8]) {
        (bytes[..HEADER].try_into().unwrap(), &bytes[HEADER..])
    }

    proptest! {
        #[test]
        fn facts_are_read_as_written_and_never_otherwise(fact in facts(), at in any::<proptest::sample::Index>(), bit in 0..8_u32) {
            let bytes = fact.encode();
            let (header, content) = split(&bytes);
            prop_assert_eq!(Fact::length(header), Some(content.len()));
            prop_assert_eq!(Fact::decode(header, content), Some(fact));
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] ^= 1_u8 << bit;
            let (header, content) = split(&damaged);
            if Fact::length(header) == Some(content.len()) {
                prop_assert_eq!(Fact::decode(header, content), None);
            }
        }
    }
}
