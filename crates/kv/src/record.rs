//! How entries and changes are laid out as bytes.
//!
//! Numbers are LEB128 varints. An entry is `create, modified, version, lease, value…` (lease zero: none). A log record
//! holds all changes of one revision: eight bytes of running log size, the number of changes, then for each change a
//! byte of flags, the key, and the new and previous entry with their values' lengths.

use std::sync::Arc;

use bytes::Bytes;

use crate::fault::Fault;
use crate::store::{Entry, Event, Revision};

const HAS_ENTRY: u8 = 1;
const HAS_PREVIOUS: u8 = 2;

/// An entry still in its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordRef<'a> {
    create: Revision,
    modified: Revision,
    version: u64,
    lease: u64,
    value: &'a [u8],
}

impl<'a> RecordRef<'a> {
    /// Reads what [`encode_entry`] wrote.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Fault> {
        let mut cursor = Cursor { rest: bytes };
        let mut record = cursor.numbers()?;
        record.value = cursor.rest;
        Ok(record)
    }

    /// The entry with its bytes copied out.
    pub(crate) fn to_entry(self, key: Bytes, keys_only: bool) -> Entry {
        let value = if keys_only { Bytes::new() } else { Bytes::copy_from_slice(self.value) };
        Entry {
            key,
            value,
            create_revision: self.create,
            mod_revision: self.modified,
            version: self.version,
            lease: (self.lease != 0).then_some(self.lease),
        }
    }
}

/// Replaces the content of `buffer` with the entry's record (without its key).
pub(crate) fn encode_entry(buffer: &mut Vec<u8>, entry: &Entry) {
    buffer.clear();
    put_numbers(buffer, entry);
    buffer.extend_from_slice(&entry.value);
}

/// Appends the log record of one revision to `buffer`.
pub(crate) fn encode_changes(buffer: &mut Vec<u8>, log_bytes: u64, events: &[Arc<Event>]) {
    buffer.extend_from_slice(&log_bytes.to_le_bytes());
    put_number(buffer, events.len() as u64);
    for event in events {
        let entry = event.entry.as_ref().map_or(0, |_| HAS_ENTRY);
        let previous = event.previous.as_ref().map_or(0, |_| HAS_PREVIOUS);
        buffer.push(entry | previous);
        put_bytes(buffer, &event.key);
        for side in [&event.entry, &event.previous].into_iter().flatten() {
            put_numbers(buffer, side);
            put_bytes(buffer, &side.value);
        }
    }
}

/// The running size of the log up to and including this record.
pub(crate) fn log_bytes(record: &[u8]) -> Result<u64, Fault> {
    let head = record.first_chunk().ok_or_else(short)?;
    Ok(u64::from_le_bytes(*head))
}

/// Hands the changes of a log record whose key is wanted to `found`.
pub(crate) fn decode_changes(
    revision: Revision,
    record: &[u8],
    wanted: &mut dyn FnMut(&[u8]) -> bool,
    found: &mut dyn FnMut(Arc<Event>),
) -> Result<(), Fault> {
    let mut cursor = Cursor { rest: record };
    cursor.take(size_of::<u64>())?;
    for _ in 0..cursor.number()? {
        let flags = cursor.take(1)?[0];
        let key = cursor.bytes()?;
        let entry = cursor.side(flags & HAS_ENTRY != 0)?;
        let previous = cursor.side(flags & HAS_PREVIOUS != 0)?;
        if wanted(key) {
            let key = Bytes::copy_from_slice(key);
            let own = |side: Option<RecordRef<'_>>| side.map(|record| record.to_entry(key.clone(), false));
            let (entry, previous) = (own(entry), own(previous));
            found(Arc::new(Event { key, revision, entry, previous }));
        }
    }
    Ok(())
}

/// About how much memory and log an event takes.
pub(crate) fn event_bytes(event: &Event) -> usize {
    let side = |entry: &Option<Entry>| entry.as_ref().map_or(0, |entry| entry.value.len() + 16);
    event.key.len() + side(&event.entry) + side(&event.previous)
}

fn put_numbers(buffer: &mut Vec<u8>, entry: &Entry) {
    for number in [entry.create_revision, entry.mod_revision, entry.version, entry.lease.unwrap_or(0)] {
        put_number(buffer, number);
    }
}

fn put_bytes(buffer: &mut Vec<u8>, bytes: &[u8]) {
    put_number(buffer, bytes.len() as u64);
    buffer.extend_from_slice(bytes);
}

fn put_number(buffer: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        buffer.push(low_bits(number) | 0x80);
        number >>= 7;
    }
    buffer.push(low_bits(number));
}

fn low_bits(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

fn short() -> Fault {
    Fault::Damaged("a record ends early".into())
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, Fault> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Fault::Damaged("a record holds an endless number".into()))
    }

    fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.number()?;
        self.take(usize::try_from(length).map_err(|_| short())?)
    }

    fn numbers(&mut self) -> Result<RecordRef<'a>, Fault> {
        let (create, modified, version) = (self.number()?, self.number()?, self.number()?);
        Ok(RecordRef { create, modified, version, lease: self.number()?, value: &[] })
    }

    fn side(&mut self, present: bool) -> Result<Option<RecordRef<'a>>, Fault> {
        if !present {
            return Ok(None);
        }
        let mut record = self.numbers()?;
        record.value = self.bytes()?;
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from)
    }

    fn entry(key: Bytes) -> impl Strategy<Value = Entry> {
        (bytes(300), any::<u64>(), any::<u64>(), any::<u64>(), any::<Option<u64>>()).prop_map(
            move |(value, create_revision, mod_revision, version, lease)| Entry {
                key: key.clone(),
                value,
                create_revision,
                mod_revision,
                version,
                lease: lease.filter(|lease| *lease != 0),
            },
        )
    }

    fn event() -> impl Strategy<Value = Arc<Event>> {
        bytes(40).prop_flat_map(|key| {
            (prop::option::of(entry(key.clone())), prop::option::of(entry(key.clone())))
                .prop_map(move |(entry, previous)| Arc::new(Event { key: key.clone(), revision: 7, entry, previous }))
        })
    }

    fn decode_all(record: &[u8]) -> Result<Vec<Arc<Event>>, Fault> {
        let mut found = Vec::new();
        decode_changes(7, record, &mut |_| true, &mut |event| found.push(event))?;
        Ok(found)
    }

    proptest! {
        #[test]
        fn an_entry_survives(entry in entry(Bytes::from_static(b"k"))) {
            let mut buffer = vec![1, 2, 3];
            encode_entry(&mut buffer, &entry);
            let decoded = RecordRef::decode(&buffer).unwrap().to_entry(entry.key.clone(), false);
            prop_assert_eq!(decoded, entry);
        }

        #[test]
        fn changes_survive_and_their_beginnings_are_refused(events in prop::collection::vec(event(), 1..5)) {
            let mut buffer = Vec::new();
            encode_changes(&mut buffer, 99, &events);
            prop_assert_eq!(log_bytes(&buffer).unwrap(), 99);
            prop_assert_eq!(decode_all(&buffer).unwrap(), events);
            for cut in 0..buffer.len() {
                prop_assert!(decode_all(&buffer[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = RecordRef::decode(&bytes);
            let _ = decode_all(&bytes);
        }
    }
}
