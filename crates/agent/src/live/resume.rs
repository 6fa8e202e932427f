//! From where a log goes on when the stream it went on has broken: no line may be missing, so some come twice.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use thane_api::live::LogRequest;

/// What may have been sent and not have arrived: the windows and buffers of a connection.
const IN_FLIGHT: u64 = 4 * 1024 * 1024;
/// Marks kept; between them are at least so many bytes.
const MARK_EVERY: u64 = 64 * 1024;
/// The first word of a line is a time only if it is no longer than this.
const TIME_BYTES_MAX: usize = 40;

/// How far a log has been sent.
#[derive(Debug, Default)]
pub(super) struct Resume {
    sent: u64,
    /// Times of lines and how much was sent before them; the first is far enough back to go on from.
    marks: VecDeque<(u64, Timestamp)>,
    /// Whether what was sent last ended within a line.
    is_within: bool,
    /// When the log was first there.
    opened: Option<Timestamp>,
}

impl Resume {
    /// Notes that the log is there.
    pub(super) fn opened(&mut self, now: Timestamp) {
        self.opened.get_or_insert(now);
    }

    /// Notes a piece that is sent; pieces begin anywhere in a line.
    pub(super) fn sent(&mut self, piece: &[u8]) {
        if self.marks.back().is_none_or(|(at, _)| self.sent - at >= MARK_EVERY)
            && let Some(time) = first_time(piece, !self.is_within)
        {
            self.marks.push_back((self.sent, time));
        }
        self.is_within = piece.last().map_or(self.is_within, |byte| *byte != b'\n');
        self.sent += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        while self.marks.get(1).is_some_and(|(at, _)| at + IN_FLIGHT <= self.sent) {
            self.marks.pop_front();
        }
    }

    /// Bytes that were sent.
    pub(super) fn total(&self) -> u64 {
        self.sent
    }

    /// The request that goes on where this one may have been broken off.
    pub(super) fn request(&self, first: &LogRequest) -> LogRequest {
        let since = match (self.marks.front(), self.opened) {
            (Some((_, time)), _) => *time,
            (None, Some(opened)) if first.tail_lines.is_some() || first.since_seconds.is_some() => {
                // So many lines or seconds would begin later now, and what came in between would be missing.
                let seconds = first.since_seconds.filter(|_| first.tail_lines.is_none()).unwrap_or_default();
                opened.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN)
            }
            (None, _) => return first.clone(),
        };
        let since_time = since.to_string();
        LogRequest { since_time, tail_lines: None, since_seconds: None, ..first.clone() }
    }
}

/// The time of the first line that begins in this piece, or at its start.
fn first_time(piece: &[u8], at_start: bool) -> Option<Timestamp> {
    let start = if at_start { 0 } else { piece.iter().position(|byte| *byte == b'\n')? + 1 };
    let line = piece.get(start..)?;
    let head = line.get(..TIME_BYTES_MAX).unwrap_or(line);
    let end = head.iter().position(|byte| *byte == b' ')?;
    std::str::from_utf8(head.get(..end)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: usize) -> String {
        format!("2026-01-01T00:{:02}:{:02}.5Z {}\n", second / 60, second % 60, "x".repeat(64 * 1024))
    }

    #[test]
    fn it_goes_on_from_before_what_may_be_lost() {
        let first = LogRequest { follow: true, tail_lines: Some(1), ..LogRequest::default() };
        let mut resume = Resume::default();
        assert_eq!(resume.request(&first), first, "nothing was sent");
        resume.sent(line(0).as_bytes());
        let again = resume.request(&first);
        assert_eq!((&*again.since_time, again.tail_lines, again.follow), ("2026-01-01T00:00:00.5Z", None, true));
        for second in 1..600 {
            resume.sent(line(second).as_bytes());
        }
        let again = resume.request(&first);
        let from: Timestamp = again.since_time.parse().unwrap();
        let lines_back = "2026-01-01T00:09:59.5Z".parse::<Timestamp>().unwrap().duration_since(from).as_secs();
        assert!((63..80).contains(&lines_back), "{lines_back}: about four MiB of lines are repeated");
        assert!(resume.marks.len() < 80);
    }

    #[test]
    fn a_log_of_which_nothing_was_sent_begins_where_it_first_would_have() {
        let (tail, seconds) = (LogRequest { tail_lines: Some(0), ..LogRequest::default() }, LogRequest::default());
        let seconds = LogRequest { since_seconds: Some(20), ..seconds };
        let mut resume = Resume::default();
        assert_eq!(resume.request(&tail), tail, "it never was there");
        resume.opened("2026-01-01T00:01:00Z".parse().unwrap());
        resume.opened("2026-01-01T00:02:00Z".parse().unwrap());
        let again = resume.request(&tail);
        assert_eq!((&*again.since_time, again.tail_lines), ("2026-01-01T00:01:00Z", None));
        let again = resume.request(&seconds);
        assert_eq!((&*again.since_time, again.since_seconds), ("2026-01-01T00:00:40Z", None));
        assert_eq!(resume.request(&LogRequest::default()), LogRequest::default());
        resume.sent(b"2026-01-01T00:01:30Z x\n");
        assert_eq!(resume.request(&tail).since_time, "2026-01-01T00:01:30Z");
    }

    #[test]
    fn lines_without_a_time_are_no_marks() {
        let mut resume = Resume::default();
        for piece in ["no time\n", "", "\n\n", "2026-01-01 x\n", &"y".repeat(100)] {
            resume.sent(piece.as_bytes());
        }
        assert!(resume.marks.is_empty());
    }
}
