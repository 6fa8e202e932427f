//! Kubernetes quantities such as `100m` or `1.5Gi`.

use std::cmp::Ordering;

/// An amount, exact to a billionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(i128);

const NANO: i128 = 1_000_000_000;

/// The explanation Kubernetes gives for text that is no quantity.
pub const FORMAT: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";
const NUMERIC: &str = "unable to parse numeric part of quantity";

impl Quantity {
    /// Reads one, or says what is wrong with Kubernetes' words.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (negative, rest) = match text.as_bytes().first() {
            None => return Err(FORMAT),
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
        };
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let (base, exponent) = scale(rest)?;
        let nanos = amount(whole, fraction, base, exponent).ok_or(NUMERIC)?;
        Ok(Self(if negative { -nanos } else { nanos }))
    }

    /// A whole amount.
    pub fn from_int(value: i64) -> Self {
        Self(i128::from(value) * NANO)
    }

    /// The amount if it is whole and fits.
    pub fn as_int(self) -> Option<i64> {
        if self.0 % NANO == 0 { i64::try_from(self.0 / NANO).ok() } else { None }
    }

    /// The nearest float.
    #[expect(clippy::cast_precision_loss, reason = "an approximation is what is asked for")]
    pub fn as_float(self) -> f64 {
        self.0 as f64 / NANO as f64
    }

    /// -1, 0 or 1.
    pub fn sign(self) -> i64 {
        match self.0.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// The sum, if it fits.
    pub fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The difference, if it fits.
    pub fn minus(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }
}

fn scale(suffix: &str) -> Result<(i128, i32), &'static str> {
    let letters = suffix.find(|c: char| !"eEinumkKMGTP".contains(c)).unwrap_or(suffix.len());
    let tail = suffix[letters..].strip_prefix(['-', '+']).unwrap_or(&suffix[letters..]);
    if !tail.bytes().all(|b| b.is_ascii_digit()) {
        return Err(FORMAT);
    }
    Ok(match suffix {
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "" => (10, 0),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        other => {
            let exponent = other.strip_prefix(['e', 'E']).ok_or(SUFFIX)?;
            (10, exponent.parse().map_err(|_| SUFFIX)?)
        }
    })
}

/// Nanos, rounded up where the text is finer.
fn amount(whole: &str, fraction: &str, base: i128, exponent: i32) -> Option<i128> {
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let mantissa: i128 = digits.parse().ok()?;
    let tens = i32::try_from(fraction.len()).ok()?.checked_neg()?.checked_add(9)?;
    if base == 2 {
        let product = mantissa.checked_mul(1_i128 << exponent)?;
        return shift(product, tens);
    }
    shift(mantissa, tens.checked_add(exponent)?)
}

fn shift(value: i128, tens: i32) -> Option<i128> {
    if tens >= 0 {
        return value.checked_mul(10_i128.checked_pow(tens.unsigned_abs())?);
    }
    match 10_i128.checked_pow(tens.unsigned_abs()) {
        Some(by) => Some(value / by + i128::from(value % by != 0)),
        None => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        let same = |a: &str, b: &str| assert_eq!(Quantity::parse(a), Quantity::parse(b), "{a} {b}");
        same("1", "1000m");
        same("1.5Gi", "1536Mi");
        same("1e3", "1k");
        same("0.1n", "1n");
        same("-1", "-1000m");
        let wrong = |text: &str, why: &str| assert_eq!(Quantity::parse(text), Err(why), "{text}");
        wrong("", FORMAT);
        wrong("abc", FORMAT);
        wrong("1e", SUFFIX);
        wrong("1Kib", FORMAT);
        wrong("1ee", SUFFIX);
        assert_eq!(Quantity::parse("2k").unwrap().as_int(), Some(2000));
    }
}
