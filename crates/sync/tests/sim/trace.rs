//! What happened, for whoever has to find out why; and a hash of it, to see that a replay is one.

use std::collections::VecDeque;
use std::fmt::Arguments;

const KEPT: usize = 100;

#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) hash: u64,
    lines: VecDeque<String>,
    kept: usize,
    pub(crate) packets: u64,
}

impl Trace {
    pub(crate) fn new(is_kept: bool) -> Self {
        let kept =
            if is_kept { std::env::var("SIM_LINES").ok().and_then(|n| n.parse().ok()).unwrap_or(KEPT) } else { 0 };
        Self { hash: 0xcbf2_9ce4_8422_2325, lines: VecDeque::new(), kept, packets: 0 }
    }

    /// Something that a replay must have too.
    pub(crate) fn mark(&mut self, at: u64, what: &str, text: &str) {
        for byte in at.to_le_bytes().into_iter().chain(what.bytes()).chain(text.bytes()) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn line(&mut self, at: u64, what: &str, text: Arguments<'_>) {
        if self.kept == 0 {
            return;
        }
        if self.lines.len() == self.kept {
            self.lines.pop_front();
        }
        self.lines
            .push_back(format!("{:>10.3}  {what:<16}  {text}", std::time::Duration::from_millis(at).as_secs_f64()));
    }

    pub(crate) fn table(&self) -> String {
        self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}
