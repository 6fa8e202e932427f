//! What the schema of a `WarmPool` or Sandbox cannot say.

mod webhook;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;
use thane_runtime::admission::Reviewer;

use crate::kinds::{Sandbox, Tools, WarmPool};

pub use webhook::serve;

/// The most pods a pool may be asked to keep.
const REPLICAS_MAX: i32 = 10_000;
/// The most that the tools of a pool may say; a `ConfigMap` has to hold them.
const TOOLS_BYTES_MAX: usize = 900 * 1024;

/// Looks at `WarmPools` and Sandboxes before they are stored.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules;

impl Reviewer for Rules {
    fn review(&self, group: &str, plural: &str, object: &Value, old: Option<&Value>) -> Result<(), String> {
        match (group, plural) {
            ("arl.infra.io", "warmpools") => pool(object),
            ("arl.infra.io", "sandboxes") => sandbox(object, old),
            _ => Ok(()),
        }
    }
}

fn pool(object: &Value) -> Result<(), String> {
    name(object)?;
    let pool: WarmPool = serde_json::from_value(object.clone()).map_err(|error| format!("spec: {error}"))?;
    let spec = &pool.spec;
    for (field, replicas) in [("replicas", Some(spec.replicas)), ("maxReplicas", spec.max_replicas)] {
        let replicas = replicas.unwrap_or_default();
        if !(0..=REPLICAS_MAX).contains(&replicas) {
            return Err(format!("spec.{field}: {replicas} is not between 0 and {REPLICAS_MAX}"));
        }
    }
    let pod = spec.template.spec.as_ref().filter(|pod| !pod.containers.is_empty());
    let Some(pod) = pod else {
        return Err("spec.template.spec.containers: there must be one that steps run in".into());
    };
    if let Some(nameless) = pod.containers.iter().position(|container| container.name.is_empty()) {
        return Err(format!("spec.template.spec.containers[{nameless}].name: it must have one"));
    }
    if pod.containers[0].image.as_deref().unwrap_or_default().is_empty() {
        return Err("spec.template.spec.containers[0].image: it must have one".into());
    }
    contained(pod)?;
    spec.tools.as_ref().map_or(Ok(()), tools)
}

/// Refuses what would let a sandbox out.
fn contained(pod: &PodSpec) -> Result<(), String> {
    let shared = [("hostNetwork", pod.host_network), ("hostPID", pod.host_pid), ("hostIPC", pod.host_ipc)];
    if let Some((field, _)) = shared.into_iter().find(|(_, set)| *set == Some(true)) {
        return Err(format!("spec.template.spec.{field}: a sandbox does not see the machine's own"));
    }
    for (at, volume) in pod.volumes.iter().flatten().enumerate() {
        let field = format!("spec.template.spec.volumes[{at}]");
        if volume.host_path.is_some() {
            return Err(format!("{field}.hostPath: a sandbox gets no paths of the machine"));
        }
        let sources = volume.projected.as_ref().and_then(|projected| projected.sources.as_ref());
        if sources.into_iter().flatten().any(|source| source.service_account_token.is_some()) {
            return Err(format!("{field}.projected: a sandbox gets no service account token"));
        }
    }
    Ok(())
}

fn tools(tools: &Tools) -> Result<(), String> {
    let mut names: Vec<&str> = tools.config_maps.iter().map(|tool| tool.name.as_str()).collect();
    let mut bytes = 0;
    for (at, tool) in tools.inline.iter().enumerate() {
        let field = format!("spec.tools.inline[{at}]");
        if !is_file_name(&tool.name) || tool.name.len() > 63 {
            return Err(format!("{field}.name: {:?} is no name for a tool", tool.name));
        }
        if let Some(file) = tool.files.keys().find(|file| !is_file_name(file)) {
            return Err(format!("{field}.files: {file:?} is no name for a file"));
        }
        if !tool.files.contains_key(&tool.entrypoint) {
            return Err(format!("{field}.entrypoint: {:?} is none of its files", tool.entrypoint));
        }
        if tool.timeout.as_deref().is_some_and(|timeout| !is_duration(timeout)) {
            return Err(format!("{field}.timeout: say it as in 30s or 1m30s"));
        }
        names.push(&tool.name);
        bytes += tool.files.values().map(String::len).sum::<usize>();
    }
    if bytes > TOOLS_BYTES_MAX {
        return Err(format!("spec.tools.inline: {bytes} bytes of files are more than {TOOLS_BYTES_MAX}"));
    }
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("spec.tools: there are two called {:?}", pair[0])),
        None => Ok(()),
    }
}

fn sandbox(object: &Value, old: Option<&Value>) -> Result<(), String> {
    name(object)?;
    let sandbox: Sandbox = serde_json::from_value(object.clone()).map_err(|error| format!("spec: {error}"))?;
    if !is_label(&sandbox.spec.pool_ref) {
        return Err(format!("spec.poolRef: {:?} cannot be the name of a pool", sandbox.spec.pool_ref));
    }
    let before = old.and_then(|old| old["spec"]["poolRef"].as_str());
    if before.is_some_and(|before| before != sandbox.spec.pool_ref) {
        return Err("spec.poolRef: it cannot be changed".into());
    }
    let bounds = [
        ("idleTimeoutSeconds", sandbox.spec.idle_timeout_seconds),
        ("maxLifetimeSeconds", sandbox.spec.max_lifetime_seconds),
    ];
    match bounds.into_iter().find(|(_, seconds)| seconds.is_some_and(|seconds| seconds < 0)) {
        Some((field, _)) => Err(format!("spec.{field}: it cannot be negative")),
        None => Ok(()),
    }
}

