//! Which project a repository belongs to, and how it is kept on an agent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::AgentSide;
use super::application::{Copied, copy_of};
use super::plan::{Plan, Reason, refuse};
use crate::object::{self, Kind};

/// The project a repository is scoped to; one without is not handed out.
pub fn repository_project(secret: &Value) -> Option<String> {
    let project = STANDARD.decode(secret["data"]["project"].as_str()?).ok()?;
    String::from_utf8(project).ok().filter(|project| !project.is_empty())
}

/// Agent: what to write when a repository arrives from the hub; a Secret that is nobody's copy is never touched.
pub fn managed_repository(agent: &AgentSide, incoming: &Value, existing: Option<&Value>) -> Plan {
    if let Some(existing) = existing.filter(|existing| object::source_uid(existing).is_none()) {
        return refuse(
            Reason::NotAdopted,
            format!("secret {} is there already and not a copy of the hub's", object::name(existing)),
        );
    }
    copy_of(agent, Copied { kind: Kind::Repository, body: "data" }, incoming, existing)
}
