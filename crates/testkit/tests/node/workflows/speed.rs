//! How long a diamond of four steps that do nothing takes by a real Argo, and by ours, one after the other. Figures for
//! people: nothing fails for them.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use thane_testkit::deployed::Workloads;

use super::INSTANCE;

const ROUNDS: usize = 3;

pub(super) async fn run(site: &Workloads) -> Result<()> {
    let mut medians = Vec::new();
    for (whose, instance) in [("argo", None), ("ours", Some("thane"))] {
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            times.push(took(site, &format!("speed-{whose}-{round}"), instance).await?);
        }
        times.sort_unstable();
        eprintln!("   {whose}: {:.1?} half of {ROUNDS}, {:.1?} the slowest", times[ROUNDS / 2], times[ROUNDS - 1]);
        medians.push(times[ROUNDS / 2]);
    }
    eprintln!("   {:.1} times as fast", medians[0].as_secs_f64() / medians[1].as_secs_f64());
    Ok(())
}

async fn took(site: &Workloads, name: &str, instance: Option<&str>) -> Result<Duration> {
    let began = Instant::now();
    site.apply(&diamond(name, instance)).await?;
    site.ended(&[name.to_owned()]).await?;
    let took = began.elapsed();
    site.kubectl(&["delete", "workflow", name]).await?;
    Ok(took)
}

fn diamond(name: &str, instance: Option<&str>) -> Value {
    let task = |name: &str, after: &[&str]| json!({"name": name, "template": "step", "dependencies": after});
    let tasks = [task("a", &[]), task("b", &["a"]), task("c", &["a"]), task("d", &["b", "c"])];
    let container = json!({"image": "busybox", "imagePullPolicy": "IfNotPresent", "command": ["true"]});
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"name": name, "labels": instance.map_or(json!({}), |instance| json!({INSTANCE: instance}))},
        "spec": {"entrypoint": "main", "templates": [
            {"name": "main", "dag": {"tasks": tasks}},
            {"name": "step", "container": container},
        ]},
    })
}
