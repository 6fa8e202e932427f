//! Kubernetes quantities such as `500m` or `1Gi`: exact to a billionth, printed as Kubernetes prints them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// Why a text is no quantity, worded as Kubernetes words it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// Not a number with a suffix.
    #[error(r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// A suffix nobody knows.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// A number beyond what fits.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
}

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// `1500m`, `12k`
    Decimal,
    /// `1Ki`
    Binary,
    /// `12e3`
    Exponent,
}

/// An exact amount. Two are equal when they stand for the same amount, however written.
#[derive(Debug, Clone)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
    /// The text it was read from, where Kubernetes keeps it.
    text: Option<String>,
}

const NANOS: i128 = 1_000_000_000;
const NANO_EXPONENT: i32 = -9;

impl Quantity {
    /// Reads a JSON value: a text or a number; null is zero.
    pub(crate) fn from_value(value: &Value) -> Result<Self, Error> {
        match value {
            Value::Null => "0".parse(),
            Value::String(text) => text.trim().parse(),
            Value::Number(number) => number.to_string().parse(),
            _ => Err(Error::Format),
        }
    }

    /// A whole amount.
    pub(crate) fn whole(value: i64) -> Self {
        Self { nanos: i128::from(value) * NANOS, format: Format::Decimal, text: None }
    }

    /// Whether the amount is zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether the amount is below zero.
    pub(crate) fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether the amount is a whole number.
    pub(crate) fn is_whole(&self) -> bool {
        self.nanos % NANOS == 0
    }

    /// The amount if it is a whole number that fits.
    pub(crate) fn as_whole(&self) -> Option<i64> {
        if self.is_whole() { i64::try_from(self.nanos / NANOS).ok() } else { None }
    }

    /// The nearest float.
    #[expect(clippy::cast_precision_loss, reason = "an approximation is what is asked for")]
    pub(crate) fn as_float(&self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    /// -1, 0 or 1.
    pub(crate) fn sign(&self) -> i64 {
        i64::from(self.nanos > 0) - i64::from(self.nanos < 0)
    }

    /// The sum, if it fits.
    pub(crate) fn plus(&self, other: &Self) -> Option<Self> {
        Some(Self { nanos: self.nanos.checked_add(other.nanos)?, format: self.format, text: None })
    }

    /// The difference, if it fits.
    pub(crate) fn minus(&self, other: &Self) -> Option<Self> {
        Some(Self { nanos: self.nanos.checked_sub(other.nanos)?, format: self.format, text: None })
    }

    /// The amount as a whole number, away from zero.
    pub(crate) fn to_whole(&self) -> i64 {
        let whole = self.nanos / NANOS + (self.nanos % NANOS).signum();
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }

    /// The amount rounded up to whole thousandths, the finest that resources of a container may have.
    #[must_use]
    pub(crate) fn rounded_to_milli(mut self) -> Self {
        const NANOS_PER_MILLI: i128 = 1_000_000;
        let rest = self.nanos % NANOS_PER_MILLI;
        if rest != 0 {
            self.nanos += if rest > 0 { NANOS_PER_MILLI - rest } else { -(NANOS_PER_MILLI + rest) };
            self.text = None;
        }
        self
    }

    fn canonical(&self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        match self.format {
            Format::Binary if self.nanos.abs() >= 1024 * NANOS && self.is_whole() => binary(self.nanos / NANOS),
            Format::Exponent => decimal(self.nanos, true),
            _ => decimal(self.nanos, false),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl FromStr for Quantity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::Format);
        }
        let parts = Parts::split(text)?;
        let (base, exponent, mut format) = suffix(parts.suffix)?;
        let digits = format!("{}{}", parts.whole, parts.fraction);
        let places = i32::try_from(parts.fraction.len()).map_err(|_| Error::Numeric)?;
        let amount = if base == 10 {
            scaled(&digits, exponent.saturating_sub(places))?
        } else {
            let factor = 1_i128.checked_shl(exponent.unsigned_abs()).ok_or(Error::Numeric)?;
            scaled(&digits, -places)?.checked_mul(factor).unwrap_or(i128::MAX).min(i128::from(i64::MAX) * NANOS)
        };
        if format == Format::Binary && amount > 0 && amount < NANOS {
            format = Format::Decimal;
        }
        let kept = keeps_text(format, exponent, exponent.saturating_sub(places), &parts, &digits);
        let nanos = if parts.negative { -amount } else { amount };
        Ok(Self { nanos, format, text: kept.then(|| text.to_owned()) })
    }
}

