//! Addresses, networks and URLs.

use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;

use ipnet::IpNet;

use super::calls::{error, no_overload};
use super::eval::Outcome;
use super::value::Val;
use crate::schema::formats;

/// An address with the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cidr(IpNet);

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    if text.contains('%') {
        return Err(format!("IP address {text:?} with zone value is not allowed"));
    }
    let ip: IpAddr = text.parse().map_err(|_| {
        let why = why_no_address(text);
        format!("IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): {why}")
    })?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        ip => Ok(ip),
    }
}

/// What is wrong with an address, as Go says it.
fn why_no_address(text: &str) -> String {
    let dotted = text.find('.').is_some_and(|dot| text.find(':').is_none_or(|colon| dot < colon));
    if !dotted {
        return "unable to parse IP".to_owned();
    }
    let (mut from, mut count) = (0, 0);
    for part in text.split('.') {
        let rest = &text[from..];
        if part.is_empty() {
            return format!("IPv4 field must have at least one digit (at {rest:?})");
        }
        if let Some(at) = part.find(|c: char| !c.is_ascii_digit()) {
            return format!("unexpected character (at {:?})", &rest[at..]);
        }
        if part.len() > 1 && part.starts_with('0') {
            return "IPv4 field has octet with leading zero".to_owned();
        }
        if part.parse::<u8>().is_err() {
            return "IPv4 field has value >255".to_owned();
        }
        from += part.len() + 1;
        count += 1;
    }
    if count < 4 { "IPv4 address too short" } else { "IPv4 address too long" }.to_owned()
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    const FAILED: &str = "network address parse error during conversion from string";
    let wrong = |why: &str| format!("{FAILED}: {FAILED}: netip.ParsePrefix({text:?}): {why}");
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
    let ip = address.parse::<IpAddr>();
    let ip = ip.map_err(|_| wrong(&format!("ParseAddr({address:?}): {}", why_no_address(address))))?;
    if bits.is_empty() || (bits.len() > 1 && bits.starts_with('0')) || !bits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong(&format!("bad bits after slash: {bits:?}")));
    }
    let net = bits.parse().ok().and_then(|bits| IpNet::new(ip, bits).ok());
    let net = net.ok_or_else(|| wrong("prefix length out of range"))?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("{FAILED}: IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        _ => Ok(Cidr(net)),
    }
}

fn parse_url(text: &str) -> Result<Url, String> {
    if text.starts_with(':') {
        return Err(format!("URL parse error during conversion from string: parse {text:?}: missing protocol scheme"));
    }
    if !formats::matches("uri", text) {
        return Err(format!("URL parse error during conversion from string: parse {text:?}: invalid URI for request"));
    }
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if !text.starts_with('/') => (scheme, rest),
        _ => ("", text),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) if !scheme.is_empty() || text.starts_with("//") => {
            let end = rest.find('/').unwrap_or(rest.len());
            (rest[..end].rsplit('@').next().unwrap_or_default(), &rest[end..])
        }
        _ => ("", rest),
    };
    Ok(Url {
        text: text.to_owned(),
        scheme: scheme.to_ascii_lowercase(),
        host: host.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
    })
}

impl Url {
    fn host_and_port(&self) -> (&str, &str) {
        if let Some(inner) = self.host.strip_prefix('[')
            && let Some((name, rest)) = inner.split_once(']')
        {
            return (name, rest.strip_prefix(':').unwrap_or_default());
        }
        self.host.rsplit_once(':').unwrap_or((&self.host, ""))
    }

    fn query<'a>(&self) -> Val<'a> {
        let mut entries: Vec<(String, Vec<Val<'a>>)> = Vec::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (decoded(key), Val::text(decoded(value)));
            match entries.iter_mut().find(|(known, _)| *known == key) {
                Some((_, list)) => list.push(value),
                None => entries.push((key, vec![value])),
            }
        }
        Val::Map(Rc::new(entries.into_iter().map(|(key, list)| (Val::text(key), Val::list(list))).collect()))
    }
}

