//! Times as Kubernetes writes them.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

/// RFC 3339 in whole seconds, as `metav1.Time`.
pub(crate) fn seconds(at: Timestamp) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
    PRINTER.timestamp_to_string(&at)
}

/// RFC 3339 with six digits, as `metav1.MicroTime`.
pub(crate) fn micros(at: Timestamp) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
    PRINTER.timestamp_to_string(&at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let at = "2026-01-02T03:04:05.9876543Z".parse().unwrap();
        assert_eq!(seconds(at), "2026-01-02T03:04:05Z");
        assert_eq!(micros(at), "2026-01-02T03:04:05.987654Z");
    }
}
