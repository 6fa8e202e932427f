//! Amounts as Kubernetes writes them: `500m`, `1Gi`, `1e3`.

/// Thousandths of the amount, rounded up; none if it is no amount or too large.
pub(crate) fn millis(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let (times, over) = factor(suffix)?;
    let amount = digits.checked_mul(times)?.checked_mul(1000)?;
    u64::try_from(amount.div_ceil(scale.checked_mul(over)?)).ok()
}

/// The amount itself, rounded up.
pub(crate) fn units(text: &str) -> Option<u64> {
    Some(millis(text)?.div_ceil(1000))
}

/// What a suffix multiplies by and divides by.
fn factor(suffix: &str) -> Option<(u128, u128)> {
    const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const SMALL: [&str; 3] = ["m", "u", "n"];
    let power = |base: u128, exponent: usize| base.checked_pow(u32::try_from(exponent).ok()?);
    if let Some(index) = DECIMAL.iter().position(|known| *known == suffix) {
        return Some((power(1000, index)?, 1));
    }
    if let Some(index) = BINARY.iter().position(|known| *known == suffix) {
        return Some((power(1024, index + 1)?, 1));
    }
    if let Some(index) = SMALL.iter().position(|known| *known == suffix) {
        return Some((1, power(1000, index + 1)?));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let size = power(10, usize::try_from(exponent.unsigned_abs()).ok()?)?;
    Some(if exponent < 0 { (1, size) } else { (size, 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("500m", Some(500)),
            ("0.5", Some(500)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("128Mi", Some(134_217_728_000)),
            ("1k", Some(1_000_000)),
            ("1e3", Some(1_000_000)),
            ("1e-3", Some(1)),
            ("1n", Some(1)),
            ("", None),
            ("x", None),
            ("1x", None),
            (".", None),
            ("-1", None),
            ("99999999999999999999999999999999999999999", None),
            ("1e99", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
        assert_eq!(units("1100m"), Some(2));
    }
}
