//! Lines of a log that come with their times, once each even if a broken stream begins again from further back.

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;

/// The first word of a line is a time only if it is no longer than this.
const HEAD_MAX: usize = 40;

/// What was passed on last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    time: Timestamp,
    /// Whole lines of that time.
    count: u64,
}

/// What happens to the rest of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Its time is not known yet.
    Unknown,
    /// It was passed on before.
    Skipped,
    /// It is passed on, but for so many bytes that were already.
    Passed { already: u64 },
}

/// Passes on each line once.
#[derive(Debug)]
pub(crate) struct Lines {
    keeps_times: bool,
    /// The beginning of a line whose time is not known yet.
    head: Vec<u8>,
    rest: Rest,
    time: Option<Timestamp>,
    /// Bytes of the current line that were passed on, now or before.
    passed: u64,
    /// The last whole line.
    last: Option<Point>,
    /// What was passed on before the stream began again.
    behind: Option<Point>,
    /// Lines of that time that came again.
    again: u64,
    /// A line of which only so many bytes were passed on before.
    torn: Option<(Option<Timestamp>, u64)>,
}

impl Lines {
    /// Lines with or without their times.
    pub(crate) fn new(keeps_times: bool) -> Self {
        Self {
            keeps_times,
            head: Vec::new(),
            rest: Rest::Unknown,
            time: None,
            passed: 0,
            last: None,
            behind: None,
            again: 0,
            torn: None,
        }
    }

    /// The time from which a stream that begins again has to come: of the last line, whole or torn.
    pub(crate) fn reached(&self) -> Option<Timestamp> {
        let whole = self.last.or(self.behind).map(|point| point.time);
        whole.or(self.time).or_else(|| self.torn.and_then(|(time, _)| time))
    }

    /// The stream begins again, at some line from before or after the last one.
    pub(crate) fn again(&mut self) {
        // What was skipped of a line that is torn again was passed on, too.
        if let Rest::Passed { already } = self.rest
            && self.passed + already > 0
        {
            self.torn = Some((self.time, self.passed + already));
        }
        self.behind = self.last.or(self.behind);
        self.again = 0;
        self.begin();
    }

    /// What of this piece is new.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Bytes {
        let mut new = BytesMut::with_capacity(piece.len());
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.take_part(part, &mut new);
            if part.ends_with(b"\n") {
                self.end();
            }
        }
        new.freeze()
    }

    /// What is left when no more comes: a beginning too short to have a time.
    pub(crate) fn rest(&mut self) -> Bytes {
        let mut new = BytesMut::new();
        if self.rest == Rest::Unknown && !self.head.is_empty() {
            self.decide(None);
            let head = std::mem::take(&mut self.head);
            self.pass(&head, &mut new);
        }
        new.freeze()
    }

    /// Takes a part of one line.
    fn take_part(&mut self, part: &[u8], new: &mut BytesMut) {
        if self.rest != Rest::Unknown {
            return self.pass(part, new);
        }
        self.head.extend_from_slice(part);
        let end = self.head.iter().take(HEAD_MAX).position(|byte| *byte == b' ' || *byte == b'\n');
        if end.is_none() && self.head.len() < HEAD_MAX {
            return;
        }
        let head = std::mem::take(&mut self.head);
        let word = end.and_then(|end| std::str::from_utf8(head.get(..end)?).ok());
        let time = word.and_then(|word| word.parse().ok());
        self.decide(time);
        let without = end.filter(|_| time.is_some() && !self.keeps_times).map_or(0, |end| end + 1);
        // An empty line may end right after its time.
        let is_cut = without > 0 && head.get(without - 1) == Some(&b'\n');
        self.pass(head.get(without - usize::from(is_cut)..).unwrap_or_default(), new);
    }

    /// Whether a line of that time is new.
    fn decide(&mut self, time: Option<Timestamp>) {
        self.time = time;
        if let Some(behind) = self.behind {
            let is_old = match time {
                Some(time) if time == behind.time => {
                    self.again += 1;
                    self.again <= behind.count
                }
                Some(time) => time < behind.time,
                None => true,
            };
            if is_old {
                self.rest = Rest::Skipped;
                return;
            }
            self.behind = None;
        }
        let torn = self.torn.take().filter(|(torn, _)| *torn == time);
        self.rest = Rest::Passed { already: torn.map_or(0, |(_, passed)| passed) };
    }

    fn pass(&mut self, part: &[u8], new: &mut BytesMut) {
        let Rest::Passed { already } = self.rest else { return };
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        let skipped = already.min(length);
        self.rest = Rest::Passed { already: already - skipped };
        new.put_slice(part.get(usize::try_from(skipped).unwrap_or(usize::MAX)..).unwrap_or_default());
        self.passed += length;
    }

    /// The line is whole.
    fn end(&mut self) {
        if let (Rest::Passed { .. }, Some(time)) = (self.rest, self.time) {
            let count = self.last.filter(|last| last.time == time).map_or(0, |last| last.count);
            self.last = Some(Point { time, count: count + 1 });
        }
        self.begin();
    }

    fn begin(&mut self) {
        self.head.clear();
        (self.rest, self.time, self.passed) = (Rest::Unknown, None, 0);
    }
}

#[cfg(test)]
mod tests;
