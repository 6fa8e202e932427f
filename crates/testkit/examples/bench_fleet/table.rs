//! Figures for people, as Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use thane_testkit::fleet::bench::{Figures, Flow};

/// One line: what, its unit, where it is found, and whether more is better.
type Line = (&'static str, &'static str, fn(&Figures) -> f64, bool);

const LINES: [Line; 17] = [
    ("create to spoke, p50", "ms", |figures| milliseconds(figures.create.p50), false),
    ("create to spoke, p99", "ms", |figures| milliseconds(figures.create.p99), false),
    ("status to hub, p50", "ms", |figures| milliseconds(figures.status.p50), false),
    ("status to hub, p99", "ms", |figures| milliseconds(figures.status.p99), false),
    ("of that the spoke's own answer, p50", "ms", |figures| milliseconds(figures.status_answer.p50), false),
    ("of that the spoke's own answer, p99", "ms", |figures| milliseconds(figures.status_answer.p99), false),
    ("creates arriving", "/s", |figures| rate(&figures.creates, figures.creates.arrived), true),
    ("of those written", "%", |figures| share(&figures.creates), true),
    ("updates arriving", "/s", |figures| rate(&figures.updates, figures.updates.arrived), true),
    ("of those written", "%", |figures| share(&figures.updates), true),
    ("deletes arriving", "/s", |figures| rate(&figures.deletes, figures.deletes.arrived), true),
    ("of those written", "%", |figures| share(&figures.deletes), true),
    ("updates settled after", "ms", |figures| milliseconds(figures.updates.arrived), false),
    ("memory of the hub", "MB", |figures| megabytes(figures.usage[0].resident), false),
    ("memory of the agent", "MB", |figures| megabytes(figures.usage[1].resident), false),
    ("processor time of the hub", "s", |figures| figures.usage[0].processor, false),
    ("processor time of the agent", "s", |figures| figures.usage[1].processor, false),
];

/// The reference and ours beside each other. A ratio above one says how many times better ours is.
pub(crate) fn beside(reference: &Figures, ours: &[Figures; 2]) -> String {
    let mut text =
        "| | Go on Kubernetes | Thane on Kubernetes | | Thane on Thane | |\n|---|--:|--:|--:|--:|--:|\n".to_owned();
    for (what, unit, find, more_is_better) in LINES {
        let theirs = find(reference);
        let _ = write!(text, "| {what} | {theirs:.1} {unit} |");
        for side in ours {
            let value = find(side);
            let ratio = if more_is_better { value / theirs } else { theirs / value };
            let _ = write!(text, " {value:.1} {unit} | {ratio:.1}x |");
        }
        text.push('\n');
    }
    text
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn rate(flow: &Flow, time: Duration) -> f64 {
    f64::from(u32::try_from(flow.count).unwrap_or(u32::MAX)) / time.as_secs_f64().max(1e-9)
}

/// What arrives of what is written, by their rates.
fn share(flow: &Flow) -> f64 {
    flow.written.as_secs_f64() / flow.arrived.as_secs_f64().max(1e-9) * 100.0
}

#[expect(clippy::cast_precision_loss, reason = "megabytes need no 53 bits")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
