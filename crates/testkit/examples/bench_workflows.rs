//! Workflows of `thane up`: how fast they start, what a step costs in a pod and in a warm sandbox, and many at once.
//!
//! `bench_workflows [--only steps|starts|nodes|warm] [--nodes NUMBER]`, as root; see `make bench-workflows`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::runtime::wait::await_condition;
use kube::{Client, Config};
use serde_json::{Value, json};
use thane_testkit::fleet::Programs;
use thane_testkit::peer::{Absence, PeerHome, Thane};

/// Requests at once.
const AT_ONCE: usize = 64;
const LIMIT: Duration = Duration::from_mins(3);
/// Rounds of what is short.
const ROUNDS: usize = 5;
const CHAIN: u16 = 20;
const STARTS: u16 = 1000;
const NODES: usize = 5000;
/// Real steps of one DAG, unless more are asked for: each takes a sandbox of its own, and those take time to grow again.
const WARM_NODES: usize = 1000;
/// The longest that many warm steps may take.
const LONG: Duration = Duration::from_mins(20);
/// Warm steps at once.
const WARM_AT_ONCE: usize = 64;
/// Sandboxes that wait for steps.
const SANDBOXES: u64 = 24;

struct Bed {
    thane: Thane,
    client: Client,
}

impl Bed {
    fn api(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(group, "v1alpha1", kind);
        Api::namespaced_with(self.client.clone(), "default", &ApiResource::from_gvk(&kind))
    }

    async fn submit(&self, name: &str, pool: Option<&str>, templates: &Value) -> Result<()> {
        let annotations = pool.map_or(json!({}), |pool| json!({"thane.dev/pool": pool}));
        let object = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": {"name": name, "annotations": annotations}, "spec": {"entrypoint": "main", "templates": templates}});
        self.api("argoproj.io", "Workflow").create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Waits for the end of a Workflow and that it is a good one.
    async fn ended(&self, name: &str, limit: Duration) -> Result<()> {
        let is_over = |object: Option<&DynamicObject>| {
            let phase = object.and_then(|object| object.data["status"]["phase"].as_str());
            matches!(phase, Some("Succeeded" | "Failed" | "Error"))
        };
        let api = self.api("argoproj.io", "Workflow");
        let found = tokio::time::timeout(limit, await_condition(api, name, is_over)).await;
        let object = found.with_context(|| format!("{name} does not end"))??.context("it is gone")?;
        ensure!(object.data["status"]["phase"] == "Succeeded", "{name}: {:#}", object.data["status"]);
        Ok(())
    }

    async fn took(&self, name: &str, pool: Option<&str>, templates: &Value) -> Result<Duration> {
        let began = Instant::now();
        self.submit(name, pool, templates).await?;
        self.ended(name, LONG).await?;
        Ok(began.elapsed())
    }

    async fn clear(&self) -> Result<()> {
        let api = self.api("argoproj.io", "Workflow");
        api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        while !api.list_metadata(&ListParams::default().limit(1)).await?.items.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// The pool as full as it should be.
    async fn filled(&self, replicas: u64) -> Result<()> {
        let full = move |object: Option<&DynamicObject>| {
            object.is_some_and(|object| object.data["status"]["readyReplicas"].as_u64() >= Some(replicas))
        };
        let api = self.api("arl.infra.io", "WarmPool");
        tokio::time::timeout(LIMIT, await_condition(api, "warm", full)).await.context("the pool does not fill")??;
        Ok(())
    }

    /// A pool of sandboxes, unless it is there, as full as it should be.
    async fn pool(&self) -> Result<()> {
        let pool = json!({"apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool", "metadata": {"name": "warm"},
            "spec": {"replicas": SANDBOXES, "template": {"spec": {"containers": [{"name": "main", "image": "host"}]}}}});
        let api = self.api("arl.infra.io", "WarmPool");
        match api.create(&PostParams::default(), &serde_json::from_value(pool)?).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made?),
        }
        self.filled(SANDBOXES).await
    }

    /// Megabytes the program holds: the operator, and with it the API and the node of `thane up`.
    fn memory(&self) -> u64 {
        let resident = |pid: u32| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default()
        };
        self.thane.processes().into_iter().map(resident).max().unwrap_or_default() / 1024
    }
}

fn step() -> Value {
    json!({"name": "step", "container": {"image": "host", "command": ["true"]}})
}

fn diamond() -> Value {
    let task = |name: &str, after: &[&str]| json!({"name": name, "template": "step", "dependencies": after});
    let tasks = [task("a", &[]), task("b", &["a"]), task("c", &["a"]), task("d", &["b", "c"])];
    json!([{"name": "main", "dag": {"tasks": tasks}}, step()])
}

