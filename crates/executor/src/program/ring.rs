//! The last part of what a process wrote, by offset.

use std::collections::VecDeque;

/// How much of a stream can be read again.
pub(super) const KEPT: usize = 1024 * 1024;

/// Bytes with the offset of the first.
#[derive(Debug, Default)]
pub(super) struct Ring {
    start: u64,
    bytes: VecDeque<u8>,
}

impl Ring {
    /// Adds bytes; the oldest beyond the bound are forgotten.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let excess = self.bytes.len().saturating_sub(KEPT);
        self.bytes.drain(..excess);
        self.start += excess as u64;
    }

    /// The offset after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// At most so many bytes from an offset, or from the first that is still kept; and where they begin.
    pub(super) fn read(&self, offset: u64, most: usize) -> (u64, Vec<u8>) {
        let from = offset.clamp(self.start, self.end());
        let skip = usize::try_from(from - self.start).unwrap_or(usize::MAX);
        (from, self.bytes.iter().skip(skip).take(most).copied().collect())
    }

    /// What it occupies.
    pub(super) fn held(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_bytes_stay_at_their_offsets() {
        let mut ring = Ring::default();
        assert_eq!(ring.read(9, 5), (0, vec![]));
        ring.push(b"hello");
        assert_eq!(ring.read(0, 3), (0, b"hel".to_vec()));
        assert_eq!(ring.read(3, 9), (3, b"lo".to_vec()));
        ring.push(&vec![b'x'; KEPT]);
        assert_eq!((ring.end(), ring.held()), (KEPT as u64 + 5, KEPT));
        assert_eq!(ring.read(0, 1), (5, b"x".to_vec()));
    }
}
