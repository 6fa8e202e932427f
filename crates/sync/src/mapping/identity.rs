//! Whether the object that is there is the copy of the one that arrives.

use serde_json::Value;

use super::{Adoption, AgentSide, Mismatch};
use crate::object::{self, ADOPTION_POLICY, MISMATCH_POLICY, PRINCIPAL_UID};

/// What to do with the object that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is the copy.
    Update,
    /// It becomes the copy, as it is.
    Adopt,
    /// It was the copy of another object of that name.
    Recreate,
    /// It is somebody else's.
    Leave,
}

pub(super) fn decide(agent: &AgentSide, incoming: &Value, principal_uid: &str, existing: &Value) -> Decision {
    let source = object::source_uid(existing);
    let principal = object::annotation(existing, PRINCIPAL_UID);
    let origin = object::origin_uid(incoming);
    match (source, principal) {
        // Another hub has taken over: its objects have other uids, and mean the same.
        (_, Some(principal)) if !principal_uid.is_empty() && principal != principal_uid => Decision::Adopt,
        (None, None) => match adoption(agent, incoming) {
            Adoption::Always => Decision::Adopt,
            Adoption::Never => Decision::Leave,
        },
        // Somebody removed the annotation, here or there.
        (None, Some(_)) => Decision::Adopt,
        _ if origin.is_empty() => Decision::Adopt,
        (Some(source), _) if source == origin => Decision::Update,
        // A copy from before hubs had ids: whether the hub or the object is another one cannot be told.
        (Some(_), None) if !principal_uid.is_empty() => Decision::Adopt,
        _ => match mismatch(agent, incoming) {
            Mismatch::Upsert => Decision::Adopt,
            Mismatch::Recreate => Decision::Recreate,
        },
    }
}

/// What to do about a source that was made anew: what the object says, else what the agent is set to.
pub(super) fn mismatch(agent: &AgentSide, incoming: &Value) -> Mismatch {
    object::annotation(incoming, MISMATCH_POLICY).and_then(|word| word.parse().ok()).unwrap_or(agent.mismatch)
}

fn adoption(agent: &AgentSide, incoming: &Value) -> Adoption {
    object::annotation(incoming, ADOPTION_POLICY).and_then(|word| word.parse().ok()).unwrap_or(agent.adoption)
}
