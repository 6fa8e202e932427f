//! How long ago something was, as `kubectl get` shows it.

use jiff::Timestamp;

/// The time since a timestamp: `12s`, `5m3s`, `2d3h`; `<unknown>` where there is none.
pub(crate) fn age(timestamp: &str, now: Timestamp) -> String {
    match timestamp.parse::<Timestamp>() {
        Ok(then) => human_duration(now.as_second().saturating_sub(then.as_second()) - partial(now, then)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// One where the whole seconds of two times overstate what lies between them.
fn partial(now: Timestamp, then: Timestamp) -> i64 {
    i64::from(now > then && now.subsec_nanosecond() < then.subsec_nanosecond())
}

/// A duration in seconds, in at most two units.
fn human_duration(seconds: i64) -> String {
    let pair = |big: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => pair(days, 'd', hours % 24, 'h'),
        () if days < 365 * 2 => format!("{days}d"),
        () if days < 365 * 8 => pair(days / 365, 'y', days % 365, 'd'),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (303, "5m3s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600, "8h"),
            (47 * 3600, "47h"),
            (48 * 3600, "2d"),
            (51 * 3600, "2d3h"),
            (9 * 86400, "9d"),
            (800 * 86400, "2y70d"),
            (730 * 86400, "2y"),
            (4000 * 86400, "10y"),
        ] {
            assert_eq!(human_duration(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn ages() {
        let now = "2026-01-01T00:00:10.5Z".parse().unwrap();
        for (then, expected) in [
            ("2026-01-01T00:00:00Z", "10s"),
            ("2026-01-01T00:00:00.9Z", "9s"),
            ("2026-01-01T00:00:11Z", "0s"),
            ("2026-01-01T00:00:20Z", "<invalid>"),
            ("", "<unknown>"),
            ("soon", "<unknown>"),
        ] {
            assert_eq!(age(then, now), expected, "{then}");
        }
    }
}
