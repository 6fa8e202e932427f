//! The functions rules may call, and with what.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::{Ty, assignable};

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    member: bool,
    args: Vec<Ty>,
    result: Ty,
}

/// A receiver before the dot marks a member function.
const SIGNATURES: &str = "
_+_(int,int) int; _+_(uint,uint) uint; _+_(double,double) double; _+_(string,string) string; _+_(bytes,bytes) bytes
_+_(list(A),list(A)) list(A); _+_(timestamp,duration) timestamp; _+_(duration,timestamp) timestamp
_+_(duration,duration) duration
_-_(int,int) int; _-_(uint,uint) uint; _-_(double,double) double; _-_(timestamp,timestamp) duration
_-_(timestamp,duration) timestamp; _-_(duration,duration) duration
_*_(int,int) int; _*_(uint,uint) uint; _*_(double,double) double
_/_(int,int) int; _/_(uint,uint) uint; _/_(double,double) double
_%_(int,int) int; _%_(uint,uint) uint
-_(int) int; -_(double) double; !_(bool) bool
_==_(A,A) bool; _!=_(A,A) bool
@in(A,list(A)) bool; @in(A,map(A,B)) bool
_[_](list(A),int) A; _[_](map(A,B),A) B; _[_](optional(list(A)),int) optional(A); _[_](optional(map(A,B)),A) optional(B)
_[?_](list(A),int) optional(A); _[?_](map(A,B),A) optional(B); _[?_](optional(list(A)),int) optional(A)
_[?_](optional(map(A,B)),A) optional(B)
size(string) int; size(bytes) int; size(list(A)) int; size(map(A,B)) int
string.size() int; bytes.size() int; list(A).size() int; map(A,B).size() int
string.contains(string) bool; string.startsWith(string) bool; string.endsWith(string) bool; string.matches(string) bool
matches(string,string) bool
type(A) type; dyn(A) dyn; bool(string) bool; bool(bool) bool
int(int) int; int(uint) int; int(double) int; int(string) int; int(timestamp) int; int(duration) int
uint(int) uint; uint(uint) uint; uint(double) uint; uint(string) uint
double(int) double; double(uint) double; double(double) double; double(string) double
string(string) string; string(int) string; string(uint) string; string(double) string; string(bool) string
string(bytes) string; string(timestamp) string; string(duration) string; string(ip) string; string(cidr) string
bytes(string) bytes; bytes(bytes) bytes
timestamp(string) timestamp; timestamp(int) timestamp; timestamp(timestamp) timestamp
duration(string) duration; duration(int) duration; duration(duration) duration
timestamp.getFullYear() int; timestamp.getMonth() int; timestamp.getDayOfMonth() int; timestamp.getDate() int
timestamp.getDayOfWeek() int; timestamp.getDayOfYear() int; timestamp.getHours() int; timestamp.getMinutes() int
timestamp.getSeconds() int; timestamp.getMilliseconds() int
timestamp.getFullYear(string) int; timestamp.getMonth(string) int; timestamp.getDayOfMonth(string) int
timestamp.getDate(string) int; timestamp.getDayOfWeek(string) int; timestamp.getDayOfYear(string) int
timestamp.getHours(string) int; timestamp.getMinutes(string) int; timestamp.getSeconds(string) int
timestamp.getMilliseconds(string) int
duration.getHours() int; duration.getMinutes() int; duration.getSeconds() int; duration.getMilliseconds() int
string.charAt(int) string; string.indexOf(string) int; string.indexOf(string,int) int; string.lastIndexOf(string) int
string.lastIndexOf(string,int) int; string.lowerAscii() string; string.upperAscii() string; string.trim() string
string.replace(string,string) string; string.replace(string,string,int) string; string.split(string) list(string)
string.split(string,int) list(string); string.substring(int) string; string.substring(int,int) string
list(string).join() string; list(string).join(string) string; string.format(list(dyn)) string; strings.quote(string) string
string.find(string) string; string.findAll(string) list(string); string.findAll(string,int) list(string)
list(int).sum() int; list(uint).sum() uint; list(double).sum() double
list(duration).sum() duration; list(A).indexOf(A) int; list(A).lastIndexOf(A) int
sets.contains(list(A),list(A)) bool; sets.equivalent(list(A),list(A)) bool; sets.intersects(list(A),list(A)) bool
quantity(string) quantity; isQuantity(string) bool; sign(quantity) int; quantity.isGreaterThan(quantity) bool
quantity.isLessThan(quantity) bool; quantity.compareTo(quantity) int; quantity.asApproximateFloat() double
quantity.asInteger() int; quantity.isInteger() bool; quantity.add(quantity) quantity; quantity.add(int) quantity
quantity.sub(quantity) quantity; quantity.sub(int) quantity
semver(string) semver; semver(string,bool) semver; isSemver(string) bool; isSemver(string,bool) bool
semver.major() int; semver.minor() int; semver.patch() int; semver.isGreaterThan(semver) bool
semver.isLessThan(semver) bool; semver.compareTo(semver) int
url(string) url; isURL(string) bool; url.getScheme() string; url.getHost() string; url.getHostname() string
url.getPort() string; url.getEscapedPath() string; url.getQuery() map(string,list(string))
ip(string) ip; isIP(string) bool; ip.isCanonical(string) bool; ip.family() int; ip.isUnspecified() bool
ip.isLoopback() bool; ip.isLinkLocalMulticast() bool; ip.isLinkLocalUnicast() bool; ip.isGlobalUnicast() bool
cidr(string) cidr; isCIDR(string) bool; cidr.containsIP(string) bool; cidr.containsIP(ip) bool
cidr.containsCIDR(string) bool; cidr.containsCIDR(cidr) bool; cidr.ip() ip; cidr.prefixLength() int; cidr.masked() cidr
format.named(string) optional(format); format.validate(string) optional(list(string)); format.dns1123Label() format
format.dns1123Subdomain() format; format.dns1035Label() format; format.qualifiedName() format
format.dns1123LabelPrefix() format; format.dns1123SubdomainPrefix() format; format.dns1035LabelPrefix() format
format.labelValue() format; format.uri() format; format.uuid() format; format.byte() format; format.date() format
format.datetime() format
optional.of(A) optional(A); optional.ofNonZeroValue(A) optional(A); optional.none() optional(A)
optional(A).hasValue() bool; optional(A).value() A; optional(A).or(optional(A)) optional(A); optional(A).orValue(A) A
list(A).first() optional(A); list(A).last() optional(A); list(optional(A)).unwrapOpt() list(A)
optional.unwrap(list(optional(A))) list(A)
cel.@mapInsert(map(A,B),A,B) map(A,B); cel.@mapInsert(map(A,B),map(A,B)) map(A,B)
";

