//! How it is shown.

use std::time::Duration;

use serde_json::{Value, json};

use super::load::Figures;

/// A line: name, unit, value, and whether more is better.
type Line = (&'static str, &'static str, f64, bool);

fn lines(figures: &Figures, direct: &Figures) -> Vec<Line> {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let answered = f64::from(u32::try_from(figures.crowd_answered).unwrap_or(u32::MAX));
    vec![
        ("overhead of a GET, p50", "ms", milliseconds(figures.get_p50) - milliseconds(direct.get_p50), false),
        ("GET, one client, p50", "ms", milliseconds(figures.get_p50), false),
        ("GET, one client, p99", "ms", milliseconds(figures.get_p99), false),
        ("GET, 64 clients", "/s", figures.gets, true),
        ("1,000 GETs at once", "ms", milliseconds(figures.crowd), false),
        ("of them answered", "", answered, true),
        ("answered a second", "/s", answered / figures.crowd.as_secs_f64().max(f64::EPSILON), true),
        ("LIST of events", "ms", milliseconds(figures.list), false),
        ("log", "MB/s", figures.log, true),
    ]
}

/// The cluster itself, Go's way to it and ours; a ratio above one says how many times better ours is.
pub(super) fn text(direct: &Figures, theirs: Option<&Figures>, ours: &Figures) -> String {
    let mut text = format!("{:<24}{:>16}{:>16}{:>16}{:>10}\n", "", "direct", "go", "thane", "ratio");
    for (number, (name, unit, value, _)) in lines(direct, direct).into_iter().enumerate() {
        let (_, _, our, more_is_better) = lines(ours, direct)[number];
        let their = theirs.map(|figures| lines(figures, direct)[number].2);
        let ratio = their.map(|their| if more_is_better { our / their } else { their / our });
        let show =
            |value: Option<f64>, unit: &str| value.map_or_else(String::new, |value| format!("{value:.2} {unit}"));
        let (direct, theirs, ours) = (show(Some(value), unit), show(their, unit), show(Some(our), unit));
        let ratio = show(ratio, "x");
        text.extend([format!("{name:<24}{direct:>16}{theirs:>16}{ours:>16}{ratio:>10}\n")]);
    }
    text
}

/// The same for programs.
pub(super) fn json(direct: &Figures, theirs: Option<&Figures>, ours: &Figures) -> Value {
    let of = |figures: &Figures| -> Value {
        lines(figures, direct).into_iter().map(|(name, _, value, _)| (name.to_owned(), json!(value))).collect()
    };
    json!({"direct": of(direct), "go": theirs.map(of), "thane": of(ours)})
}
