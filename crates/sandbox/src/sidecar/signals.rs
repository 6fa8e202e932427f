//! Signals by name.

/// Names without `SIG`, and numbers as every Linux but for a few has them.
const SIGNALS: [(&str, i32); 16] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
];

/// The number of a signal that is said by name or number.
pub(super) fn number(text: &str) -> Option<i32> {
    let upper = text.trim().to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    known.or_else(|| name.parse().ok().filter(|number| SIGNALS.iter().any(|(_, known)| known == number)))
}

/// The key that gives a signal to whatever is in front on a terminal.
pub(super) fn key(signal: i32) -> Option<u8> {
    match signal {
        2 => Some(0x03),
        3 => Some(0x1c),
        20 => Some(0x1a),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_mean_the_same() {
        for (text, expected) in [
            ("SIGTERM", Some(15)),
            ("term", Some(15)),
            ("9", Some(9)),
            ("0", None),
            ("64", None),
            ("", None),
            ("SIGX", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }
}
