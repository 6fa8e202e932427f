//! Labels, annotations and other words that objects of sandboxes carry.

use kube::ResourceExt;

/// The pool a pod belongs to.
pub const POOL: &str = "arl.infra.io/pool";
/// The sandbox a pod was given to.
pub const SANDBOX: &str = "arl.infra.io/sandbox";
/// Whether a pod is idle or allocated.
pub const STATUS: &str = "arl.infra.io/status";
/// A pod that waits for a sandbox.
pub const IDLE: &str = "idle";
/// A pod that was given to a sandbox.
pub const ALLOCATED: &str = "allocated";
/// When something last happened in a sandbox, in RFC 3339.
pub const LAST_ACTIVITY: &str = "arl.infra.io/last-activity";
/// The session a sandbox is.
pub const SESSION: &str = "arl.infra.io/session";
/// Who has to be asked before a sandbox goes.
pub const FINALIZER: &str = "arl.infra.io/sandbox-finalizer";
/// The experiment a session belongs to.
pub const EXPERIMENT: &str = "arl.infra.io/experiment";
/// How the names of pools begin that gateways make for experiments.
pub const MANAGED: &str = "managed-";
/// The container of a pod that steps run in. On a node of ours it has no process of its own unless the pod names a command.
pub const CONTAINER: &str = "thane.dev/sandbox-container";
/// Which template a pod was made from.
pub const TEMPLATE: &str = "thane.dev/template";
/// Who made a sandbox and will claim a pod for it: a gateway. Others leave it alone for [`CLAIM_PATIENCE_SECONDS`].
pub const CLAIMED_BY: &str = "thane.dev/claimed-by";
/// Until when the gateway that made a sandbox will have claimed a pod for it and told whoever asked, in RFC 3339. It goes when
/// somebody was told; if it is there by then, nobody was.
pub const CLAIM_UNTIL: &str = "thane.dev/claim-until";
/// After so long a sandbox that its gateway has not claimed a pod for is anybody's.
pub const CLAIM_PATIENCE_SECONDS: i64 = 30;
/// Where the sidecar listens.
pub const SIDECAR_PORT: u16 = 50051;
/// The name in a sidecar's certificate.
pub const SIDECAR_NAME: &str = "sidecar.thane.dev";
/// Where steps start, unless a pool says otherwise.
pub const WORKSPACE: &str = "/workspace";

/// Whether a pool was made by a gateway for an experiment.
pub(crate) fn is_managed(pool: &crate::kinds::WarmPool) -> bool {
    pool.name_any().starts_with(MANAGED) && pool.labels().contains_key(EXPERIMENT)
}
