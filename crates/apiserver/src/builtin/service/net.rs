//! Addresses and ranges as Kubernetes reads them: leading zeroes in octets and host bits in ranges are let pass.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::field::{FieldError, Path};

/// Reads an address.
pub(in crate::builtin) fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let octets = text.split('.').map(|octet| match octet.trim_start_matches('0') {
        "" if !octet.is_empty() => "0",
        trimmed => trimmed,
    });
    octets.collect::<Vec<_>>().join(".").parse().ok()
}

/// Reads a range.
pub(in crate::builtin) fn parse_range(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    IpNet::new(parse_address(address)?, length.parse().ok()?).ok().map(|range| range.trunc())
}

/// What is wrong with an address.
pub(in crate::builtin) fn address_errors(text: &str, path: &Path) -> Vec<FieldError> {
    if parse_address(text).is_some() {
        return Vec::new();
    }
    vec![FieldError::invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
}

/// What is wrong with a range.
pub(in crate::builtin) fn range_errors(text: &str, path: &Path) -> Vec<FieldError> {
    if parse_range(text).is_some() {
        return Vec::new();
    }
    vec![FieldError::invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
}

/// What is wrong with an address that traffic from outside shall reach.
pub(in crate::builtin) fn endpoint_errors(text: &str, path: &Path) -> Vec<FieldError> {
    let Some(address) = parse_address(text) else { return Vec::new() };
    let (local, multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    let mut errors = Vec::new();
    if address.is_unspecified() {
        errors.push(FieldError::invalid(path, text, format!("may not be unspecified ({text})")));
    }
    if address.is_loopback() {
        errors.push(FieldError::invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"));
    }
    if local {
        let why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errors.push(FieldError::invalid(path, text, why));
    }
    if multicast {
        let why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.push(FieldError::invalid(path, text, why));
    }
    errors
}
