//! Content packed with zstd: one frame after another, some of which hold only notes for other tools.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Reads what was packed. What a frame may ask to be remembered is bounded by the library, to 128 MiB.
pub(super) struct Zstd<R> {
    reader: R,
    decoder: FrameDecoder,
    /// Within a frame.
    inside: bool,
}

impl<R: BufRead> Zstd<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, decoder: FrameDecoder::new(), inside: false }
    }

    /// Begins the next frame; whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.reader.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.reader) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.reader).take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.inside {
                if !self.begin()? {
                    return Ok(0);
                }
                self.inside = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.reader, one).map_err(io::Error::other)?;
            }
            let count = self.decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            self.inside = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'hello hello hello hello' | zstd`.
    const HELLO: &[u8] = &[
        0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0x65, 0x00, 0x00, 0x30, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x20, 0x01, 0x00,
        0x99, 0x4b, 0x11, 0x17, 0x5e, 0xae, 0x0d,
    ];
    /// A frame of four bytes that is to be passed over.
    const NOTE: [u8; 12] = [0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];

    fn plain(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        Zstd::new(packed).read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn frames_follow_each_other() {
        assert_eq!(plain(HELLO).unwrap(), b"hello hello hello hello");
        assert_eq!(plain(&[HELLO, &NOTE, HELLO].concat()).unwrap(), b"hello hello hello hello".repeat(2));
        assert_eq!(plain(&[]).unwrap(), b"");
    }

    #[test]
    fn what_is_broken_is_said() {
        for broken in [&HELLO[..HELLO.len() - 6], &NOTE[..10], b"nothing of the kind"] {
            assert!(plain(broken).is_err(), "{broken:?}");
        }
    }
}