/// A path as it stands in a request: as written if that can be sent, else escaped anew.
fn escaped(path: &str) -> String {
    use std::fmt::Write as _;
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
    if path.bytes().all(|byte| kept(byte) || b"!'()*[]%".contains(&byte)) {
        return path.to_owned();
    }
    let mut out = String::with_capacity(path.len());
    for byte in unescaped(path, false) {
        if kept(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&unescaped(text, true)).into_owned()
}

fn unescaped(text: &str, plus_is_space: bool) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, hex) {
            (b'%', Some(hex)) => {
                out.push(hex);
                at += 2;
            }
            (b'+', _) if plus_is_space => out.push(b' '),
            (other, _) => out.push(*other),
        }
        at += 1;
    }
    out
}

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    match args {
        [Val::Text(text)] => from_text(name, text),
        [Val::Ip(ip)] => on_ip(name, *ip),
        [Val::Cidr(net), rest @ ..] => on_cidr(name, *net, rest),
        [Val::Url(url)] => on_url(name, url),
        _ => None,
    }
}

fn from_text<'a>(name: &str, text: &str) -> Option<Outcome<'a>> {
    Some(match name {
        "ip" => parse_ip(text).map(Val::Ip).map_err(error),
        "isIP" => Ok(Val::Bool(parse_ip(text).is_ok())),
        "ip.isCanonical" => parse_ip(text).map(|ip| Val::Bool(ip.to_string() == text)).map_err(error),
        "cidr" => parse_cidr(text).map(Val::Cidr).map_err(error),
        "isCIDR" => Ok(Val::Bool(parse_cidr(text).is_ok())),
        "url" => parse_url(text).map(|url| Val::Url(Rc::new(url))).map_err(error),
        "isURL" => Ok(Val::Bool(parse_url(text).is_ok())),
        _ => return None,
    })
}

fn on_ip<'a>(name: &str, ip: IpAddr) -> Option<Outcome<'a>> {
    let link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    };
    let value = match name {
        "family" => return Some(Ok(Val::Int(if ip.is_ipv4() { 4 } else { 6 }))),
        "isUnspecified" => ip.is_unspecified(),
        "isLoopback" => ip.is_loopback(),
        "isLinkLocalMulticast" => match ip {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        },
        "isLinkLocalUnicast" => link_local,
        "isGlobalUnicast" => {
            let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
            !broadcast && !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() && !link_local
        }
        _ => return None,
    };
    Some(Ok(Val::Bool(value)))
}

fn on_cidr<'a>(name: &str, net: Cidr, rest: &[Val<'a>]) -> Option<Outcome<'a>> {
    Some(match (name, rest) {
        ("containsIP", [Val::Text(text)]) => {
            parse_ip(text).map(|ip| Val::Bool(net.0.contains(&ip))).map_err(|_| no_overload())
        }
        ("containsIP", [Val::Ip(ip)]) => Ok(Val::Bool(net.0.contains(ip))),
        ("containsCIDR", [Val::Text(text)]) => parse_cidr(text).map(|part| Val::Bool(covers(net, part))).map_err(error),
        ("containsCIDR", [Val::Cidr(part)]) => Ok(Val::Bool(covers(net, *part))),
        ("ip", []) => Ok(Val::Ip(net.0.addr())),
        ("prefixLength", []) => Ok(Val::Int(net.0.prefix_len().into())),
        ("masked", []) => Ok(Val::Cidr(Cidr(net.0.trunc()))),
        _ => return None,
    })
}

fn covers(net: Cidr, part: Cidr) -> bool {
    net.0.prefix_len() <= part.0.prefix_len() && net.0.contains(&part.0.addr())
}

fn on_url<'a>(name: &str, url: &Url) -> Option<Outcome<'a>> {
    let (host, port) = url.host_and_port();
    Some(Ok(match name {
        "getScheme" => Val::text(url.scheme.as_str()),
        "getHost" => Val::text(url.host.as_str()),
        "getHostname" => Val::text(host),
        "getPort" => Val::text(port),
        "getEscapedPath" => Val::text(escaped(&url.path)),
        "getQuery" => url.query(),
        _ => return None,
    }))
}
