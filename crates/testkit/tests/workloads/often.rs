//! How often steps have run: each leaves a line in a file on a claim.

use std::time::{Duration, Instant};

use rand::RngExt;
use serde_json::{Value, json};

use super::{Bed, PATIENCE, node};

/// Kills in one Workflow's life.
const KILLS: usize = 8;
/// Its steps, three side by side.
const GROUPS: usize = 4;

/// Makes the claim.
pub(crate) fn prepare(bed: &Bed) {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "tally"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}}});
    bed.says("apply -f -", &claim.to_string());
}

pub(crate) fn volumes() -> Value {
    json!([{"name": "tally", "persistentVolumeClaim": {"claimName": "tally"}}])
}

/// A container that counts itself and then does something else.
pub(crate) fn counted(script: &str) -> Value {
    json!({"image": "host", "command": ["sh", "-c", format!("echo {{{{workflow.name}}}} {{{{pod.name}}}} >> /tally/lines; {script}")],
        "volumeMounts": [{"name": "tally", "mountPath": "/tally"}]})
}

/// A line for each time that a step has run.
pub(crate) fn ran(bed: &Bed) -> Vec<String> {
    let servers = std::fs::read_dir(bed.thane.directory()).unwrap().filter_map(Result::ok);
    let files = servers.map(|server| server.path().join("node/claims/default/tally/lines"));
    let text: String = files.filter_map(|file| std::fs::read_to_string(file).ok()).collect();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "whoever looks for what went wrong wants to know when")]
async fn whenever_it_is_killed_every_step_runs_once() {
    let Some(mut bed) = Bed::start().await else { return };
    prepare(&bed);
    let group = |at: usize| {
        let steps = ["a", "b", "c"].map(|name| json!({"name": format!("{name}{at}"), "template": "count"}));
        Value::from(steps.to_vec())
    };
    let groups: Vec<Value> = (0..GROUPS).map(group).collect();
    let workflow = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "often"}, "spec": {
        "entrypoint": "main", "volumes": volumes(), "templates": [
            {"name": "main", "steps": groups}, {"name": "count", "container": counted("sleep 1")}]}});
    bed.says("workflow submit -", &workflow.to_string());
    let (started, mut kills) = (Instant::now(), 0);
    while kills < KILLS && started.elapsed() < PATIENCE {
        let pause = rand::rng().random_range(50..1500);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        println!("killed {pause} ms after its start");
        bed.thane.kill_and_start().await.unwrap();
        kills += 1;
    }
    let often = bed.ended("often").await;
    assert_eq!(often["status"]["phase"], "Succeeded", "{:#}\n{}", often["status"], bed.thane.log());
    let mut lines = ran(&bed);
    lines.sort_unstable();
    let all = lines.len();
    lines.dedup();
    assert_eq!((all, lines.len()), (3 * GROUPS, 3 * GROUPS), "{lines:#?}");
    for step in ["a0", "c3"] {
        assert_eq!(node(&often, step)["phase"], "Succeeded");
    }
}