fn name(object: &Value) -> Result<(), String> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if is_label(name) {
        return Ok(());
    }
    Err(format!("metadata.name: {name:?} must be a DNS label: at most 63 lower case letters, digits and dashes"))
}

/// Whether a text may be a label's value and part of a name.
fn is_label(text: &str) -> bool {
    let end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    let inside = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    bytes.len() <= 63 && end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inside)
}

fn is_file_name(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    text.len() <= 255 && text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.bytes().all(inside)
}

/// Whether a text is a duration as Go writes them, and not negative.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        if rest[..digits].parse::<f64>().is_err() {
            return false;
        }
        rest = &rest[digits..];
        let Some(unit) = ["ms", "us", "ns", "h", "m", "s"].into_iter().find(|unit| rest.starts_with(unit)) else {
            return false;
        };
        rest = &rest[unit.len()..];
    }
    !text.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Change = fn(&mut Value);

    fn pool_with(change: impl FnOnce(&mut Value)) -> Value {
        let mut pool = json!({
            "apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool", "metadata": {"name": "p"},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "host"}]}},
                "tools": {"inline": [{"name": "t", "runtime": "bash", "entrypoint": "run.sh", "timeout": "1m30s",
                    "files": {"run.sh": "echo"}}]}},
        });
        change(&mut pool);
        pool
    }

    #[test]
    fn pools_that_cannot_work_are_refused() {
        let review = |object: &Value| Rules.review("arl.infra.io", "warmpools", object, None);
        assert_eq!(review(&pool_with(|_| {})), Ok(()));
        let cases: &[(Change, &str)] = &[
            (|p| p["metadata"]["name"] = json!("P.x"), "metadata.name"),
            (|p| p["metadata"]["name"] = json!("a".repeat(64)), "metadata.name"),
            (|p| p["spec"]["replicas"] = json!(-1), "spec.replicas"),
            (|p| p["spec"]["replicas"] = json!(1_000_000), "spec.replicas"),
            (|p| p["spec"]["maxReplicas"] = json!(-1), "spec.maxReplicas"),
            (|p| p["spec"]["template"] = json!({}), "containers"),
            (|p| p["spec"]["template"] = json!("x"), "spec:"),
            (|p| p["spec"]["template"]["spec"]["containers"] = json!([]), "containers"),
            (|p| p["spec"]["template"]["spec"]["containers"][0]["image"] = json!(""), "image"),
            (|p| p["spec"]["template"]["spec"]["hostNetwork"] = json!(true), "hostNetwork"),
            (|p| p["spec"]["template"]["spec"]["hostPID"] = json!(true), "hostPID"),
            (
                |p| p["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/"}}]),
                "volumes[0].hostPath",
            ),
            (
                |p| {
                    let token = json!({"serviceAccountToken": {"path": "token"}});
                    p["spec"]["template"]["spec"]["volumes"] =
                        json!([{"name": "v", "projected": {"sources": [token]}}]);
                },
                "volumes[0].projected",
            ),
            (|p| p["spec"]["tools"]["inline"][0]["name"] = json!("../x"), "tools.inline[0].name"),
            (|p| p["spec"]["tools"]["inline"][0]["files"]["a/b"] = json!(""), "tools.inline[0].files"),
            (|p| p["spec"]["tools"]["inline"][0]["entrypoint"] = json!("other"), "entrypoint"),
            (|p| p["spec"]["tools"]["inline"][0]["timeout"] = json!("soon"), "timeout"),
            (|p| p["spec"]["tools"]["configMaps"] = json!([{"name": "t"}]), "two called"),
        ];
        for (change, expected) in cases {
            let refused = review(&pool_with(change)).unwrap_err();
            assert!(refused.contains(expected), "{expected}: {refused}");
        }
    }

    #[test]
    fn a_sandbox_stays_with_its_pool() {
        let sandbox = |pool: &str| {
            json!({
                "apiVersion": "arl.infra.io/v1alpha1", "kind": "Sandbox", "metadata": {"name": "s"}, "spec": {"poolRef": pool},
            })
        };
        let review = |new: &Value, old: Option<Value>| Rules.review("arl.infra.io", "sandboxes", new, old.as_ref());
        assert_eq!(review(&sandbox("unknown"), None), Ok(()));
        assert_eq!(review(&sandbox("a"), Some(sandbox("a"))), Ok(()));
        assert!(review(&sandbox("a"), Some(sandbox("b"))).unwrap_err().contains("poolRef"));
        assert!(review(&sandbox(""), None).unwrap_err().contains("poolRef"));
        let mut limited = sandbox("a");
        limited["spec"]["idleTimeoutSeconds"] = json!(-1);
        assert!(review(&limited, None).unwrap_err().contains("idleTimeoutSeconds"));
        assert_eq!(Rules.review("other", "things", &json!({}), None), Ok(()));
    }

    #[test]
    fn durations_are_as_go_writes_them() {
        for (text, is) in
            [("30s", true), ("1m30s", true), ("1.5h", true), ("", false), ("5", false), ("s", false), ("-1s", false)]
        {
            assert_eq!(is_duration(text), is, "{text}");
        }
    }
}
