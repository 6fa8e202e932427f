//! `thane judge`: one question to policies, in a process of its own.

use std::io::{Read, Write};

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thane_api::code;
use thane_workload::policy::Question;

use crate::failure::Failure;

/// The memory it may fill; a policy that wants more ends this process and no other.
pub(crate) const MEMORY_BYTES: u64 = 128 << 20;
/// The addresses it may have, this program's own among them.
const ADDRESS_BYTES: u64 = 512 << 20;
/// What is said when the question has been read and is being answered.
pub(crate) const BEGUN: u8 = b'\n';

/// Answer one question to policies: JSON from the standard input to the standard output
#[derive(Debug, Args)]
pub(crate) struct Judge {}

impl Judge {
    /// Reads no configuration and starts no thread.
    pub(crate) fn run() -> Result<(), Failure> {
        bound(Resource::As, ADDRESS_BYTES)?;
        bound(Resource::Data, MEMORY_BYTES)?;
        bound(Resource::Core, 0)?;
        let mut text = Vec::new();
        std::io::stdin().read_to_end(&mut text).map_err(|error| failed("read the question", &error))?;
        let question: Question = serde_json::from_slice(&text).map_err(|error| failed("read the question", &error))?;
        drop(text);
        say(&[BEGUN])?;
        let answer = serde_json::to_vec(&question.answer()).map_err(|error| failed("write the answer", &error))?;
        say(&answer)
    }
}

fn bound(resource: Resource, most: u64) -> Result<(), Failure> {
    let before = getrlimit(resource).maximum;
    let most = Some(before.map_or(most, |before| before.min(most)));
    setrlimit(resource, Rlimit { current: most, maximum: most }).map_err(|error| failed("set a limit", &error))
}

fn say(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| failed("write the answer", &error))
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(code::POLICY_UNUSABLE, format!("{what}: {error}"))
}
