//! Which agent an object on the hub belongs to.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{HubSide, Pattern, Placement};
use crate::object::{self, SECRET_TYPE};

/// Where an Application on the hub belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route<'a> {
    /// To this agent.
    To(&'a str),
    /// To no agent; one that had it loses it.
    Nowhere,
    /// It is left alone; an agent that has it keeps it.
    Ignored,
}

/// Where an Application belongs; `autonomous` is whether its namespace has the name of an autonomous agent.
pub fn route<'a>(hub: &HubSide, app: &'a Value, autonomous: bool) -> Route<'a> {
    let namespace = object::namespace(app);
    let own = hub.placement == Placement::Destination && namespace == hub.namespace;
    if object::is_ignored(app) || !(own || Pattern::any(&hub.allowed_namespaces, namespace)) {
        return Route::Ignored;
    }
    if hub.placement == Placement::Namespace || (autonomous && object::source_uid(app).is_some()) {
        return if namespace.is_empty() { Route::Nowhere } else { Route::To(namespace) };
    }
    match app["spec"]["destination"]["name"].as_str() {
        None | Some("" | "in-cluster") => Route::Nowhere,
        Some(agent) => Route::To(agent),
    }
}

/// Whether a project is one the hub hands out, rather than a mirror or one to be left alone.
pub fn is_distributed_project(hub: &HubSide, project: &Value) -> bool {
    object::namespace(project) == hub.namespace && object::source_uid(project).is_none() && !object::is_ignored(project)
}

/// Whether a Secret is a repository or credentials the hub may hand out.
pub fn is_distributed_repository(hub: &HubSide, secret: &Value) -> bool {
    object::namespace(secret) == hub.namespace
        && matches!(object::label(secret, SECRET_TYPE), Some("repository" | "repo-creds"))
        && !object::is_ignored(secret)
}

/// The project a repository is scoped to; one without is not handed out.
pub fn repository_project(secret: &Value) -> Option<String> {
    let project = STANDARD.decode(secret["data"]["project"].as_str()?).ok()?;
    String::from_utf8(project).ok().filter(|project| !project.is_empty())
}
