//! Waits that differ between those who wait, and are the same in every replay.

use std::time::Duration;

/// The parts that a wait is cut into.
const PARTS: u32 = 100_000;

/// `first` grown by `factor` per earlier attempt up to `max`, less up to a quarter by the hash of `seed` and `attempt`.
pub(crate) fn wait(first: Duration, factor: u32, max: Duration, attempt: u32, seed: &[u8]) -> Duration {
    let grown = factor.checked_pow(attempt).and_then(|times| first.checked_mul(times));
    let full = grown.map_or(max, |grown| grown.min(max));
    let less = hash(seed, attempt) % u64::from(PARTS / 4);
    full / PARTS * (PARTS - u32::try_from(less).expect("it is less than the number of parts"))
}

/// FNV-1a, then mixed so that attempts of one seed differ in more than their last bits.
fn hash(seed: &[u8], attempt: u32) -> u64 {
    let bytes = seed.iter().copied().chain(attempt.to_le_bytes());
    let folded = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mixed = (folded ^ (folded >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
