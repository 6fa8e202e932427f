//! Figures for people.

use serde_json::{Map, Value};

use crate::side::Side;

/// Both sides beside each other. A ratio above one says how many times better ours is.
pub(crate) fn beside(theirs: Option<&Side>, ours: &Side) -> String {
    let mut text = format!("{:<44}{:>14}{:>14}{:>9}\n", "", "consul", "thane", "ratio");
    for (place, figure) in ours.figures.iter().enumerate() {
        let other = theirs.and_then(|side| side.figures.get(place)).map(|other| other.value);
        let ratio = other.map(|other| if figure.more_is_better { figure.value / other } else { other / figure.value });
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let (other, value, ratio) = (shown(other), shown(Some(figure.value)), shown(ratio));
        text +=
            &format!("{:<44}{other:>11} {:<2}{value:>11} {:<2}{ratio:>8}x\n", figure.name, figure.unit, figure.unit);
    }
    text
}

/// Figures of one side.
pub(crate) fn lines(heading: &str, figures: &Map<String, Value>) -> String {
    let each = figures.iter().map(|(name, value)| format!("  {name:<48}{value}\n"));
    format!("{heading}\n{}", each.collect::<String>())
}
