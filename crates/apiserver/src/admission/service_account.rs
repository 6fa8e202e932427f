//! A pod runs as a service account, whose token it finds in a volume.

use serde_json::Value;

use crate::builtin::pod::admission::{is_mirror, service_account, service_account_name};
use crate::failure::{Failure, Result};
use crate::metadata;
use crate::random;
use crate::verbs::Call;

/// Gives the pod its service account, pull secrets and token volume.
pub(super) async fn admit(call: &Call<'_>, pod: &mut Value) -> Result<()> {
    if is_mirror(pod) {
        return Ok(());
    }
    let (namespace, name) = (call.namespace(), service_account_name(pod).to_owned());
    let accounts = call.server.catalog.builtin("", "serviceaccounts");
    let Some(stored) = call.objects().get(&accounts, namespace, &name).await? else {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        return Err(Failure::forbidden("", "pods", metadata::name(pod), &why));
    };
    service_account(pod, &stored.value(&accounts)?, &random::suffix());
    Ok(())
}
