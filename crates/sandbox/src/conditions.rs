//! Conditions of a status: what is said, and since when.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The condition that says whether something can be used.
pub(crate) const READY: &str = "Ready";

/// What a condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) kind: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Says it; the time of its last change stays while it holds or does not as before.
pub(crate) fn say(conditions: &mut Vec<Condition>, said: Said, generation: Option<i64>, now: Timestamp) {
    let status = if said.holds { "True" } else { "False" };
    let before = conditions.iter_mut().find(|condition| condition.type_ == said.kind);
    let since =
        before.as_ref().filter(|before| before.status == status).map(|before| before.last_transition_time.clone());
    let condition = Condition {
        type_: said.kind.to_owned(),
        status: status.to_owned(),
        reason: said.reason.to_owned(),
        message: said.message,
        observed_generation: generation,
        // Kubernetes keeps whole seconds: what is read back must be what was written.
        last_transition_time: since.unwrap_or_else(|| Time(whole_seconds(now))),
    };
    match before {
        Some(before) => *before = condition,
        None => conditions.push(condition),
    }
}

/// A condition of that name.
pub(crate) fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// A time without its fraction.
pub(crate) fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
