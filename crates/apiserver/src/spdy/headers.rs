//! Blocks of headers, packed with one history per direction of a connection.

use std::collections::BTreeMap;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::dictionary::{ADLER, DICTIONARY};
use super::{Broken, HEADERS_MAX};

/// Names in lower case, with their values.
pub(crate) type Headers = BTreeMap<String, String>;

/// The history of what was received.
pub(super) struct Unpacker(Decompress);

impl Default for Unpacker {
    fn default() -> Self {
        Self(Decompress::new(true))
    }
}

impl Unpacker {
    /// Headers from a block.
    pub(super) fn headers(&mut self, block: &[u8]) -> Result<Headers, Broken> {
        read(&self.unpack(block)?)
    }

    fn unpack(&mut self, block: &[u8]) -> Result<Vec<u8>, Broken> {
        let mut plain = vec![0; HEADERS_MAX + 1];
        let (mut taken, mut made) = (0, 0);
        while taken < block.len() {
            let (taken_before, made_before) = (self.0.total_in(), self.0.total_out());
            let result = self.0.decompress(&block[taken..], &mut plain[made..], FlushDecompress::Sync);
            let (now_taken, now_made) = (self.0.total_in() - taken_before, self.0.total_out() - made_before);
            taken += usize::try_from(now_taken).unwrap_or_default();
            made += usize::try_from(now_made).unwrap_or_default();
            if made > HEADERS_MAX {
                return Err(Broken::HeadersTooLarge);
            }
            match result {
                Err(error) if error.needs_dictionary() == Some(ADLER) => {
                    self.0.set_dictionary(&DICTIONARY).map_err(|_| Broken::Compression)?;
                }
                Ok(Status::Ok | Status::BufError) if now_taken > 0 || now_made > 0 => {}
                Ok(_) | Err(_) => return Err(Broken::Compression),
            }
        }
        plain.truncate(made);
        Ok(plain)
    }
}

/// The history of what was sent.
pub(super) struct Packer(Compress);

impl Packer {
    pub(super) fn new() -> Result<Self, Broken> {
        let mut compress = Compress::new(Compression::best(), true);
        compress.set_dictionary(&DICTIONARY).map_err(|_| Broken::Compression)?;
        Ok(Self(compress))
    }

    /// The block of headers.
    pub(super) fn block(&mut self, headers: &Headers) -> Result<Vec<u8>, Broken> {
        let plain = write(headers)?;
        let mut block = Vec::with_capacity(plain.len() + 64);
        let mut taken = 0;
        loop {
            let before = self.0.total_in();
            let result = self.0.compress_vec(&plain[taken..], &mut block, FlushCompress::Sync);
            result.map_err(|_| Broken::Compression)?;
            taken += usize::try_from(self.0.total_in() - before).unwrap_or_default();
            if taken == plain.len() && block.len() < block.capacity() {
                return Ok(block);
            }
            block.reserve(plain.len() + 64);
        }
    }
}

fn read(plain: &[u8]) -> Result<Headers, Broken> {
    let mut rest = plain;
    let mut headers = Headers::new();
    let count = number(&mut rest)?;
    for _ in 0..count {
        let name = text(&mut rest)?;
        let value = text(&mut rest)?;
        if name.is_empty() || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(Broken::Malformed("a header's name is empty or not in lower case"));
        }
        if headers.insert(name, value).is_some() {
            return Err(Broken::Malformed("a header comes twice"));
        }
    }
    if rest.is_empty() { Ok(headers) } else { Err(Broken::Malformed("more than the headers it announces")) }
}

fn number(rest: &mut &[u8]) -> Result<u32, Broken> {
    let (first, after) = rest.split_first_chunk().ok_or(Broken::Malformed("headers that end too early"))?;
    *rest = after;
    Ok(u32::from_be_bytes(*first))
}

fn text(rest: &mut &[u8]) -> Result<String, Broken> {
    let length = usize::try_from(number(rest)?).unwrap_or(usize::MAX);
    let (text, after) = rest.split_at_checked(length).ok_or(Broken::Malformed("headers that end too early"))?;
    *rest = after;
    String::from_utf8(text.to_vec()).map_err(|_| Broken::Malformed("a header that is no text"))
}

fn write(headers: &Headers) -> Result<Vec<u8>, Broken> {
    let length = |length: usize| u32::try_from(length).map(u32::to_be_bytes).map_err(|_| Broken::HeadersTooLarge);
    let mut plain = length(headers.len())?.to_vec();
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        plain.extend(length(text.len())?);
        plain.extend_from_slice(text.as_bytes());
    }
    if plain.len() > HEADERS_MAX { Err(Broken::HeadersTooLarge) } else { Ok(plain) }
}
