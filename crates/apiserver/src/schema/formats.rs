//! The string formats a CRD may ask for; any other format is ignored, as Kubernetes does.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use regex::Regex;

use crate::names;

mod times;

pub(crate) use times::{go_duration, is_date, is_duration};

use times::is_date_time;

const KNOWN: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

fn normal(format: &str) -> String {
    format.replace('-', "")
}

/// Whether strings are checked against this format.
pub(crate) fn is_known(format: &str) -> bool {
    KNOWN.contains(&normal(format).as_str())
}

/// Whether a string has the format; unknown formats fit anything.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    match normal(format).as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && lenient_v4(text).is_some(),
        "ipv6" => text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => is_match(&SSN, text),
        "hexcolor" => is_match(&HEX_COLOR, text),
        "rgbcolor" => is_match(&RGB_COLOR, text),
        "byte" => !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => is_date_time(text),
        "k8sshortname" => names::dns_label(text).is_empty(),
        "k8slongname" => names::dns_subdomain(text).is_empty(),
        _ => true,
    }
}

type Lazy = LazyLock<Option<Regex>>;
static SSN: Lazy = LazyLock::new(|| Regex::new(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$").ok());
static HEX_COLOR: Lazy = LazyLock::new(|| Regex::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static RGB_COLOR: Lazy = LazyLock::new(|| {
    let part = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])";
    Regex::new(&format!(r"^rgb\(\s*{part}\s*,\s*{part}\s*,\s*{part}\s*\)$")).ok()
});
static CARD: Lazy = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
        r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$"
    ))
    .ok()
});

fn is_match(regex: &Lazy, text: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(char::is_control) {
        return false;
    }
    if text == "*" || text.starts_with('/') {
        return escapes_are_valid(text);
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let starts = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let tail = scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    starts && tail && escapes_are_valid(rest) && authority_is_valid(rest)
}

fn escapes_are_valid(text: &str) -> bool {
    let path = text.split(['?', '#']).next().unwrap_or_default();
    path.match_indices('%')
        .all(|(at, _)| path.as_bytes().get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)))
}

fn authority_is_valid(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix("//") else { return true };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    if let Some(inner) = host.strip_prefix('[') {
        return inner.contains(']');
    }
    !host.contains(' ') && host.rsplit_once(':').is_none_or(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(at), Some(inner)) => inner.get(at + 1..).unwrap_or_default(),
        _ => text,
    };
    let Some((local, domain)) = address.trim().rsplit_once('@') else { return false };
    let plain = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let quoted = local.len() > 1 && local.starts_with('"') && local.ends_with('"');
    let atoms =
        |text: &str| !text.is_empty() && text.split('.').all(|atom| !atom.is_empty()) && text.chars().all(plain);
    (quoted || atoms(local)) && (atoms(domain) || (domain.starts_with('[') && domain.ends_with(']')))
}

fn is_hostname(text: &str) -> bool {
    if text.is_empty() || text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    let inner = |c: char| c.is_alphanumeric() || (!c.is_ascii() && !c.is_control() && !c.is_whitespace());
    let labels = text.split('.').collect::<Vec<_>>();
    let label = |label: &&str| {
        label.starts_with(inner) && label.ends_with(inner) && label.chars().all(|c| inner(c) || c == '-')
    };
    match labels.as_slice() {
        [one] => label(one),
        [front @ .., top] => {
            front.iter().all(label) && top.chars().count() >= 2 && top.chars().all(char::is_alphabetic)
        }
        [] => false,
    }
}

/// Go's older parser took leading zeros as decimal; Kubernetes still does.
fn lenient_v4(text: &str) -> Option<Ipv4Addr> {
    let parts = text.split('.').map(|part| {
        let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if plain { part.parse::<u8>().ok() } else { None }
    });
    let parts = parts.collect::<Option<Vec<_>>>()?;
    let octets: [u8; 4] = parts.try_into().ok()?;
    Some(octets.into())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    let Some(bits) = bits.parse::<u8>().ok().filter(|_| digits) else { return false };
    match lenient_v4(address).map(IpAddr::V4).or_else(|| address.parse().ok()) {
        Some(IpAddr::V4(_)) => bits <= 32,
        Some(IpAddr::V6(_)) => bits <= 128,
        None => false,
    }
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize, counts: &[usize]| {
        let parts = text.split(separator).collect::<Vec<_>>();
        counts.contains(&parts.len())
            && parts.iter().all(|part| part.len() == width && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut digits = String::new();
    let mut rest = text;
    for (at, width) in [8_usize, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some(part) = rest.get(..width).filter(|part| part.bytes().all(|b| b.is_ascii_hexdigit())) else {
            return false;
        };
        digits.push_str(part);
        rest = &rest[width..];
    }
    let variant = digits.chars().nth(16).map(|c| c.to_ascii_lowercase());
    rest.is_empty()
        && version.is_none_or(|version| {
            digits.chars().nth(12) == Some(version)
                && (version == '3' || variant.is_some_and(|c| matches!(c, '8' | '9' | 'a' | 'b')))
        })
}

fn isbn_digits(text: &str) -> Vec<char> {
    text.chars().filter(|c| !matches!(c, '-' | ' ' | '\t' | '\n')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let value = |at: usize, c: &char| match c {
        'X' if at == 9 => Some(10),
        c => c.to_digit(10),
    };
    let values = digits.iter().enumerate().map(|(at, c)| value(at, c)).collect::<Option<Vec<_>>>();
    values.is_some_and(|values| {
        values.len() == 10 && values.iter().zip(1..).map(|(value, weight)| value * weight).sum::<u32>() % 11 == 0
    })
}

fn is_isbn13(text: &str) -> bool {
    let values = isbn_digits(text).iter().map(|c| c.to_digit(10)).collect::<Option<Vec<_>>>();
    values.is_some_and(|values| {
        let weights = [1, 3].into_iter().cycle();
        values.len() == 13 && values.iter().zip(weights).map(|(value, weight)| value * weight).sum::<u32>() % 10 == 0
    })
}

fn is_credit_card(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_digit).collect::<String>();
    let sum = digits.chars().rev().enumerate().map(|(at, c)| {
        let digit = c.to_digit(10).unwrap_or_default();
        if at % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
    });
    is_match(&CARD, &digits) && sum.sum::<u32>() % 10 == 0
}

/// Whether a float stands for a whole number.
pub(crate) fn is_whole(value: f64) -> bool {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_991.0;
    value.is_finite() && value.abs() <= LARGEST_EXACT && (value - value.round()).abs() < 1e-9
}

/// A float as Go's `%v` prints it.
pub(crate) fn go_float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) && value.is_finite() {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    format!("{value}")
}

#[cfg(test)]
mod tests;
