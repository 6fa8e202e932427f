//! Workflows of Argo's own examples by a real Argo and by ours, on one node with real pods; then a workload whose steps Argo
//! runs and whose gates ours opens; then the agents' pipeline.

mod gates;
mod shape;
mod speed;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use thane_testkit::deployed::{Programs, Workloads};
use thane_testkit::peer::{Node, PeerHome};

use crate::{is_wanted, pipeline, plain};

/// Files of the folder `examples` of Argo's module; what they need is a shell and busybox's commands.
const EXAMPLES: [&str; 20] = [
    "hello-world.yaml",
    "arguments-parameters.yaml",
    "steps.yaml",
    "dag-diamond.yaml",
    "dag-diamond-steps.yaml",
    "dag-multiroot.yaml",
    "dag-nested.yaml",
    "dag-targets.yaml",
    "dag-continue-on-fail.yaml",
    "dag-enhanced-depends.yaml",
    "exit-handlers.yaml",
    "exit-handler-step-level.yaml",
    "global-outputs.yaml",
    "global-parameters.yaml",
    "loops.yaml",
    "loops-dag.yaml",
    "loops-sequence.yaml",
    "nested-workflow.yaml",
    "output-parameter.yaml",
    "parallelism-limit.yaml",
];
/// How many run at once, by each of the two.
const AT_ONCE: usize = 10;
/// The label by which ours knows its own.
const INSTANCE: &str = "workflows.argoproj.io/controller-instanceid";

pub(crate) async fn run(home: &PeerHome, node: &Node, programs: &Programs) -> Result<()> {
    let started = Instant::now();
    let site = Workloads::deploy(home, node, &programs.program).await?;
    eprintln!("ok {:5.1} s our operator in pods, and a real Argo", started.elapsed().as_secs_f32());
    let outcome = async {
        if is_wanted("workflows") {
            plain("examples end alike", alike(&site)).await?;
        }
        if is_wanted("gates") {
            gates::run(&site).await?;
        }
        if std::env::var("NODE_CASE").is_ok_and(|case| case == "speed") {
            plain("a diamond of no-op steps, beside Argo's", speed::run(&site)).await?;
        }
        if is_wanted("pipeline") {
            match pipeline::image() {
                Ok(_) => plain("the agents' pipeline", pipeline::run(node, programs, &site)).await?,
                Err(absence) => absence.tell(),
            }
        }
        anyhow::Ok(())
    };
    match outcome.await {
        Ok(()) => plain("nothing stays", site.remove()).await,
        Err(error) => Err(error.context(site.last_words().await)),
    }
}

async fn alike(site: &Workloads) -> Result<()> {
    let folder = examples()?;
    let mut wrong = Vec::new();
    for some in EXAMPLES.chunks(AT_ONCE) {
        let mut names = Vec::new();
        for file in some {
            for instance in [None, Some("thane")] {
                let workflow = read(&folder, file, instance)?;
                names.push(workflow["metadata"]["name"].as_str().context("it has a name")?.to_owned());
                site.apply(&workflow).await.with_context(|| (*file).to_owned())?;
            }
        }
        let ended = site.ended(&names).await?;
        for (file, both) in some.iter().zip(ended.chunks(2)) {
            let differences = shape::differences(&shape::of(&both[0]), &shape::of(&both[1]));
            let phase = both[0]["status"]["phase"].as_str().unwrap_or_default();
            let nodes = both[0]["status"]["nodes"].as_object().map_or(0, serde_json::Map::len);
            eprintln!("   {file}: {phase}, {nodes} nodes, {} differences", differences.len());
            wrong.extend(differences.into_iter().map(|difference| format!("{file}: {difference}")));
        }
        site.kubectl(&["delete", "workflows", "--all", "--wait=false"]).await?;
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Where Go keeps the examples.
fn examples() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let path =
        || variable("GOPATH").or_else(|| variable("HOME").map(|home| home.join("go"))).map(|it| it.join("pkg/mod"));
    let modules = variable("GOMODCACHE").or_else(path).context("HOME is set")?;
    let folder = modules.join("github.com/argoproj/argo-workflows/v4@v4.0.7/examples");
    ensure!(folder.is_dir(), "{} is not there: run `make peers`", folder.display());
    Ok(folder)
}

/// The one Workflow of a file, under a name of its own, for one of the two; images are those that are here.
fn read(folder: &Path, file: &str, instance: Option<&str>) -> Result<Value> {
    let text = std::fs::read_to_string(folder.join(file)).with_context(|| format!("reading {file}"))?;
    let options = serde_saphyr::options! { strict_booleans: true };
    let mut workflow: Value =
        serde_saphyr::from_str_with_options(&text, options).map_err(|error| anyhow!("{file}: {error}"))?;
    local(&mut workflow);
    let whose = if instance.is_some() { "ours" } else { "argo" };
    let meta = workflow["metadata"].as_object_mut().context("it has metadata")?;
    meta.remove("generateName");
    meta.insert("name".to_owned(), json!(format!("{whose}-{}", file.trim_end_matches(".yaml"))));
    if let Some(instance) = instance {
        let labels = meta.entry("labels").or_insert_with(|| json!({}));
        labels[INSTANCE] = json!(instance);
    }
    Ok(workflow)
}

/// Nothing can be pulled here.
fn local(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("image").is_some_and(Value::is_string) {
                fields.insert("imagePullPolicy".to_owned(), json!("IfNotPresent"));
            }
            fields.values_mut().for_each(local);
        }
        Value::Array(items) => items.iter_mut().for_each(local),
        _ => {}
    }
}
