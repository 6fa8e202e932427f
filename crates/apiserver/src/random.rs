//! The random parts of names, and ids.

/// Letters and digits that spell no words and are not mistaken for one another.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many a generated name ends with.
pub(crate) const SUFFIX_LEN: usize = 5;

/// Five random characters.
pub(crate) fn suffix() -> String {
    let bytes: [u8; SUFFIX_LEN] = rand::random();
    bytes.iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

/// A new id. Its randomness comes from this thread's generator, which the system seeds: no system call each time.
pub(crate) fn uid() -> String {
    uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string()
}
