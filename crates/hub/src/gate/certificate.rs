//! What the gate reads in a certificate.

use std::fmt::Write;

use jiff::Timestamp;
use thane_runtime::pki;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::AttributeTypeAndValue;

/// The named parts of a subject, in the order Go collects them, which it then writes backwards.
const PARTS: [(&str, &str); 9] = [
    ("2.5.4.6", "C"),
    ("2.5.4.8", "ST"),
    ("2.5.4.7", "L"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.17", "POSTALCODE"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.3", "CN"),
    ("2.5.4.5", "SERIALNUMBER"),
];
/// Parts of which Go keeps only the last.
const SINGLE: [&str; 2] = ["CN", "SERIALNUMBER"];

const PRINTABLE_STRING: u8 = 0x13;
const UTF8_STRING: u8 = 0x0c;

/// A certificate that a trusted authority has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Its subject as Go writes it, such as `CN=name,O=organization`.
    pub subject: String,
    /// The common name in it.
    pub common_name: String,
    /// The unit in it: what it is for.
    pub unit: String,
    /// The URIs it stands for.
    pub uris: Vec<String>,
    /// SHA-256 of the whole, in upper-case hexadecimal.
    pub fingerprint: String,
    /// Its last moment.
    pub not_after: Timestamp,
}

impl Certificate {
    /// Reads a certificate that has been verified.
    pub fn read(der: &[u8]) -> Result<Self, pki::Error> {
        let details = pki::inspect_der(der)?;
        let (_, certificate) = X509Certificate::from_der(der)
            .map_err(|error| pki::Error::Unreadable { what: "certificate", reason: error.to_string() })?;
        Ok(Self {
            subject: subject(&certificate),
            common_name: details.subject.common_name,
            unit: details.subject.organizational_unit.unwrap_or_default(),
            uris: uris(&certificate),
            fingerprint: normal(&details.fingerprint),
            not_after: details.not_after,
        })
    }
}

/// A fingerprint as the gate compares it: upper-case hexadecimal without separators.
pub(super) fn normal(fingerprint: &str) -> String {
    fingerprint.chars().filter(char::is_ascii_hexdigit).map(|digit| digit.to_ascii_uppercase()).collect()
}

fn uris(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.extensions().iter().filter_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectAlternativeName(names) => Some(names.general_names.iter()),
        _ => None,
    });
    let uris = names.flatten().filter_map(|name| match name {
        GeneralName::URI(uri) => Some((*uri).to_owned()),
        _ => None,
    });
    uris.collect()
}

/// The subject as Go's `pkix.Name` writes it: known parts in a fixed order, values of one part joined by a plus.
fn subject(certificate: &X509Certificate<'_>) -> String {
    let mut known: Vec<Vec<String>> = vec![Vec::new(); PARTS.len()];
    let mut others = Vec::new();
    for attribute in certificate.subject().iter_attributes() {
        let oid = attribute.attr_type().to_id_string();
        match PARTS.iter().position(|(part, _)| *part == oid) {
            Some(place) => {
                let Ok(value) = attribute.as_str() else { continue };
                if SINGLE.contains(&PARTS[place].1) {
                    known[place].clear();
                }
                known[place].push(value.to_owned());
            }
            None => others.push(format!("{oid}=#{}", encoded(attribute))),
        }
    }
    let written = PARTS.iter().zip(known).rev().filter_map(|((_, name), values)| {
        let values: Vec<String> = values
            .iter()
            .filter(|value| !value.is_empty() || !SINGLE.contains(name))
            .map(|value| escaped(name, value))
            .collect();
        (!values.is_empty()).then(|| values.join("+"))
    });
    written.chain(others.into_iter().rev()).collect::<Vec<_>>().join(",")
}

fn escaped(name: &str, value: &str) -> String {
    let mut text = format!("{name}=");
    for (place, letter) in value.char_indices() {
        let special = match letter {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            ' ' => place == 0 || place + 1 == value.len(),
            '#' => place == 0,
            _ => false,
        };
        if special {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// A value as DER in hexadecimal, after Go has read and written it again.
fn encoded(attribute: &AttributeTypeAndValue<'_>) -> String {
    let (tag, data) = match attribute.as_str() {
        Ok(text) if text.bytes().all(is_printable) => (PRINTABLE_STRING, text.as_bytes()),
        Ok(text) => (UTF8_STRING, text.as_bytes()),
        Err(_) => {
            let tag = u8::try_from(attribute.attr_value().header.tag().0).unwrap_or_default();
            (tag, attribute.attr_value().data)
        }
    };
    let mut der = vec![tag];
    let length = data.len().to_be_bytes();
    let digits = length.iter().skip_while(|byte| **byte == 0).copied().collect::<Vec<_>>();
    if data.len() > 0x7f {
        der.push(0x80 | u8::try_from(digits.len()).unwrap_or_default());
        der.extend(digits);
    } else {
        der.push(length[length.len() - 1]);
    }
    der.extend_from_slice(data);
    let mut hex = String::with_capacity(der.len() * 2);
    for byte in der {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte)
}

#[cfg(test)]
mod tests;
