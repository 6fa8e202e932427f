//! Durations as Argo reads and says them.

use jiff::SignedDuration;

use crate::spec;

/// `90` seconds, or `1h30m`, `1.5s`, `100ms`.
pub(super) fn parsed(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("unable to parse {text} as a duration: time: invalid duration \"{text}\"");
    let duration = spec::duration(text).ok_or_else(invalid)?;
    SignedDuration::try_from(duration).map_err(|_| invalid())
}

/// As people read it: the two largest units.
pub(super) fn spoken(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let said = |amount: i64, unit: &str| format!("{amount} {unit}{}", if amount == 1 { "" } else { "s" });
    match seconds {
        ..60 => said(seconds, "second"),
        60..3600 => format!("{} {} seconds", said(seconds / 60, "minute"), seconds % 60),
        3600..86_400 => format!("{} {} minutes", said(seconds / 3600, "hour"), seconds / 60 % 60),
        _ => format!("{} {} hours", said(seconds / 86_400, "day"), seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_said_as_argo_does() {
        for (seconds, said) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (10, "10 seconds"),
            (61, "1 minute 1 seconds"),
            (7200, "2 hours 0 minutes"),
        ] {
            assert_eq!(spoken(SignedDuration::from_secs(seconds)), said);
        }
        assert!(parsed("x").is_err());
    }
}
