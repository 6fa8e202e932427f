//! Everything in one piece: a mark with a version, entries, a checksum.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use sha2::{Digest, Sha256};

use super::error::Error;
use crate::registry::{State, Tables};

const MARK: &[u8] = b"thane registry 1\n";
const SUM_BYTES: usize = 32;
/// An index no registry has reached: it would be far too large for clients that count in floating point.
const INDEX_MAX: u64 = 1 << 52;
/// The entry that holds the index.
const STATE: &str = "m/state";

/// Writes everything.
pub(super) fn write(tables: &Tables) -> Bytes {
    let mut out = BytesMut::from(MARK);
    let state = serde_json::to_vec(&tables.state()).expect("numbers and a text have a JSON form");
    put(&mut out, STATE, &state);
    for (key, value) in tables.dump() {
        put(&mut out, &key, &value);
    }
    let sum = Sha256::digest(&out);
    out.put_slice(&sum);
    out.freeze()
}

/// Reads it again; nothing of a damaged one is believed.
pub(super) fn read(mut snapshot: Bytes) -> Result<Tables, Error> {
    let wrong = |why: &str| Error::Snapshot(why.to_owned());
    if !snapshot.starts_with(MARK) {
        return Err(wrong("it does not begin as one"));
    }
    if snapshot.len() < MARK.len() + SUM_BYTES {
        return Err(wrong("it is cut off"));
    }
    let sum = snapshot.split_off(snapshot.len() - SUM_BYTES);
    if sum != Sha256::digest(&snapshot).as_slice() {
        return Err(wrong("its checksum does not fit: it is cut off or damaged"));
    }
    snapshot.advance(MARK.len());
    let mut tables = Tables::default();
    while !snapshot.is_empty() {
        let key = take(&mut snapshot).ok_or_else(|| wrong("an entry is cut off"))?;
        let value = take(&mut snapshot).ok_or_else(|| wrong("an entry is cut off"))?;
        let key = std::str::from_utf8(&key).map_err(|_| wrong("a key is not text"))?;
        if key == STATE {
            let state: State = serde_json::from_slice(&value).map_err(|error| wrong(&error.to_string()))?;
            tables.load_state(state);
        } else {
            tables.load(key, &value)?;
        }
    }
    let index = tables.index();
    if index > INDEX_MAX || tables.iter().any(|(_, thing)| thing.modify_index() > index + 1) {
        return Err(wrong("its index makes no sense"));
    }
    Ok(tables)
}

fn put(out: &mut BytesMut, key: &str, value: &[u8]) {
    for part in [key.as_bytes(), value] {
        out.put_u64(part.len() as u64);
        out.put_slice(part);
    }
}

fn take(from: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(from.try_get_u64().ok()?).ok()?;
    (length <= from.len()).then(|| from.split_to(length))
}