/// Names before a dot that are part of a function's name, not receivers.
const NAMESPACES: [&str; 5] = ["sets", "optional", "format", "strings", "cel"];
const OPAQUE: [&str; 6] = ["quantity", "url", "ip", "cidr", "format", "semver"];
const ORDERED: [&str; 8] = ["int", "uint", "double", "string", "bytes", "bool", "timestamp", "duration"];

/// Functions Kubernetes declares, though no rule can have what they are called on.
const AUTHORIZATION: [&str; 14] = [
    "path",
    "group",
    "serviceAccount",
    "resource",
    "subresource",
    "namespace",
    "name",
    "check",
    "allowed",
    "reason",
    "error",
    "errored",
    "fieldSelector",
    "labelSelector",
];

type Table = HashMap<String, Vec<Overload>>;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::new();
    for text in SIGNATURES.split([';', '\n']).map(str::trim).filter(|text| !text.is_empty()) {
        if let Some((name, overload)) = signature(text) {
            table.entry(name).or_default().push(overload);
        }
    }
    for operator in ["_<_", "_<=_", "_>_", "_>=_"] {
        let list = table.entry(operator.to_owned()).or_default();
        let numbers = ["int", "uint", "double"];
        for left in ORDERED {
            for right in
                ORDERED.iter().filter(|right| left == **right || (numbers.contains(&left) && numbers.contains(right)))
            {
                let args = [left, right].iter().filter_map(|name| parse(name)).collect();
                list.push(Overload { member: false, args, result: Ty::Bool });
            }
        }
    }
    for name in ["isSorted", "min", "max"] {
        let list = table.entry(name.to_owned()).or_default();
        for item in ORDERED.iter().filter_map(|name| parse(name)) {
            let result = if name == "isSorted" { Ty::Bool } else { item.clone() };
            list.push(Overload { member: true, args: vec![Ty::List(Box::new(item))], result });
        }
    }
    table
});

