//! Names, labels and places that Argo's programs know as well.

/// Which Workflow a pod or task result belongs to.
pub const WORKFLOW: &str = "workflows.argoproj.io/workflow";
/// Whether the controller is done with a pod.
pub const COMPLETED: &str = "workflows.argoproj.io/completed";
/// Whose Workflows these are; none means no label.
pub const INSTANCE: &str = "workflows.argoproj.io/controller-instanceid";
/// A pod of an exit handler.
pub const ON_EXIT: &str = "workflows.argoproj.io/on-exit";
/// `true` once a task result holds all that it will.
pub const REPORTED: &str = "workflows.argoproj.io/report-outputs-completed";
/// The node a pod runs.
pub const NODE_ID: &str = "workflows.argoproj.io/node-id";
/// The name of that node.
pub const NODE_NAME: &str = "workflows.argoproj.io/node-name";
/// When a pod is removed.
pub const POD_GC: &str = "workflows.argoproj.io/pod-gc-strategy";
/// How far a step says it is.
pub const PROGRESS: &str = "workflows.argoproj.io/progress";
/// The pool of warm sandboxes a step runs in.
pub const POOL: &str = "thane.dev/pool";
/// Why a step that asks for a sandbox has a pod.
pub const WHY_A_POD: &str = "thane.dev/why-a-pod";
/// What a pod on the embedded runner may reach.
pub const EGRESS: &str = "thane.dev/egress";

/// The container with the user's program.
pub const MAIN: &str = "main";
/// The container that brings inputs.
pub const INIT: &str = "init";
/// The container that takes outputs.
pub const WAIT: &str = "wait";

/// Shared between the containers of a step.
pub const RUN: &str = "/var/run/argo";
/// Where input artifacts wait for the main container.
pub const INPUTS: &str = "/argo/inputs/artifacts";
/// Where the main container's volumes are seen by the others.
pub const MAIN_FILES: &str = "/mainctrfs";
/// The directory of a script.
pub const STAGING: &str = "/argo/staging";
/// The script itself.
pub const SCRIPT: &str = "/argo/staging/script";
/// Credentials of artifact stores.
pub const SECRETS: &str = "/argo/secret";
/// What is too large for an environment variable.
pub const CONFIG: &str = "/argo/config";
/// The wrapper inside [`RUN`].
pub const EXECUTOR: &str = "thane-executor";

/// Longest prefix of a pod's name, leaving room for a dash and the hash.
const PREFIX_MAX: usize = 242;

/// The `ConfigMap` with what a step in a sandbox said, under the name of its container.
pub fn log_name(node_id: &str) -> String {
    format!("{node_id}-log")
}

/// FNV-1a of 32 bits.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The id of the node of that name.
pub fn node_id(workflow: &str, node: &str) -> String {
    if workflow == node { workflow.to_owned() } else { format!("{workflow}-{}", hash(node)) }
}

/// The name of a node's pod, as Argo's second format has it.
pub fn pod_name(workflow: &str, template: &str, node: &str) -> String {
    if workflow == node {
        return workflow.to_owned();
    }
    let mut prefix = if template.is_empty() { workflow.to_owned() } else { format!("{workflow}-{template}") };
    while prefix.len() > PREFIX_MAX {
        prefix.pop();
    }
    format!("{prefix}-{}", hash(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_argos() {
        assert_eq!(node_id("hello", "hello"), "hello");
        assert_eq!(node_id("hello", "hello[0].a"), format!("hello-{}", hash("hello[0].a")));
        assert_eq!(hash(""), 0x811c_9dc5);
        assert_eq!(hash("a"), 0xe40c_292c);
        assert_eq!(hash("foobar"), 0xbf9c_f968);
        assert_eq!(pod_name("hello", "whalesay", "hello"), "hello");
        assert_eq!(pod_name("w", "t", "foobar"), format!("w-t-{}", 0xbf9c_f968_u32));
        assert_eq!(pod_name("w", "", "foobar"), format!("w-{}", 0xbf9c_f968_u32));
        let long = pod_name(&"w".repeat(250), "t", "foobar");
        assert_eq!(long.len(), PREFIX_MAX + 11);
    }
}
