//! Live access to clusters behind agents: the real kubectl, real Argo CD, argocd-agent's programs on either side.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

mod argocd;
mod drops;
mod kubectl;
mod pairs;
mod redis;
mod terminals;

use std::process::{Child, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The longest anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) fn until(what: &str, is: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        // Another program's state can only be asked for.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A program that is ended when it is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(crate) fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", told(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A pod that counts its lines, and is Argo CD's.
pub(crate) fn talker() -> Value {
    let script = "i=0; while true; do i=$((i+1)); echo line $i; sleep 0.1; done";
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "talker", "namespace": "default",
            "annotations": {"argocd.argoproj.io/tracking-id": "shop:/Pod:default/talker"},
        },
        "spec": {
            "containers": [{"name": "main", "image": "host", "command": ["sh", "-c", script]}],
            "terminationGracePeriodSeconds": 0,
        },
    })
}
