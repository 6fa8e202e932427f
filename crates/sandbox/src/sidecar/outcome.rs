//! What became of a step, in the words of a record.

use thane_api::wire::sandbox::step_failure::Kind;
use thane_api::wire::sandbox::{StepFailure, StepRecord, StepRequest};
use thane_executor::exit::Exit;
use thane_executor::message::Failure;

use sha2::{Digest, Sha256};

/// Bytes of each stream that a record keeps.
pub(super) const KEPT: usize = 1024 * 1024;
/// The code of a program that was not found, as shells have it.
const NOT_FOUND: i32 = 127;
/// The code of a program that could not be run, as shells have it.
const NOT_RUN: i32 = 126;
/// The code of a step of which nobody knows how it ended.
pub(super) const LOST: i32 = -1;

fn failure(kind: Kind, message: impl Into<String>) -> StepFailure {
    StepFailure { kind: kind.into(), message: message.into() }
}

/// A process has ended.
pub(super) fn ended(record: &mut StepRecord, exit: &Exit) {
    record.exit_code = exit.code;
    record.failure = if exit.timed_out {
        Some(failure(Kind::Timeout, format!("it took longer than {} ms and was ended", record.timeout_ms)))
    } else if exit.oom && exit.code != 0 {
        Some(failure(Kind::Oom, "the kernel ended a process of it for want of memory"))
    } else {
        exit.failure.clone().map(|why| failure(Kind::User, why))
    };
}

/// A process was not started.
pub(super) fn refused(record: &mut StepRecord, sort: Failure, why: &str) {
    record.exit_code = if sort == Failure::NotFound { NOT_FOUND } else { NOT_RUN };
    record.failure = Some(failure(Kind::User, why));
}

/// Nobody knows how it ended.
pub(super) fn lost(record: &mut StepRecord, why: &str) {
    record.exit_code = LOST;
    record.failure = Some(failure(Kind::Infra, why));
}

/// Output of a step: the first of it is kept, all of it is counted.
#[derive(Debug, Default)]
pub(super) struct Output {
    kept: [Vec<u8>; 2],
    counts: [u64; 2],
}

impl Output {
    /// Takes notice of more.
    pub(super) fn push(&mut self, stderr: bool, offset: u64, bytes: &[u8]) {
        let (kept, count) = (&mut self.kept[usize::from(stderr)], &mut self.counts[usize::from(stderr)]);
        let room = KEPT.saturating_sub(kept.len());
        // Only what follows on what is kept belongs behind it.
        if usize::try_from(offset) == Ok(kept.len()) {
            kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        *count = (*count).max(offset.saturating_add(bytes.len() as u64));
    }

    /// Puts it into the record.
    pub(super) fn record(self, record: &mut StepRecord) {
        let [stdout, stderr] = self.kept;
        (record.stdout, record.stderr) = (stdout.into(), stderr.into());
        [record.stdout_bytes, record.stderr_bytes] = self.counts;
    }
}

/// What is counted of an end.
pub(super) fn result(record: &StepRecord) -> &'static str {
    match record.failure.as_ref().map(StepFailure::kind) {
        None if record.exit_code == 0 => "ok",
        None => "nonzero",
        Some(Kind::Timeout) => "timeout",
        Some(Kind::Oom) => "oom",
        Some(Kind::Infra) => "infra",
        Some(Kind::User | Kind::Unspecified) => "user",
    }
}

/// A record of what is asked, before anything has happened.
pub(super) fn begun(request: &StepRequest, index: i64, parent: i64, started_at_ms: i64) -> StepRecord {
    StepRecord {
        index,
        parent,
        operation: request.operation.clone(),
        name: request.name.clone(),
        command: request.command.clone(),
        env: request.env.clone(),
        working_dir: request.working_dir.clone(),
        started_at_ms,
        live: true,
        digest: digest(request).into(),
        timeout_ms: request.timeout_ms,
        background: request.background,
        stdin: request.stdin.clone(),
        trace: request.trace.clone(),
        ..StepRecord::default()
    }
}

/// A digest of what is asked, whatever order it is written in.
pub(super) fn digest(request: &StepRequest) -> Vec<u8> {
    let mut sha = Sha256::new();
    let mut add = |bytes: &[u8]| {
        sha.update((bytes.len() as u64).to_be_bytes());
        sha.update(bytes);
    };
    add(&(request.command.len() as u64).to_be_bytes());
    request.command.iter().for_each(|word| add(word.as_bytes()));
    let mut env: Vec<_> = request.env.iter().collect();
    env.sort();
    add(&(env.len() as u64).to_be_bytes());
    for (name, value) in env {
        add(name.as_bytes());
        add(value.as_bytes());
    }
    add(request.working_dir.as_bytes());
    add(&request.timeout_ms.to_be_bytes());
    add(&[u8::from(request.background)]);
    add(&request.stdin);
    sha.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart() {
        let exit = |code: i32| Exit { code, ..Exit::default() };
        for (exit, expected, code) in [
            (exit(0), "ok", 0),
            (exit(3), "nonzero", 3),
            (Exit { timed_out: true, oom: true, ..exit(124) }, "timeout", 124),
            (Exit { oom: true, ..exit(137) }, "oom", 137),
            (Exit { oom: true, ..exit(0) }, "ok", 0),
        ] {
            let mut record = StepRecord::default();
            ended(&mut record, &exit);
            assert_eq!((result(&record), record.exit_code), (expected, code));
        }
        let mut record = StepRecord::default();
        refused(&mut record, Failure::NotFound, "no such program");
        assert_eq!((result(&record), record.exit_code), ("user", 127));
        refused(&mut record, Failure::Invalid, "NUL");
        assert_eq!((result(&record), record.exit_code), ("user", 126));
        lost(&mut record, "gone");
        assert_eq!((result(&record), record.exit_code), ("infra", -1));
    }

    #[test]
    fn the_first_of_output_is_kept_and_all_is_counted() {
        let mut output = Output::default();
        output.push(false, 0, b"ab");
        output.push(false, 2, &vec![b'x'; KEPT]);
        output.push(false, KEPT as u64 + 2, b"more");
        output.push(true, 5, b"late");
        let mut record = StepRecord::default();
        output.record(&mut record);
        assert_eq!((record.stdout.len(), record.stdout_bytes), (KEPT, KEPT as u64 + 6));
        assert_eq!((record.stderr.len(), record.stderr_bytes), (0, 9), "what was missed is not made up");
    }

    #[test]
    fn a_digest_is_of_what_is_asked() {
        let base = StepRequest { command: vec!["a".to_owned(), "b".to_owned()], ..StepRequest::default() };
        let same = StepRequest { name: "other".to_owned(), operation: "o".to_owned(), ..base.clone() };
        assert_eq!(digest(&base), digest(&same));
        for other in [
            StepRequest { command: vec!["ab".to_owned()], ..base.clone() },
            StepRequest { command: vec!["a".to_owned()], working_dir: "b".to_owned(), ..base.clone() },
            StepRequest { timeout_ms: 1, ..base.clone() },
            StepRequest { stdin: vec![0].into(), ..base.clone() },
        ] {
            assert_ne!(digest(&base), digest(&other));
        }
    }
}
