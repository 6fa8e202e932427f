//! What a question is about, found from its name alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::topic::Topic;

use super::Settings;
use super::record::Question;

/// What has to be looked at to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lookup {
    /// Instances of a service, with a tag if one is asked for.
    Service { name: String, tag: Option<String> },
    /// A node.
    Node(String),
    /// An address that was written as a name.
    Address(IpAddr),
    /// Who has an address.
    Reverse(IpAddr),
    /// The zone itself.
    Zone,
    /// A name that others are under, without records of its own.
    Empty,
    /// There is no such name in our zone.
    Nothing,
    /// Not our zone.
    Elsewhere,
}

impl Lookup {
    /// The topic that knows, where one is needed.
    pub(super) fn topic(&self) -> Option<Topic> {
        match self {
            Self::Service { name, .. } => Some(Topic::Service(name.clone())),
            Self::Node(name) => Some(Topic::Node(name.clone())),
            Self::Reverse(_) => Some(Topic::Nodes),
            Self::Address(_) | Self::Zone | Self::Empty | Self::Nothing | Self::Elsewhere => None,
        }
    }
}

/// What a question is about.
pub(super) fn lookup(question: &Question, settings: &Settings, datacenter: &str) -> Lookup {
    let labels = question.name.lowered();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    if let Some(found) = reverse(&labels) {
        return found;
    }
    let within = settings.zones.iter().find_map(|zone| {
        let zone: Vec<&str> = zone.split('.').collect();
        let (before, end) = labels.split_at(labels.len().checked_sub(zone.len())?);
        let same = end.iter().zip(&zone).all(|(label, own)| own.to_lowercase() == *label);
        same.then_some(before)
    });
    match within {
        Some(labels) => inside(labels, &datacenter.to_lowercase()),
        None => Lookup::Elsewhere,
    }
}

/// A name within the zone: `… .kind`, or `… .kind.datacenter`.
fn inside(labels: &[&str], datacenter: &str) -> Lookup {
    let kinds = ["service", "node", "addr"];
    match labels {
        [] => Lookup::Zone,
        [only] if kinds.contains(only) || *only == datacenter => Lookup::Empty,
        [kind, dc] if kinds.contains(kind) && *dc == datacenter => Lookup::Empty,
        [before @ .., kind, dc] if kinds.contains(kind) && *dc == datacenter => of_kind(before, kind),
        [before @ .., kind] if kinds.contains(kind) => of_kind(before, kind),
        // RFC 2782 without the word: `_name._tag`.
        [service, tag] | [service, tag, ..] if service.starts_with('_') && tag.starts_with('_') => match labels {
            [_, _] => of_kind(labels, "service"),
            [_, _, dc] if *dc == datacenter => of_kind(&labels[..2], "service"),
            _ => Lookup::Nothing,
        },
        _ => Lookup::Nothing,
    }
}

fn of_kind(labels: &[&str], kind: &str) -> Lookup {
    match (kind, labels) {
        ("addr", [hex]) => from_hex(hex).map_or(Lookup::Nothing, Lookup::Address),
        ("addr", _) => Lookup::Nothing,
        ("node", labels) => Lookup::Node(labels.join(".")),
        (_, [service, tag]) if service.starts_with('_') && tag.starts_with('_') => {
            let tag = (&tag[1..] != "tcp").then(|| tag[1..].to_owned());
            Lookup::Service { name: service[1..].to_owned(), tag }
        }
        (_, [tag @ .., name]) => {
            let tag = (!tag.is_empty()).then(|| tag.join("."));
            Lookup::Service { name: (*name).to_owned(), tag }
        }
        (_, []) => Lookup::Empty,
    }
}

/// An address as the names we make have it.
pub(super) fn to_hex(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => format!("{:08x}", u32::from(ip)),
        IpAddr::V6(ip) => format!("{:032x}", u128::from(ip)),
    }
}

fn from_hex(text: &str) -> Option<IpAddr> {
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    match text.len() {
        8 => u32::from_str_radix(text, 16).ok().map(|bits| Ipv4Addr::from(bits).into()),
        32 => u128::from_str_radix(text, 16).ok().map(|bits| Ipv6Addr::from(bits).into()),
        _ => None,
    }
}

/// What a name under one of the reverse zones is about; one of no address is nothing.
fn reverse(labels: &[&str]) -> Option<Lookup> {
    let address = match labels {
        [octets @ .., "in-addr", "arpa"] => {
            let octets: Option<Vec<u8>> = octets.iter().rev().map(|octet| octet.parse().ok()).collect();
            let octets: Option<[u8; 4]> = octets.and_then(|all| all.try_into().ok());
            octets.map(|octets| Ipv4Addr::from(octets).into())
        }
        [nibbles @ .., "ip6", "arpa"] => {
            let text: String = nibbles.iter().rev().copied().collect();
            let whole = nibbles.len() == 32 && nibbles.iter().all(|nibble| nibble.len() == 1);
            if whole { from_hex(&text) } else { None }
        }
        _ => return None,
    };
    Some(address.map_or(Lookup::Nothing, Lookup::Reverse))
}
