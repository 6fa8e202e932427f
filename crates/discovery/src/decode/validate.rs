//! What Consul demands of services and nodes beyond their shape.

use std::collections::BTreeMap;

use super::fields::Fields;
use crate::model::{Service, ServiceAddress, Weights};

const META_PAIRS_MAX: usize = 64;
const META_KEY_MAX: usize = 128;
const META_VALUE_MAX: usize = 512;

/// An address no service can be reached at.
pub(super) fn any_address(address: &str) -> bool {
    matches!(address, "0.0.0.0" | "::" | "[::]")
}

/// Labels of a service or a node.
pub(super) fn meta(meta: &BTreeMap<String, String>) -> Result<(), String> {
    if meta.len() > META_PAIRS_MAX {
        return Err(format!("Node metadata cannot contain more than {META_PAIRS_MAX} key/value pairs"));
    }
    meta.iter().try_for_each(|(key, value)| {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let complaint = if key.is_empty() {
            String::from("Key cannot be blank")
        } else if !key.bytes().all(word) {
            String::from("Key contains invalid characters")
        } else if key.len() > META_KEY_MAX {
            format!("Key is too long (limit: {META_KEY_MAX} characters)")
        } else if key.starts_with("consul-") {
            String::from("Key prefix 'consul-' is reserved for internal use")
        } else if value.len() > META_VALUE_MAX {
            format!("Value is too long (limit: {META_VALUE_MAX} characters)")
        } else {
            return Ok(());
        };
        Err(format!("Couldn't load metadata pair ('{key}', '{value}'): {complaint}"))
    })
}

/// Weights as given, or what counts where none are.
pub(super) fn weights(fields: Fields<'_>) -> Result<Weights, String> {
    let Some(given) = fields.object("Weights") else { return Ok(Weights::default()) };
    let (passing, warning) = (given.int("Passing"), given.int("Warning"));
    if passing < 1 {
        return Err(String::from("Passing must be greater than 0"));
    }
    if warning < 0 {
        return Err(String::from("Warning must be greater or equal than 0"));
    }
    match (u16::try_from(passing), u16::try_from(warning)) {
        (Ok(passing), Ok(warning)) => Ok(Weights { passing: passing.into(), warning: warning.into() }),
        _ => Err(String::from("DNS Weight must be between 0 and 65535")),
    }
}

/// A port; Consul takes any number, we only those that are ports.
pub(super) fn port(fields: Fields<'_>) -> Result<u16, String> {
    let port = fields.int("Port");
    u16::try_from(port).map_err(|_| format!("port {port} is not between 0 and 65535"))
}

/// What the bodies of agent and catalog say about a service in the same way.
pub(super) fn service(fields: Fields<'_>, id: String, name: String) -> Result<Service, String> {
    let kind = fields.text(&["Kind"]);
    if !matches!(kind.as_str(), "" | "typical") {
        return Err(format!("services of kind {kind:?} are not supported"));
    }
    let mut tagged_addresses = BTreeMap::new();
    let entries = fields.entries("TaggedAddresses");
    for (label, value) in if entries.is_empty() { fields.entries("tagged_addresses") } else { entries } {
        let at = Fields::of(value);
        let address = ServiceAddress { address: at.text(&["Address"]), port: port(at)? };
        tagged_addresses.insert(label.clone(), address);
    }
    Ok(Service {
        id,
        name,
        tags: fields.texts(&["Tags"]),
        address: fields.text(&["Address"]),
        port: port(fields)?,
        tagged_addresses,
        meta: fields.text_map("Meta"),
        weights: Weights::default(),
        enable_tag_override: fields.flag(&["EnableTagOverride", "enable_tag_override"]),
    })
}
