//! What was measured, and how it is shown.

use std::time::Duration;

use serde_json::{Value, json};

/// The numbers of one side.
#[derive(Debug, Clone)]
pub struct Figures {
    /// From start to ready.
    pub ready: Duration,
    /// Resident bytes before any load.
    pub memory_at_rest: u64,
    /// Creates per second, one client.
    pub creates_alone: f64,
    /// Creates per second, many clients.
    pub creates_together: f64,
    /// Updates per second, one client.
    pub updates_alone: f64,
    /// Updates per second, many clients.
    pub updates_together: f64,
    /// One list of everything, the median of several.
    pub list: Duration,
    /// Resident bytes with everything stored.
    pub memory_full: u64,
    /// From a write to its arrival at the last watcher, the median of several.
    pub last_watcher: Duration,
}

/// A line of the table: name, unit, value, and whether more is better.
type Line = (&'static str, &'static str, f64, bool);

#[expect(clippy::cast_precision_loss, reason = "megabytes need no 53 bits")]
fn lines(figures: &Figures) -> Vec<Line> {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    vec![
        ("start to ready", "ms", milliseconds(figures.ready), false),
        ("creates, 1 client", "/s", figures.creates_alone, true),
        ("creates, many clients", "/s", figures.creates_together, true),
        ("updates, 1 client", "/s", figures.updates_alone, true),
        ("updates, many clients", "/s", figures.updates_together, true),
        ("list of all", "ms", milliseconds(figures.list), false),
        ("write to last watcher", "ms", milliseconds(figures.last_watcher), false),
        ("memory at rest", "MB", megabytes(figures.memory_at_rest), false),
        ("memory with all", "MB", megabytes(figures.memory_full), false),
    ]
}

/// Both sides beside each other, and the same as JSON. A ratio above one says how many times better `ours` is.
pub fn table(reference: &Figures, ours: &Figures) -> (String, Value) {
    let mut text = format!("{:<24}{:>14}{:>14}{:>10}\n", "", "kubernetes", "thane", "ratio");
    let mut values = serde_json::Map::new();
    for ((name, unit, theirs, more_is_better), (_, _, our, _)) in lines(reference).into_iter().zip(lines(ours)) {
        let ratio = if more_is_better { our / theirs } else { theirs / our };
        text.push_str(&line(name, unit, theirs, our, ratio));
        values.insert(name.to_owned(), json!({"unit": unit, "kubernetes": theirs, "thane": our, "ratio": ratio}));
    }
    (text, Value::Object(values))
}

fn line(name: &str, unit: &str, theirs: f64, ours: f64, ratio: f64) -> String {
    format!("{name:<24}{theirs:>11.1} {unit:<2}{ours:>11.1} {unit:<2}{ratio:>9.1}x\n")
}

/// The resident sets of some processes; one that is gone counts nothing.
pub fn resident_bytes(processes: &[u32]) -> u64 {
    processes.iter().map(|process| resident(*process).unwrap_or(0)).sum()
}

fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_above_one_are_in_our_favour() {
        let side = |speed: f64, time: u64| Figures {
            ready: Duration::from_millis(time),
            memory_at_rest: 10,
            creates_alone: speed,
            creates_together: speed,
            updates_alone: speed,
            updates_together: speed,
            list: Duration::from_millis(time),
            memory_full: 20,
            last_watcher: Duration::from_millis(time),
        };
        let (_, values) = table(&side(100.0, 50), &side(500.0, 10));
        assert_eq!(values["creates, 1 client"]["ratio"], 5.0);
        assert_eq!(values["list of all"]["ratio"], 5.0);
        assert_eq!(values["memory at rest"]["ratio"], 1.0);
    }

    #[test]
    fn our_own_memory_is_seen() {
        assert!(resident_bytes(&[std::process::id()]) > 100_000);
        assert_eq!(resident_bytes(&[u32::MAX]), 0);
    }
}
