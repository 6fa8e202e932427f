//! Figures for people.

use serde_json::{Map, Value};

use crate::side::{Figure, Side};

/// Both sides beside each other. A ratio above one says how many times better ours is.
pub(crate) fn beside(theirs: Option<&Side>, ours: &Side) -> String {
    let mut text = format!("{:<70}{:>14}{:>14}{:>9}\n", "", "consul", "thane", "ratio");
    for (place, figure) in ours.figures.iter().enumerate() {
        text.push_str(&line(theirs.and_then(|side| side.figures.get(place)), figure));
    }
    text
}

fn line(theirs: Option<&Figure>, ours: &Figure) -> String {
    let other = theirs.map(|other| other.value);
    let ratio = other.map(|other| if ours.more_is_better { ours.value / other } else { other / ours.value });
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let (other, value, ratio) = (shown(other), shown(Some(ours.value)), shown(ratio));
    let (name, unit) = (&ours.name, ours.unit);
    format!("{name:<70}{other:>11} {unit:<2}{value:>11} {unit:<2}{ratio:>8}x\n")
}

/// Figures of one side.
pub(crate) fn lines(heading: &str, figures: &Map<String, Value>) -> String {
    let each = figures.iter().map(|(name, value)| format!("  {name:<48}{value}\n"));
    format!("{heading}\n{}", each.collect::<String>())
}

/// A count as a number that can be divided.
#[expect(clippy::cast_precision_loss, reason = "figures for people have fewer digits")]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}
