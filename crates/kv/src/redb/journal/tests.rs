use proptest::prelude::*;

use super::*;

const BLOCKS: usize = 16;

/// A journal in memory: appends frames as [`Journal`] does.
struct Pages {
    bytes: Vec<u8>,
    next: usize,
    frame: Vec<u8>,
}

impl Pages {
    fn new() -> Self {
        Self { bytes: vec![0; BLOCKS * BLOCK], next: 0, frame: Vec::new() }
    }

    fn append(&mut self, first: Revision, records: &[Vec<u8>]) -> bool {
        let room = (BLOCKS - self.next) * BLOCK;
        if !encode(&mut self.frame, first, records.iter().map(Vec::as_slice), room) {
            return false;
        }
        let at = self.next * BLOCK;
        self.bytes[at..at + self.frame.len()].copy_from_slice(&self.frame);
        self.next += self.frame.len() / BLOCK;
        true
    }
}

fn numbered(first: Revision, batches: &[Vec<Vec<u8>>]) -> Records {
    (first..).zip(batches.iter().flatten().cloned()).collect()
}

fn batches() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let record = prop::collection::vec(any::<u8>(), 0..3000);
    prop::collection::vec(prop::collection::vec(record, 1..4), 1..6)
}

proptest! {
    #[test]
    fn what_was_appended_is_recovered(older in batches(), newer in batches(), known in 0_u64..1000) {
        let mut pages = Pages::new();
        let mut first = known + 1;
        // A generation that redb has taken over lies beneath.
        for batch in &older {
            if pages.append(first, batch) {
                first += batch.len() as u64;
            }
        }
        let known = first;
        pages.next = 0;
        prop_assert_eq!(recover(&pages.bytes, known).unwrap(), vec![]);
        let mut kept = Vec::new();
        let mut first = known + 1;
        for batch in newer {
            if pages.append(first, &batch) {
                first += batch.len() as u64;
                kept.push(batch);
            }
        }
        prop_assert_eq!(recover(&pages.bytes, known).unwrap(), numbered(known + 1, &kept));
    }

    #[test]
    fn a_torn_frame_is_as_if_never_written(older in batches(), batch in batches(), cut in 0_usize..20_000) {
        let batch = batch.concat();
        let mut pages = Pages::new();
        let mut kept = Vec::new();
        for older in older {
            if pages.append(1 + kept.iter().map(Vec::len).sum::<usize>() as u64, &older) {
                kept.push(older);
            }
        }
        let before = pages.bytes.clone();
        let first = 1 + kept.iter().map(Vec::len).sum::<usize>() as u64;
        prop_assume!(pages.append(first, &batch));
        let whole = HEADER + batch.iter().map(|record| 4 + record.len()).sum::<usize>();
        let start = pages.next * BLOCK - pages.frame.len();
        let written = cut % whole;
        pages.bytes[start + written..].copy_from_slice(&before[start + written..]);
        prop_assume!(pages.bytes[start..start + whole] != pages.frame[..whole]);
        prop_assert_eq!(recover(&pages.bytes, 0).unwrap(), numbered(1, &kept));
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..3 * BLOCK), magic: bool) {
        if magic && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        }
        let _ = recover(&bytes, 7);
    }
}

#[test]
fn damage_before_a_sound_frame_and_gaps_are_refused() {
    let mut pages = Pages::new();
    for revision in 5..10 {
        assert!(pages.append(revision, &[vec![1; 5000]]));
    }
    assert_eq!(recover(&pages.bytes, 4).unwrap().len(), 5);
    assert_eq!(recover(&pages.bytes, 9).unwrap(), vec![]);
    assert!(recover(&pages.bytes, 3).is_err(), "revision 4 is missing");
    for block in 0..8 {
        let mut damaged = pages.bytes.clone();
        damaged[block * BLOCK + 100] ^= 1;
        assert!(recover(&damaged, 4).is_err(), "block {block}");
    }
    // The newest frame may be torn by a crash.
    pages.bytes[8 * BLOCK + 100] ^= 1;
    assert_eq!(recover(&pages.bytes, 4).unwrap().len(), 4);
}

#[test]
fn a_frame_that_does_not_fit_is_refused() {
    let mut pages = Pages::new();
    assert!(!pages.append(1, &[vec![0; BLOCKS * BLOCK]]));
    assert!(pages.append(1, &[vec![0; BLOCKS * BLOCK - HEADER - 4]]));
    assert!(!pages.append(2, &[vec![]]));
}