fn chain() -> Value {
    let groups: Vec<Value> = (0..CHAIN).map(|at| json!([{"name": format!("s{at}"), "template": "step"}])).collect();
    json!([{"name": "main", "steps": groups}, step()])
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only = arguments.iter().skip_while(|word| *word != "--only").nth(1).cloned().unwrap_or_default();
    let program = Programs::locate(&PeerHome::locate()).thane().map_err(refused)?.to_owned();
    let thane = Thane::start(&program, &["--clusters", "0", "--ephemeral-ports"]).await?;
    ensure!(thane.published("gateway").is_ok(), "this machine runs no pods: that takes root");
    let read = Kubeconfig::read_from(thane.kubeconfig())?;
    let client = Client::try_from(Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?)?;
    let bed = Bed { thane, client };
    println!("at rest: {} MB", bed.memory());
    if "steps".contains(&only) {
        steps(&bed).await?;
    }
    if "starts".contains(&only) {
        starts(&bed).await?;
    }
    if "nodes".contains(&only) {
        let tasks: Vec<Value> =
            (0..NODES).map(|at| json!({"name": format!("t{at}"), "template": "step", "when": "1 == 2"})).collect();
        let took = bed.took("nodes", None, &json!([{"name": "main", "dag": {"tasks": tasks}}, step()])).await?;
        println!("a DAG of {NODES} tasks that are skipped: {:.2} s, {} MB", took.as_secs_f64(), bed.memory());
        bed.clear().await?;
    }
    if "warm".contains(&only) {
        let nodes = arguments.iter().skip_while(|word| *word != "--nodes").nth(1);
        warm(&bed, nodes.map_or(Ok(WARM_NODES), |number| number.parse())?).await?;
    }
    Ok(())
}

/// What steps cost.
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn steps(bed: &Bed) -> Result<()> {
    bed.pool().await?;
    for (name, pool) in [("pods", None), ("warm", Some("warm"))] {
        let mut all = Vec::new();
        for round in 0..ROUNDS {
            bed.filled(SANDBOXES).await?;
            all.push(bed.took(&format!("diamond-{name}-{round}"), pool, &diamond()).await?);
        }
        all.sort();
        let millis = |at: usize| all[at].as_secs_f64() * 1000.0;
        println!("diamond of four no-op steps, {name}: median {:.0} ms, best {:.0} ms", millis(ROUNDS / 2), millis(0));
        bed.filled(SANDBOXES).await?;
        let took = bed.took(&format!("chain-{name}"), pool, &chain()).await?;
        println!(
            "a chain of {CHAIN} no-op steps, {name}: {:.1} ms each",
            took.as_secs_f64() * 1000.0 / f64::from(CHAIN)
        );
    }
    println!("after steps: {} MB", bed.memory());
    bed.clear().await
}

/// Many real steps in warm sandboxes: of one Workflow, and one each of many.
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn warm(bed: &Bed, nodes: usize) -> Result<()> {
    bed.pool().await?;
    let tasks: Vec<Value> = (0..nodes).map(|at| json!({"name": format!("t{at}"), "template": "step"})).collect();
    let main = json!({"name": "main", "parallelism": WARM_AT_ONCE, "dag": {"tasks": tasks}});
    let took = bed.took("warm-nodes", Some("warm"), &json!([main, step()])).await?;
    println!("a DAG of {nodes} steps in warm sandboxes: {:.1} s, {} MB", took.as_secs_f64(), bed.memory());
    bed.clear().await?;
    bed.filled(SANDBOXES).await?;
    let began = Instant::now();
    let mut step = step();
    step["name"] = json!("main");
    let (names, templates) = ((0..STARTS).map(|at| format!("one-{at}")).collect::<Vec<_>>(), json!([step]));
    let run = async |name: &String| -> Result<()> {
        bed.submit(name, Some("warm"), &templates).await?;
        bed.ended(name, LONG).await
    };
    let ended: Vec<Result<()>> = futures::stream::iter(&names).map(run).buffer_unordered(AT_ONCE).collect().await;
    ended.into_iter().collect::<Result<Vec<()>>>()?;
    let took = began.elapsed().as_secs_f64();
    println!("{STARTS} workflows of one step in a warm sandbox each: {took:.1} s, {} MB", bed.memory());
    bed.clear().await
}

/// How fast Workflows start, and many at once.
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn starts(bed: &Bed) -> Result<()> {
    let templates = json!([{"name": "main", "suspend": {"duration": "1"}}]);
    let began = Instant::now();
    let names: Vec<String> = (0..STARTS).map(|at| format!("start-{at}")).collect();
    let submitted = futures::stream::iter(&names).map(|name| bed.submit(name, None, &templates));
    let submitted: Vec<Result<()>> = submitted.buffer_unordered(AT_ONCE).collect().await;
    submitted.into_iter().collect::<Result<Vec<()>>>()?;
    let written = began.elapsed();
    let api = bed.api("argoproj.io", "Workflow");
    let count = async |label: &str| -> Result<usize> {
        let chosen = ListParams::default().labels(&format!("workflows.argoproj.io/{label}"));
        Ok(api.list_metadata(&chosen).await?.items.len())
    };
    while count("phase").await? < usize::from(STARTS) {
        ensure!(began.elapsed() < LIMIT, "they do not start");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let started = began.elapsed();
    while count("completed=true").await? < usize::from(STARTS) {
        ensure!(began.elapsed() < LIMIT, "they do not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let rate = |took: Duration| f64::from(STARTS) / took.as_secs_f64();
    println!(
        "{STARTS} workflows at once: written at {:.0}/s, started at {:.0}/s, all ended after {:.1} s, {} MB",
        rate(written),
        rate(started),
        began.elapsed().as_secs_f64(),
        bed.memory()
    );
    bed.clear().await
}

fn refused(absence: Absence) -> anyhow::Error {
    match absence {
        Absence::Skip(why) | Absence::Fail(why) => anyhow::anyhow!(why),
    }
}
