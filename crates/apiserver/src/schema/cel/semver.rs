//! Semantic versions.

use std::cmp::Ordering;
use std::rc::Rc;

use super::calls::error;
use super::eval::{Outcome, Stop};
use super::value::Val;

/// A version; what was built of it does not count when versions are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Semver {
    core: [u64; 3],
    pre: Vec<Part>,
}

/// One part of a pre-release: numbers come before names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Name(String),
}

impl Semver {
    fn compare(&self, other: &Self) -> Ordering {
        self.core.cmp(&other.core).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        })
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        self.compare(other).is_eq()
    }
}

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    let small = |value: u64| i64::try_from(value).map(Val::Int).map_err(|_| error("integer overflow"));
    Some(match (name, args) {
        ("semver", [Val::Text(text)]) => made(parse(text)),
        ("semver", [Val::Text(text), Val::Bool(tidy)]) => made(if *tidy { tidied(text) } else { parse(text) }),
        ("isSemver", [Val::Text(text)]) => Ok(Val::Bool(parse(text).is_ok())),
        ("isSemver", [Val::Text(text), Val::Bool(tidy)]) => {
            Ok(Val::Bool(if *tidy { tidied(text) } else { parse(text) }.is_ok()))
        }
        ("major", [Val::Semver(version)]) => small(version.core[0]),
        ("minor", [Val::Semver(version)]) => small(version.core[1]),
        ("patch", [Val::Semver(version)]) => small(version.core[2]),
        ("isGreaterThan", [Val::Semver(a), Val::Semver(b)]) => Ok(Val::Bool(a.compare(b).is_gt())),
        ("isLessThan", [Val::Semver(a), Val::Semver(b)]) => Ok(Val::Bool(a.compare(b).is_lt())),
        ("compareTo", [Val::Semver(a), Val::Semver(b)]) => Ok(Val::Int(a.compare(b) as i64)),
        _ => return None,
    })
}

fn made<'a>(version: Result<Semver, String>) -> Outcome<'a> {
    version.map(|version| Val::Semver(Rc::new(version))).map_err(Stop::Error)
}

fn parse(text: &str) -> Result<Semver, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let mut parts = text.splitn(3, '.');
    let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let (major, minor) = (core("Major", major)?, core("Minor", minor)?);
    let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
    let patch = core("Patch", patch)?;
    let pre = pre.into_iter().flat_map(|pre| pre.split('.')).map(part).collect::<Result<_, _>>()?;
    for build in build.into_iter().flat_map(|build| build.split('.')) {
        if build.is_empty() {
            return Err("Build meta data is empty".to_owned());
        }
        if !is_word(build) {
            return Err(format!("Invalid character(s) found in build meta data {build:?}"));
        }
    }
    Ok(Semver { core: [major, minor, patch], pre })
}

fn core(which: &str, text: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {} number {text:?}", which.to_lowercase()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{which} number must not contain leading zeroes {text:?}"));
    }
    number(text)
}

fn number(text: &str) -> Result<u64, String> {
    let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: {why}"))
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text:?}"));
        }
        return number(text).map(Part::Number);
    }
    if is_word(text) {
        return Ok(Part::Name(text.to_owned()));
    }
    Err(format!("Invalid character(s) found in prerelease {text:?}"))
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Without a leading `v` and leading zeroes, and with what is missing of minor and patch.
fn tidied(text: &str) -> Result<Semver, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts = text.splitn(3, '.').map(without_zeroes).collect::<Vec<_>>();
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
    }
    parse(&parts.join("."))
}

fn without_zeroes(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}
