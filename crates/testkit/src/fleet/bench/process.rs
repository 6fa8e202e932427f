//! What a role costs its machine.

use serde_json::{Value, json};

use crate::bench::resident_bytes;

/// The ticks of a second, in which Linux tells every program the time of a process.
const TICKS: f64 = 100.0;

/// Memory and processor time of some processes.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Resident bytes now.
    pub resident: u64,
    /// Processor time since they started, in seconds.
    pub processor: f64,
}

impl Usage {
    pub(super) fn of(processes: &[u32]) -> Self {
        Self { resident: resident_bytes(processes), processor: processes.iter().filter_map(|it| seconds(*it)).sum() }
    }

    pub(super) fn value(self) -> Value {
        json!({"resident MB": self.resident / 1_000_000, "processor s": self.processor})
    }
}

/// User and system time of a process.
fn seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(f64::from(user + system) / TICKS)
}
