//! Durations as Go and Argo write them.

use jiff::SignedDuration;

/// `90` seconds, or `1h30m`, `1.5s`, `100ms`.
pub(crate) fn parsed(text: &str) -> Result<SignedDuration, String> {
    match text.trim().parse::<i64>() {
        Ok(seconds) => Ok(SignedDuration::from_secs(seconds)),
        Err(_) => go(text).ok_or_else(|| format!("unable to parse {text} as a duration: time: invalid duration \"{text}\"")),
    }
}

/// What Go's `time.ParseDuration` takes.
pub(crate) fn go(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let units = [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("μs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
        let (unit, seconds) = units.into_iter().find(|(unit, _)| after.starts_with(unit))?;
        total += number * seconds;
        rest = &after[unit.len()..];
    }
    let total = if negative { -total } else { total };
    SignedDuration::try_from_secs_f64(total).ok()
}

/// As people read it: the largest unit that fits, as the library that Argo uses says it.
pub(crate) fn spoken(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let part = |amount: i64, unit: &str| (amount > 0).then(|| format!("{amount} {unit}{}", if amount == 1 { "" } else { "s" }));
    let parts: Vec<String> =
        [part(hours / 24, "day"), part(hours % 24, "hour"), part(minutes, "minute"), part(rest, "second")].into_iter().flatten().collect();
    if parts.is_empty() { "0 seconds".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        for (text, millis) in [("20", 20_000), ("1h30m", 5_400_000), ("1.5s", 1500), ("100ms", 100), ("-2m", -120_000), ("0", 0)] {
            assert_eq!(parsed(text).map(|d| d.as_millis()), Ok(millis), "{text}");
        }
        for text in ["", "h", "1x", "1", "1.2.3s", "s1", "é"] {
            assert!(go(text).is_none(), "{text}");
        }
        assert_eq!(spoken(SignedDuration::from_secs(10)), "10 seconds");
        assert_eq!(spoken(SignedDuration::from_secs(61)), "1 minute 1 second");
    }
}
