//! Bytes that programs print, as text where they are.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::bodies::OutputEvent;

/// The longest beginning of a character that can be left over.
const PARTIAL_MAX: usize = 3;

/// A stream of output cut into pieces, none of which ends within a character.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    left: Vec<u8>,
}

impl Pieces {
    /// The next piece, if there is one already.
    pub(super) fn push(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        let mut piece = std::mem::take(&mut self.left);
        piece.extend_from_slice(data);
        self.left = piece.split_off(piece.len() - partial(&piece));
        (!piece.is_empty()).then_some(piece)
    }

    /// What is left at the end.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        let left = std::mem::take(&mut self.left);
        (!left.is_empty()).then_some(left)
    }
}

/// How many bytes at the end are the beginning of a character.
fn partial(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(PARTIAL_MAX);
    for at in (from..bytes.len()).rev() {
        let wanted = match bytes[at] {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        let there = bytes.len() - at;
        return if there < wanted { there } else { 0 };
    }
    0
}

/// A piece as an event.
pub(super) fn event(index: i64, piece: Vec<u8>) -> OutputEvent {
    match String::from_utf8(piece) {
        Ok(data) => OutputEvent { index, data, encoding: None },
        Err(error) => {
            let data = STANDARD.encode(error.as_bytes());
            OutputEvent { index, data, encoding: Some("base64".to_owned()) }
        }
    }
}

/// Bytes in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to memory does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Output as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) text: String,
    pub(super) base64: Option<String>,
    pub(super) is_cut: bool,
}

/// At most so much of what was kept of an output; `total` is how much there was.
pub(super) fn whole(kept: &[u8], total: u64, max: usize) -> Whole {
    let taken = &kept[..kept.len().min(max)];
    let is_cut = u64::try_from(taken.len()).is_ok_and(|taken| taken < total);
    // A character that was cut is no sign of anything but the cut.
    let taken = if is_cut { &taken[..taken.len() - partial(taken)] } else { taken };
    match std::str::from_utf8(taken) {
        Ok(text) => Whole { text: text.to_owned(), base64: None, is_cut },
        Err(_) => {
            Whole { text: String::from_utf8_lossy(taken).into_owned(), base64: Some(STANDARD.encode(taken)), is_cut }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn characters_are_not_cut() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.push("a\u{20ac}".as_bytes().split_at(2).0).as_deref(), Some(&b"a"[..]));
        assert_eq!(pieces.push(&"\u{20ac}".as_bytes()[1..]).as_deref(), Some("\u{20ac}".as_bytes()));
        assert_eq!(pieces.push(&[0xf0]), None);
        assert_eq!(pieces.finish().as_deref(), Some(&[0xf0][..]));
        assert_eq!(pieces.push(&[0xff]).as_deref(), Some(&[0xff][..]));
        assert!(event(1, vec![0xff]).encoding.is_some() && event(1, b"x".to_vec()).encoding.is_none());
    }

    #[test]
    fn what_was_cut_says_so() {
        let euro = "\u{20ac}".as_bytes();
        assert_eq!(whole(euro, 3, 2), Whole { text: String::new(), base64: None, is_cut: true });
        assert_eq!(whole(b"ab", 2, 9), Whole { text: "ab".to_owned(), base64: None, is_cut: false });
        assert_eq!(whole(b"ab", 5, 9), Whole { text: "ab".to_owned(), base64: None, is_cut: true });
        let binary = whole(&[0xff], 1, 9);
        assert_eq!((binary.text.as_str(), binary.base64.as_deref()), ("\u{fffd}", Some("/w==")));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_text_stays_text(text: String, binary: Vec<u8>, cuts in prop::collection::vec(0..9usize, 0..9)) {
            for (bytes, is_text) in [(text.as_bytes(), true), (binary.as_slice(), false)] {
                let mut pieces = Pieces::default();
                let (mut out, mut rest) = (Vec::new(), bytes);
                for cut in &cuts {
                    let (piece, after) = rest.split_at((*cut).min(rest.len()));
                    rest = after;
                    out.extend(pieces.push(piece));
                }
                out.extend(pieces.push(rest));
                out.extend(pieces.finish());
                prop_assert_eq!(out.concat(), bytes);
                if is_text {
                    prop_assert!(out.iter().all(|piece| std::str::from_utf8(piece).is_ok()));
                }
            }
        }
    }
}
