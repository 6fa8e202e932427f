//! Dates, times and durations.

use std::sync::LazyLock;

use regex::Regex;

static DURATION_PART: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(\d+)\s*([A-Za-zµ]+)").ok());

/// `2006-01-02`.
pub(crate) fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(at, b)| match at {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        });
    shape && text.parse::<jiff::civil::Date>().is_ok()
}

pub(super) fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let Some((date, time)) = text.split_once('t') else { return false };
    let digit = |at: usize| time.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let two = |at: usize, max: &str| digit(at) && digit(at + 1) && time.get(at..at + 2).is_some_and(|part| part <= max);
    let clock = two(0, "23") && two(3, "59") && two(6, "59");
    let colons = [2, 5].iter().all(|at| time.as_bytes().get(*at) == Some(&b':'));
    let mut rest = time.get(8..).unwrap_or_default();
    if let Some(first) = rest.chars().next()
        && !matches!(first, 'z' | '+' | '-')
    {
        let after = &rest[first.len_utf8()..];
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        if end == 0 {
            return false;
        }
        rest = &after[end..];
    }
    let offset = rest.strip_prefix(['+', '-']).is_some_and(|zone| {
        zone.len() == 5 && zone.bytes().enumerate().all(|(at, b)| if at == 2 { b == b':' } else { b.is_ascii_digit() })
    });
    is_date(date) && clock && colons && (rest == "z" || offset)
}

const UNITS: [(&str, &[&str]); 8] = [
    ("nano", &["ns"]),
    ("micro", &["us", "µs"]),
    ("milli", &["ms"]),
    ("sec", &["s"]),
    ("min", &["m"]),
    ("hour", &["h", "hr"]),
    ("day", &["d"]),
    ("week", &["w", "wk"]),
];

/// Go's `time.ParseDuration`, or numbers with spelled-out units such as `3 hours`.
pub(crate) fn is_duration(text: &str) -> bool {
    if go_duration(text).is_some() {
        return true;
    }
    let Some(parts) = DURATION_PART.as_ref() else { return false };
    let mut any = false;
    for part in parts.captures_iter(text) {
        if part[1].parse::<i64>().is_err() {
            return false;
        }
        let unit = part[2].to_lowercase();
        any |= UNITS.iter().any(|(long, short)| unit.starts_with(long) || short.contains(&unit.as_str()));
    }
    any
}

/// Nanoseconds of a duration as Go writes it: `1h30m`, `-1.5s`, `0`.
pub(crate) fn go_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_i128;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(scaled(number, scale)?)?;
        rest = next;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn scaled(number: &str, scale: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let mut total = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.into() };
    total *= scale;
    let mut unit = scale;
    for digit in fraction.chars().take(18) {
        unit /= 10;
        total += i128::from(digit.to_digit(10)?) * unit;
    }
    Some(total)
}
