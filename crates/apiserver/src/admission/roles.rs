//! Nobody grants more than they have.

use serde_json::Value;

use crate::authz::{RoleWrite, escalation_errors};
use crate::failure::Result;
use crate::verbs::Call;

/// Refuses roles and bindings that would give the writer more than they hold.
pub(super) fn admit(call: &Call<'_>, object: &Value, old: Option<&Value>) -> Result<()> {
    if call.kind.is_custom() || call.kind.group != "rbac.authorization.k8s.io" {
        return Ok(());
    }
    let write = RoleWrite { resource: &call.kind.plural, request_name: &call.info.name, object, old };
    escalation_errors(&call.server.rules.current(), call.user, write)
}
