//! Durations as Go writes and reads them.

use std::time::Duration;

const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// `1h30m`, `1.5s`, `300ms`, `-2s`: nanoseconds, or Go's complaint.
pub fn nanos(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut sum = 0i128;
    while !rest.is_empty() {
        let number = rest.find(|next: char| !next.is_ascii_digit() && next != '.').unwrap_or(rest.len());
        let (digits, after) = rest.split_at(number);
        if !digits.bytes().any(|byte| byte.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return Err(invalid());
        }
        let end = after.find(|next: char| next.is_ascii_digit() || next == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("time: unknown unit {unit:?} in duration {text:?}"));
        };
        sum = sum.checked_add(scaled(digits, *scale).ok_or_else(invalid)?).ok_or_else(invalid)?;
        if sum > i128::from(i64::MAX) {
            return Err(invalid());
        }
        rest = after;
    }
    i64::try_from(if negative { -sum } else { sum }).map_err(|_| invalid())
}

/// The whole part exactly, the fraction as far as nanoseconds go.
fn scaled(digits: &str, scale: f64) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let unit = from_float(scale);
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction =
        if fraction.is_empty() { 0 } else { from_float(format!("0.{fraction}").parse::<f64>().ok()? * scale) };
    whole.checked_mul(i128::from(unit))?.checked_add(i128::from(fraction))
}

/// A number of nanoseconds that came as a JSON number.
#[expect(clippy::cast_possible_truncation, reason = "the conversion saturates, and Go cuts the fraction as well")]
pub(super) fn from_float(number: f64) -> i64 {
    number as i64
}

/// Nanoseconds as a duration; less than none is none.
pub(super) fn positive(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// A duration as Go prints it: `1m30s`, `1.5s`, `10ms`, `0s`.
pub fn print(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let part = |unit: u128, name: &str| {
        let (whole, rest) = (nanos / unit, nanos % unit);
        let width = unit.ilog10() as usize;
        let fraction = format!("{rest:0width$}");
        let fraction = fraction.trim_end_matches('0');
        if rest == 0 || fraction.is_empty() { format!("{whole}{name}") } else { format!("{whole}.{fraction}{name}") }
    };
    match nanos {
        0 => String::from("0s"),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => part(1_000, "µs"),
        1_000_000..1_000_000_000 => part(1_000_000, "ms"),
        _ => {
            let minutes = duration.as_secs() / 60;
            let seconds = print_seconds(nanos % 60_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    }
}

fn print_seconds(nanos: u128) -> String {
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if rest == 0 {
        return format!("{whole}s");
    }
    let fraction = format!("{rest:09}");
    format!("{whole}.{}s", fraction.trim_end_matches('0'))
}
