//! What a read asks for besides its subject.

use std::time::Duration;

use http::HeaderMap;
use http::header::CACHE_CONTROL;

use super::failure::Failure;
use crate::backend::Consistency;
use crate::decode::duration::nanos;
use crate::http::{Query, Request};
use crate::model::Index;

/// How a read is to be answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReadOptions {
    pub(super) consistency: Consistency,
    /// With `stale`: data older than this is asked for again.
    pub(super) max_stale: Option<Duration>,
    /// What is held here will do, and the answer says how old it is.
    pub(super) cached: bool,
    /// With `cached`: data older than this is asked for again.
    pub(super) max_age: Option<Duration>,
    /// Answer when the index is above this; 0: at once.
    pub(super) index: Index,
    /// How long to wait for that.
    pub(super) wait: Option<Duration>,
}

impl ReadOptions {
    /// Reads parameters and headers, in the order Consul complains about them.
    pub(super) fn parse(request: &Request) -> Result<Self, Failure> {
        let mut options = Self::default();
        options.consistency(&request.query)?;
        options.cache_control(&request.headers)?;
        options.wait(&request.query)?;
        Ok(options)
    }

    /// Only how long to wait, for what the agent answers by itself.
    pub(super) fn parse_wait(request: &Request) -> Result<Self, Failure> {
        let mut options = Self::default();
        options.wait(&request.query)?;
        Ok(options)
    }

    fn consistency(&mut self, query: &Query) -> Result<(), Failure> {
        let (mut stale, consistent) = (query.has("stale"), query.has("consistent"));
        self.cached = query.has("cached");
        if let Some(text) = query.given("max_stale") {
            let most = duration(text).map_err(|()| Failure::bad(format!("Invalid max_stale value {text:?}")))?;
            if !most.is_zero() {
                self.max_stale = Some(most);
                stale = true;
            }
        }
        if stale && consistent {
            return Err(Failure::bad("Cannot specify ?stale with ?consistent, conflicting semantics."));
        }
        if self.cached && consistent {
            return Err(Failure::bad("Cannot specify ?cached with ?consistent, conflicting semantics."));
        }
        self.consistency = match (stale, consistent) {
            (true, _) => Consistency::Stale,
            (_, true) => Consistency::Consistent,
            _ => Consistency::Default,
        };
        Ok(())
    }

    fn cache_control(&mut self, headers: &HeaderMap) -> Result<(), Failure> {
        let text = headers.get(CACHE_CONTROL).map(|value| String::from_utf8_lossy(value.as_bytes()).to_lowercase());
        for directive in text.iter().flat_map(|text| text.split(',')).map(str::trim) {
            if directive == "must-revalidate" {
                self.max_age = Some(Duration::ZERO);
            }
            let seconds = |text: &str| {
                let seconds = text.parse::<i64>().map_err(|_| Failure::bad("Invalid Cache-Control header."))?;
                Ok::<_, Failure>(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
            };
            if let Some(age) = directive.strip_prefix("max-age=") {
                self.max_age = Some(seconds(age)?);
            } else if let Some(age) = directive.strip_prefix("stale-if-error=") {
                // What is held is served when the hub is away however old it is; the header's age says so.
                seconds(age)?;
            }
        }
        Ok(())
    }

    fn wait(&mut self, query: &Query) -> Result<(), Failure> {
        if let Some(text) = query.given("wait") {
            let wait = duration(text).map_err(|()| Failure::bad("Invalid wait time"))?;
            self.wait = Some(wait).filter(|wait| !wait.is_zero());
        }
        if let Some(text) = query.given("index") {
            self.index = unsigned(text).ok_or_else(|| Failure::bad("Invalid index"))?;
        }
        Ok(())
    }
}

/// A Go duration; less than nothing is nothing.
fn duration(text: &str) -> Result<Duration, ()> {
    let nanoseconds = nanos(text).map_err(|_| ())?;
    Ok(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0)))
}

/// A number as Go reads it: digits only.
pub(super) fn unsigned(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A truth value as Go reads it.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// The token a request shows: the parameter, else Consul's header, else a bearer token.
pub(super) fn token<'a>(query: &'a Query, headers: &'a HeaderMap) -> Option<&'a str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty());
    query.given("token").or_else(|| header("x-consul-token")).or_else(|| {
        let (scheme, rest) = header("authorization")?.split_once(' ')?;
        let token = rest.trim().split(' ').next().filter(|token| !token.is_empty());
        token.filter(|_| scheme.eq_ignore_ascii_case("bearer"))
    })
}
