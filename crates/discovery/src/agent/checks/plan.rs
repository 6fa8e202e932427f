//! What a check's definition asks for, or why it cannot be run.

use std::time::Duration;

use crate::command::Refusal;
use crate::model::{Check, CheckDefinition};

/// A check is not run more often.
pub const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// A run that takes longer failed, unless the check says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How a check is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Asked over HTTP.
    Http,
    /// Dialled.
    Tcp,
    /// Sent a packet.
    Udp,
    /// Asked over gRPC.
    Grpc,
    /// Pinged over HTTP/2.
    H2Ping,
    /// A program.
    Script,
    /// Told from outside.
    Ttl,
    /// Copies the health of something else.
    Alias,
}

impl Kind {
    /// The word clients see.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Grpc => "grpc",
            Self::H2Ping => "h2ping",
            Self::Script => "script",
            Self::Ttl => "ttl",
            Self::Alias => "alias",
        }
    }
}

/// The one kind a definition asks for.
pub fn kind(check: &Check) -> Result<Kind, Refusal> {
    let definition = &check.definition;
    let kinds = [
        (!definition.http.is_empty(), Kind::Http),
        (!definition.tcp.is_empty(), Kind::Tcp),
        (!definition.udp.is_empty(), Kind::Udp),
        (!definition.grpc.is_empty(), Kind::Grpc),
        (!definition.h2ping.is_empty(), Kind::H2Ping),
        (!definition.args.is_empty(), Kind::Script),
        (!definition.ttl.is_zero(), Kind::Ttl),
        (!definition.alias_node.is_empty() || !definition.alias_service.is_empty(), Kind::Alias),
    ];
    let mut asked = kinds.into_iter().filter_map(|(is_asked, kind)| is_asked.then_some(kind));
    let invalid = |reason: &str| Refusal::Invalid(format!("Invalid check: {reason}"));
    let Some(kind) = asked.next() else {
        return Err(match check.kind.as_str() {
            "" => invalid("no check type was given"),
            other => invalid(&format!("unknown check type {other:?}")),
        });
    };
    if asked.next().is_some() {
        let both = kind != Kind::Ttl && !definition.ttl.is_zero() && !definition.interval.is_zero();
        let reason =
            if both { "Interval and TTL cannot both be specified" } else { "more than one check type was given" };
        return Err(invalid(reason));
    }
    if !check.kind.is_empty() && check.kind != kind.as_str() {
        return Err(invalid(&format!("unknown check type {:?}", check.kind)));
    }
    Ok(kind)
}

/// Whether a check may be registered here, and how it is run.
pub fn admit(check: &Check, is_script_allowed: bool) -> Result<Kind, Refusal> {
    let kind = kind(check)?;
    let definition = &check.definition;
    let invalid = |reason: &str| Err(Refusal::Invalid(format!("Invalid check: {reason}")));
    if kind == Kind::Ttl && !definition.interval.is_zero() {
        return invalid("Interval and TTL cannot both be specified");
    }
    if !matches!(kind, Kind::Ttl | Kind::Alias) && definition.interval.is_zero() {
        return invalid("Interval must be > 0 for Script, HTTP, H2PING, TCP, UDP or OSService checks");
    }
    if definition.failures_before_critical > 0
        && definition.failures_before_warning > definition.failures_before_critical
    {
        return invalid("FailuresBeforeWarning can't be higher than FailuresBeforeCritical");
    }
    if kind == Kind::Script && !is_script_allowed {
        return Err(Refusal::Failed(
            "Scripts are disabled on this agent from remote calls; to enable, configure 'enable_script_checks' to true"
                .to_owned(),
        ));
    }
    Ok(kind)
}

/// Time between runs.
pub fn interval(definition: &CheckDefinition) -> Duration {
    definition.interval.max(INTERVAL_MIN)
}

/// How long a run may take.
pub fn timeout(definition: &CheckDefinition) -> Duration {
    if definition.timeout.is_zero() { TIMEOUT } else { definition.timeout }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Status;

    fn check(kind: &str, definition: CheckDefinition) -> Check {
        Check {
            id: "c".to_owned(),
            name: "c".to_owned(),
            status: Status::Critical,
            notes: String::new(),
            output: String::new(),
            service_id: String::new(),
            service_name: String::new(),
            service_tags: Vec::new(),
            kind: kind.to_owned(),
            definition: definition.into(),
        }
    }

    #[test]
    fn one_known_kind_with_what_it_needs_is_admitted() {
        let second = Duration::from_secs(1);
        let none = CheckDefinition::default;
        let http = || CheckDefinition { http: "http://127.0.0.1/".to_owned(), interval: second, ..none() };
        let script = || CheckDefinition { args: vec!["true".to_owned()], interval: second, ..none() };
        let ttl = || CheckDefinition { ttl: second, ..none() };
        for (kind, definition, expected) in [
            ("", http(), Ok(Kind::Http)),
            ("http", http(), Ok(Kind::Http)),
            ("", ttl(), Ok(Kind::Ttl)),
            ("", CheckDefinition { alias_service: "web".to_owned(), ..none() }, Ok(Kind::Alias)),
            ("", CheckDefinition { tcp: "h:1".to_owned(), interval: second, ..none() }, Ok(Kind::Tcp)),
            ("", CheckDefinition { udp: "h:1".to_owned(), interval: second, ..none() }, Ok(Kind::Udp)),
            ("", none(), Err("no check type")),
            ("docker", none(), Err("unknown check type \"docker\"")),
            ("tcp", http(), Err("unknown check type \"tcp\"")),
            ("", CheckDefinition { interval: Duration::ZERO, ..http() }, Err("Interval must be > 0")),
            ("", CheckDefinition { interval: second, ..ttl() }, Err("Interval and TTL")),
            ("", CheckDefinition { ttl: second, ..http() }, Err("Interval and TTL")),
            ("", CheckDefinition { tcp: "h:1".to_owned(), ..http() }, Err("more than one")),
            ("", CheckDefinition { failures_before_warning: 3, failures_before_critical: 2, ..http() }, Err("higher")),
            ("", script(), Err("Scripts are disabled")),
        ] {
            let admitted = admit(&check(kind, definition.clone()), false).map_err(|refusal| refusal.to_string());
            match (&admitted, &expected) {
                (Ok(kind), Ok(expected)) => assert_eq!(kind, expected),
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason} lacks {part}"),
                _ => panic!("{kind:?} {definition:?}: {admitted:?}"),
            }
        }
        assert_eq!(admit(&check("", script()), true), Ok(Kind::Script));
        let fast = CheckDefinition { interval: Duration::from_millis(1), ..http() };
        assert_eq!((interval(&fast), timeout(&fast)), (second, TIMEOUT));
    }
}
