//! Times of log lines, by hand: this crate is linked into every container.

const DAY: u64 = 86_400;
const SECOND: u64 = 1_000_000_000;

/// A time as RFC 3339 has it, to the nanosecond.
pub fn render_time(ns: u64) -> String {
    let (seconds, fraction) = (ns / SECOND, ns % SECOND);
    let (days, rest) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:09}Z")
}

/// The time, if it is one that [`render_time`] wrote.
pub fn parse_time(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let shape = b"0000-00-00T00:00:00.000000000Z";
    let fits = |(byte, wanted): (&u8, &u8)| if *wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted };
    if bytes.len() != shape.len() || !bytes.iter().zip(shape).all(fits) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let days = days(number(0, 4)?, number(5, 7)?, number(8, 10)?)?;
    let seconds = days * DAY + number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
    seconds.checked_mul(SECOND)?.checked_add(number(20, 29)?)
}

/// Year, month and day of so many days since 1970. Years begin in March here, so that a leap day is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carried) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + carried, month, day)
}

/// Days since 1970 of a date.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1970 {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    (era * 146_097 + of_era).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_times() {
        for (ns, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000000000Z"),
            (1_767_322_995_000_000_006, "2026-01-02T03:03:15.000000006Z"),
        ] {
            assert_eq!(render_time(ns), text);
            assert_eq!(parse_time(text), Some(ns));
        }
        for bad in ["", "2026", "2026-13-02T03:03:15.000000006Z", "2026-01-02 03:03:15.000000006Z"] {
            assert_eq!(parse_time(bad), None);
        }
    }

    proptest! {
        #[test]
        fn times_survive(ns in 0..9_000_000_000_000_000_000u64) {
            prop_assert_eq!(parse_time(&render_time(ns)), Some(ns));
        }
    }
}