/// `receiver.name(args) result` or `name(args) result`.
fn signature(text: &str) -> Option<(String, Overload)> {
    let (head, result) = text.rsplit_once(") ").map(|(head, result)| (head, result.trim()))?;
    let open = open_of(head)?;
    let (name, args) = (&head[..open], &head[open + 1..]);
    let mut types = split(args).into_iter().map(parse).collect::<Option<Vec<_>>>()?;
    let result = parse(result)?;
    match dot_of(name) {
        Some(at) if !is_namespace(&name[..at], &name[at + 1..]) => {
            types.insert(0, parse(&name[..at])?);
            Some((name[at + 1..].to_owned(), Overload { member: true, args: types, result }))
        }
        _ => Some((name.to_owned(), Overload { member: false, args: types, result })),
    }
}

fn is_namespace(prefix: &str, name: &str) -> bool {
    match prefix {
        "ip" => name == "isCanonical",
        "format" => name != "validate",
        other => NAMESPACES.contains(&other),
    }
}

/// The parenthesis that opens the arguments: the one closed by the end of the text.
fn open_of(head: &str) -> Option<usize> {
    let mut depth = 1_usize;
    for (at, c) in head.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// The dot between receiver and name, outside of parentheses.
fn dot_of(name: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut found = None;
    for (at, c) in name.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '.' if depth == 0 => found = Some(at),
            _ => {}
        }
    }
    found.filter(|_| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

fn split(args: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut out = Vec::new();
    for (at, c) in args.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(&args[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&args[start..]);
    out.into_iter().map(str::trim).filter(|arg| !arg.is_empty()).collect()
}

fn parse(text: &str) -> Option<Ty> {
    let inner = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
    if let Some(item) = inner("list") {
        return Some(Ty::List(Box::new(parse(item)?)));
    }
    if let Some(item) = inner("optional") {
        return Some(Ty::Optional(Box::new(parse(item)?)));
    }
    if let Some(pair) = inner("map") {
        let parts = split(pair);
        let [key, value] = parts.as_slice() else { return None };
        return Some(Ty::Map(Box::new(parse(key)?), Box::new(parse(value)?)));
    }
    if let Some(name) = OPAQUE.iter().find(|name| **name == text) {
        return Some(Ty::Opaque(name));
    }
    Some(match text {
        "dyn" => Ty::Dyn,
        "bool" => Ty::Bool,
        "int" => Ty::Int,
        "uint" => Ty::Uint,
        "double" => Ty::Double,
        "string" => Ty::Text,
        "bytes" => Ty::Bytes,
        "duration" => Ty::Duration,
        "timestamp" => Ty::Timestamp,
        "type" => Ty::Type,
        _ => Ty::Param(text.chars().next().filter(|_| text.len() == 1)?),
    })
}

/// Whether there is any function of this name.
pub(super) fn exists(name: &str) -> bool {
    TABLE.contains_key(name) || AUTHORIZATION.contains(&name)
}

/// A call: its type, and what the ways to call the function that fit are called with.
pub(super) struct Resolved {
    pub(super) ty: Ty,
    pub(super) ways: Vec<&'static [Ty]>,
}

/// What a call is; `None` where no way to call the function fits.
pub(super) fn resolve(name: &str, member: bool, args: &[Ty]) -> Option<Resolved> {
    let mut found: Option<Resolved> = None;
    for overload in TABLE.get(name)?.iter().filter(|one| one.member == member && one.args.len() == args.len()) {
        let mut bound = HashMap::new();
        if overload.args.iter().zip(args).all(|(wanted, given)| unify(wanted, given, &mut bound)) {
            let result = fill(&overload.result, &bound);
            match &mut found {
                Some(known) => {
                    if known.ty.to_string() != result.to_string() {
                        known.ty = Ty::Dyn;
                    }
                    known.ways.push(&overload.args);
                }
                None => found = Some(Resolved { ty: result, ways: vec![&overload.args] }),
            }
        }
    }
    found
}

fn unify(wanted: &Ty, given: &Ty, bound: &mut HashMap<char, Ty>) -> bool {
    match (wanted, given) {
        (Ty::Param(name), given) => match bound.get(name) {
            None => {
                bound.insert(*name, given.clone());
                true
            }
            Some(known) => {
                let fits = assignable(given, known);
                if fits && matches!(known, Ty::Dyn | Ty::Error | Ty::Null) {
                    bound.insert(*name, given.clone());
                }
                fits
            }
        },
        (_, Ty::Dyn | Ty::Error) | (Ty::Dyn, _) => true,
        (Ty::List(a), Ty::List(b)) | (Ty::Optional(a), Ty::Optional(b)) => unify(a, b, bound),
        (Ty::Map(ka, va), Ty::Map(kb, vb)) => unify(ka, kb, bound) && unify(va, vb, bound),
        (wanted, given) => !matches!(given, Ty::Null) && assignable(given, wanted),
    }
}

fn fill(ty: &Ty, bound: &HashMap<char, Ty>) -> Ty {
    match ty {
        Ty::Param(name) => bound.get(name).cloned().unwrap_or(Ty::Dyn),
        Ty::List(item) => Ty::List(Box::new(fill(item, bound))),
        Ty::Optional(item) => Ty::Optional(Box::new(fill(item, bound))),
        Ty::Map(key, value) => Ty::Map(Box::new(fill(key, bound)), Box::new(fill(value, bound))),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_read() {
        let count = SIGNATURES.split([';', '\n']).filter(|text| !text.trim().is_empty()).count();
        let made = ["_<_", "_<=_", "_>_", "_>=_", "isSorted", "min", "max"];
        let read = TABLE.iter().filter(|(name, _)| !made.contains(&name.as_str()));
        assert_eq!(read.map(|(_, list)| list.len()).sum::<usize>(), count);
    }

    #[test]
    fn calls_resolve_to_their_types() {
        let check = |name: &str, member: bool, args: &[Ty], expected: &str| {
            let found = resolve(name, member, args).map_or("none".to_owned(), |call| call.ty.to_string());
            assert_eq!(found, expected, "{name}");
        };
        let list = || Ty::List(Box::new(Ty::Text));
        check("_==_", false, &[Ty::Int, Ty::Text], "none");
        check("_==_", false, &[Ty::Dyn, Ty::Text], "bool");
        check("_[_]", false, &[list(), Ty::Int], "string");
        check("split", true, &[Ty::Text, Ty::Text], "list(string)");
        check("sets.contains", false, &[list(), list()], "bool");
        check("ip", true, &[Ty::Opaque("cidr")], "net.IP");
        check("ip", false, &[Ty::Text], "net.IP");
        check("_<_", false, &[Ty::Int, Ty::Double], "bool");
        check("@in", false, &[Ty::Int, list()], "none");
    }
}
