//! Times and memory.

use std::path::Path;
use std::time::Duration;

/// How long something took, each time.
#[derive(Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// What so many of a hundred stayed below.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or_default()
    }
}

/// As people read it.
pub(crate) fn shown(took: Duration) -> String {
    let milliseconds = took.as_secs_f64() * 1000.0;
    if milliseconds < 1000.0 { format!("{milliseconds:.2} ms") } else { format!("{:.2} s", milliseconds / 1000.0) }
}

/// Memory of processes, what they share counted once for all who share it.
pub(crate) fn pss_kib(processes: &[u32]) -> u64 {
    let of = |pid: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default()
    };
    processes.iter().map(of).sum()
}

/// The same of all processes whose program is in a folder.
pub(crate) fn pss_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = entries
        .filter(|entry| std::fs::read_link(entry.path().join("exe")).is_ok_and(|program| program.starts_with(folder)));
    let pids: Vec<u32> = own.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pss_kib(&pids)
}

/// What the kernel itself occupies and cannot give back: its objects, stacks and page tables. Of the whole machine, so that
/// only differences mean anything, and those only while nothing else runs.
pub(crate) fn kernel_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let own = lines.filter(|(name, _)| ["SUnreclaim", "KernelStack", "PageTables", "Percpu"].contains(name));
    own.filter_map(|(_, value)| value.split_whitespace().next()?.parse::<u64>().ok()).sum()
}
