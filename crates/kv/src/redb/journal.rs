//! The part of the file in which a batch becomes durable with one short write.
//!
//! A batch that changes nothing but entries is written here, as one frame of its log records, and synced. Redb gets the
//! same changes without a sync and makes all of them durable when the journal is full; then the journal begins again
//! from its start. Whoever opens a file that was not closed applies the frames that redb does not know of.

use std::sync::Arc;

use super::file::{BLOCK, Disk, Layout};
use crate::fault::Fault;
use crate::store::Revision;

const MAGIC: u64 = u64::from_le_bytes(*b"tkvframe");
/// Magic, first revision, number of records, bytes of records, checksum of all that and the records.
const HEADER: usize = 40;
const CHECKSUM_AT: usize = 32;

/// Log records of successive revisions.
pub(super) type Records = Vec<(Revision, Vec<u8>)>;

/// Where the next frame goes.
pub(super) struct Journal {
    disk: Arc<dyn Disk>,
    blocks: usize,
    next: usize,
    frame: Vec<u8>,
}

impl Journal {
    pub(super) fn new(disk: Arc<dyn Disk>, layout: Layout) -> Self {
        let blocks = usize::try_from(layout.journal_bytes / BLOCK as u64).unwrap_or(usize::MAX);
        Self { disk, blocks, next: 0, frame: Vec::new() }
    }

    /// Whether redb knows of everything.
    pub(super) fn is_empty(&self) -> bool {
        self.next == 0
    }

    /// Begins again: redb has made everything durable.
    pub(super) fn restart(&mut self) {
        self.next = 0;
    }

    /// Makes the records of the revisions from `first` on durable; says no where there is no room for them.
    pub(super) fn append<'r>(
        &mut self,
        first: Revision,
        records: impl Iterator<Item = &'r [u8]>,
    ) -> Result<bool, Fault> {
        if !encode(&mut self.frame, first, records, (self.blocks - self.next) * BLOCK) {
            return Ok(false);
        }
        let at = (1 + self.next) as u64 * BLOCK as u64;
        let medium = |error: std::io::Error| Fault::Medium(error.to_string());
        self.disk.write_at(&self.frame, at).map_err(medium)?;
        self.disk.sync().map_err(medium)?;
        self.next += self.frame.len() / BLOCK;
        Ok(true)
    }

    /// The records of all revisions after `known`, the newest that redb has.
    pub(super) fn recover(&self, known: Revision) -> Result<Records, Fault> {
        let mut bytes = vec![0; self.blocks * BLOCK];
        self.disk.read_at(&mut bytes, BLOCK as u64).map_err(|error| Fault::Medium(error.to_string()))?;
        recover(&bytes, known)
    }
}

/// Replaces the content of `frame` with a frame of whole blocks, unless it would have more than `room` bytes.
fn encode<'r>(frame: &mut Vec<u8>, first: Revision, records: impl Iterator<Item = &'r [u8]>, room: usize) -> bool {
    frame.clear();
    frame.resize(HEADER, 0);
    let mut count: u64 = 0;
    for record in records {
        let Ok(length) = u32::try_from(record.len()) else { return false };
        if frame.len() + size_of::<u32>() + record.len() > room {
            return false;
        }
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(record);
        count += 1;
    }
    let body = (frame.len() - HEADER) as u64;
    for (at, number) in [MAGIC, first, count, body].into_iter().enumerate() {
        frame[8 * at..8 * (at + 1)].copy_from_slice(&number.to_le_bytes());
    }
    let sum = checksum(frame);
    frame[CHECKSUM_AT..HEADER].copy_from_slice(&sum.to_le_bytes());
    frame.resize(frame.len().next_multiple_of(BLOCK), 0);
    frame.len() <= room
}

struct Frame<'b> {
    first: Revision,
    count: u64,
    body: &'b [u8],
    blocks: usize,
}

impl<'b> Frame<'b> {
    /// The frame that begins with these bytes, if it is whole.
    fn decode(bytes: &'b [u8]) -> Option<Self> {
        let number = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let (magic, first, count, sum) = (number(0)?, number(8)?, number(16)?, number(CHECKSUM_AT)?);
        if magic != MAGIC {
            return None;
        }
        let end = HEADER.checked_add(usize::try_from(number(24)?).ok()?)?;
        let frame = bytes.get(..end)?;
        let mut hash = Checksum::new(frame.len());
        hash.add(&frame[..CHECKSUM_AT]);
        hash.add(&[0; HEADER - CHECKSUM_AT]);
        hash.add(&frame[HEADER..]);
        let sound = hash.finish() == sum;
        sound.then(|| Self { first, count, body: &frame[HEADER..], blocks: end.div_ceil(BLOCK) })
    }

    fn records(&self, records: &mut Records) -> Option<()> {
        let mut rest = self.body;
        for revision in self.first..self.first.checked_add(self.count)? {
            let (length, tail) = rest.split_first_chunk()?;
            let (record, tail) = tail.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
            records.push((revision, record.to_vec()));
            rest = tail;
        }
        rest.is_empty().then_some(())
    }
}

/// The records of all revisions after `known` in the bytes of a journal.
///
/// Frames are synced one after the other, so only the newest can be broken without anything being lost: a sound one of
/// a later revision behind a broken one means damage, as does a gap.
fn recover(bytes: &[u8], known: Revision) -> Result<Records, Fault> {
    let mut records = Vec::new();
    let (mut block, mut expected) = (0, known + 1);
    while let Some(frame) = bytes.get(block * BLOCK..).and_then(Frame::decode) {
        if frame.first.saturating_add(frame.count) <= expected {
            if block == 0 {
                return Ok(records);
            }
            break;
        }
        if frame.first != expected {
            return Err(Fault::Damaged(format!("its journal lacks revision {expected}")));
        }
        frame.records(&mut records).ok_or_else(|| Fault::Damaged("its journal makes no sense".into()))?;
        expected += frame.count;
        block += frame.blocks;
    }
    let later = bytes.chunks_exact(BLOCK).enumerate().skip(block + 1).any(|(block, head)| {
        head.starts_with(&MAGIC.to_le_bytes())
            && Frame::decode(&bytes[block * BLOCK..]).is_some_and(|frame| frame.first >= expected)
    });
    if later {
        return Err(Fault::Damaged(format!("its journal is broken at revision {expected}")));
    }
    Ok(records)
}

/// A checksum against torn and overwritten blocks, not against people.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let mut hash = Checksum::new(bytes.len());
    hash.add(bytes);
    hash.finish()
}

/// Takes eight bytes at a time. Each step is a bijection, so one changed word always changes the result.
struct Checksum(u64);

impl Checksum {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    fn new(length: usize) -> Self {
        Self((length as u64).wrapping_mul(Self::FACTOR))
    }

    /// Adds bytes; all but the last ones must come in multiples of eight.
    fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.step(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.step(u64::from_le_bytes(word));
        }
    }

    fn step(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(Self::FACTOR).rotate_left(31);
    }

    fn finish(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(Self::FACTOR);
        mixed ^ (mixed >> 29)
    }
}

#[cfg(test)]
mod tests;