/// Whether Kubernetes prints the text as it was read: where it looks canonical to it, and the number is small.
fn keeps_text(format: Format, exponent: i32, scale: i32, parts: &Parts, digits: &str) -> bool {
    let length = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    match format {
        Format::Binary => {
            parts.fraction.is_empty()
                && 14 - length - exponent * 3 / 10 >= 0
                && exponent % 10 == 0
                && digits.parse::<i64>().is_ok_and(|value| value & 7 != 0)
        }
        Format::Decimal | Format::Exponent => {
            length <= 18
                && scale >= NANO_EXPONENT
                && scale % 3 == 0
                && !digits.ends_with("000")
                && !digits.starts_with('0')
        }
    }
}

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, Error> {
        let negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
        let (whole, rest) = cut(rest, |byte| byte.is_ascii_digit());
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => cut(rest, |byte| byte.is_ascii_digit()),
            None => ("", rest),
        };
        let (_, tail) = cut(suffix, |byte| b"eEinumkKMGTP".contains(&byte));
        let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail);
        if !tail.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Error::Format);
        }
        Ok(Self { negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
    }
}

fn cut(text: &str, keep: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !keep(byte)).unwrap_or(text.len()))
}

fn suffix(text: &str) -> Result<(u8, i32, Format), Error> {
    let decimal = |exponent| Ok((10, exponent, Format::Decimal));
    let binary = |exponent| Ok((2, exponent, Format::Binary));
    match text {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let digits = text.strip_prefix(['e', 'E']).ok_or(Error::Suffix)?;
            Ok((10, digits.parse().map_err(|_| Error::Suffix)?, Format::Exponent))
        }
    }
}

/// `digits × 10^exponent` in billionths, rounded up; as much as fits where it is more.
fn scaled(digits: &str, exponent: i32) -> Result<i128, Error> {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    let shift = exponent.saturating_sub(NANO_EXPONENT);
    if shift >= 0 {
        let value = digits.parse::<i128>().map_err(|_| Error::Numeric)?;
        let factor = 10_i128.checked_pow(shift.unsigned_abs());
        return Ok(factor.and_then(|factor| value.checked_mul(factor)).unwrap_or(i128::from(i64::MAX) * NANOS));
    }
    let dropped = usize::try_from(shift.unsigned_abs()).map_err(|_| Error::Numeric)?;
    let (kept, rest) = digits.split_at(digits.len().saturating_sub(dropped));
    let value = if kept.is_empty() { 0 } else { kept.parse::<i128>().map_err(|_| Error::Numeric)? };
    Ok(value + i128::from(rest.bytes().any(|byte| byte != b'0')))
}

fn decimal(nanos: i128, exponential: bool) -> String {
    let (mut amount, mut exponent) = (nanos, NANO_EXPONENT);
    while amount % 10 == 0 && (exponent < 18 || exponential) {
        amount /= 10;
        exponent += 1;
    }
    while exponent % 3 != 0 {
        amount *= 10;
        exponent -= 1;
    }
    if exponential {
        return if exponent == 0 { amount.to_string() } else { format!("{amount}e{exponent}") };
    }
    let suffix = match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    };
    format!("{amount}{suffix}")
}

fn binary(mut amount: i128) -> String {
    let mut suffixes = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter();
    let mut suffix = "";
    while amount % 1024 == 0 {
        let Some(next) = suffixes.next() else { break };
        suffix = next;
        amount /= 1024;
    }
    format!("{amount}{suffix}")
}

#[cfg(test)]
mod tests;
