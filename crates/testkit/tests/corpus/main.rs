//! Argo's own examples on `thane up`: each ends as the real Argo ended it, but for those on a list that only shrinks.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use thane_testkit::corpus::{self, Limits, Row, Store};
use thane_testkit::fleet::Programs;
use thane_testkit::peer::{Absence, PeerHome, Thane};

/// File, how Argo ended it, how we do: the second column by `make corpus`, the third by this test with `CORPUS_WRITE=1`.
const PHASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/phases.tsv");
/// File and reason, of those that we end otherwise.
const DIFFERENCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/differences.tsv");
/// File and what is known, of those that the real Argo did not end here in its two minutes.
const UNENDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/unended.tsv");
/// What is left for later.
const LATER: [&str; 4] = ["container sets", "data templates", "locks", "memoization"];
/// As Argo had.
const LIMITS: Limits = Limits { each: Duration::from_mins(2), at_once: 12 };
/// Whose Workflows they are.
const NAMESPACE: &str = "default";

/// Everything there is, or `None` after saying loudly what is missing.
async fn bed() -> Option<(Thane, Store, Client)> {
    let home = PeerHome::locate();
    let program = Programs::locate(&home).thane().map_err(Absence::tell).ok()?.to_owned();
    home.require(&["minio"]).map_err(Absence::tell).ok()?;
    let image = corpus::image(&home).map_err(Absence::tell).ok()?;
    let store = Store::start(&home, Ipv4Addr::LOCALHOST.into()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let argosay = json!({"entrypoint": ["argosay"]});
    let settings = json!({"workflows": {"repository": store.repository(),
        "images": {"argoproj/argosay:v1": argosay, "argoproj/argosay:v2": argosay}}});
    let file = folder.path().join("thane.yaml");
    std::fs::write(&file, settings.to_string()).unwrap();
    let arguments = ["--config", file.to_str().unwrap(), "--clusters", "0", "--ephemeral-ports"];
    let thane = Thane::start(&program, &arguments).await.unwrap_or_else(|error| panic!("{error:#}"));
    if thane.published("gateway").is_err() {
        Absence::Skip("this machine runs no pods: that takes root".to_owned()).tell();
        return None;
    }
    let mut import = Command::new(&program);
    let imported = import.args(["image", "import"]).arg(image).arg("--data").arg(thane.directory()).output().unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let read = Kubeconfig::read_from(thane.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    Some((thane, store, Client::try_from(config).unwrap()))
}

/// A list: files and words about each.
fn list(path: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| line.split_once('\t').unwrap()).map(|(name, why)| (name.to_owned(), why.to_owned())).collect()
}

/// Whether Argo ended it here.
fn has_end(row: &Row) -> bool {
    matches!(row.argo.as_str(), "Succeeded" | "Failed" | "Error")
}

/// Whether a reason names something that is left for later.
fn is_for_later(why: &str) -> bool {
    LATER.iter().any(|feature| why.contains(feature))
}

/// Everything that Argo ended is compared, but for what asks for something that is left for later.
fn is_compared(row: &Row, known: &BTreeMap<String, String>) -> bool {
    let waits = known.get(&row.name).is_some_and(|why| is_for_later(why));
    has_end(row) && (!waits || std::env::var_os("CORPUS_ALL").is_some())
}

/// Why an example is not run.
fn skipped(row: &Row, known: &BTreeMap<String, String>) -> String {
    let why = if has_end(row) { known.get(&row.name).cloned() } else { list(UNENDED).remove(&row.name) };
    why.filter(|_| !is_compared(row, known)).unwrap_or_else(|| "CORPUS_ONLY asks for others".to_owned())
}

/// Each row with an end of Argo's has an end of ours, the same or on the list with a reason; each without one has a reason, too.
#[test]
fn the_table_and_its_lists_agree() {
    let rows = corpus::read(&std::fs::read_to_string(PHASES).unwrap()).unwrap();
    let (known, unended) = (list(DIFFERENCES), list(UNENDED));
    let mut wrong = Vec::new();
    for row in &rows {
        let (differs, why) = (has_end(row) && row.argo != row.ours, known.get(&row.name));
        if differs != why.is_some() {
            wrong.push(format!("{}: Argo's ends {}, ours {}, and the list says {why:?}", row.name, row.argo, row.ours));
        }
        if row.ours == "?" && has_end(row) && !why.is_some_and(|why| is_for_later(why)) {
            wrong.push(format!("{}: how it ends here is not known", row.name));
        }
        if has_end(row) == unended.contains_key(&row.name) {
            wrong.push(format!("{}: Argo ends it {}, and the other list says otherwise", row.name, row.argo));
        }
    }
    let there = |name: &&String| rows.iter().any(|row| row.name == **name);
    wrong
        .extend(known.keys().chain(unended.keys()).filter(|name| !there(name)).map(|name| format!("{name} is no row")));
    for (name, why) in known.iter().chain(&unended) {
        if why.len() < 10 || why.contains("not been seen") {
            wrong.push(format!("{name}: {why:?} is no reason"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "whoever runs it wants to see how far it is")]
async fn examples_end_as_argo_ends_them() {
    let Ok(folder) = corpus::folder().map_err(Absence::tell) else { return };
    let Some((thane, store, client)) = bed().await else { return };
    corpus::prepare(&client, NAMESPACE, &folder, &store).await.unwrap();
    let mut rows = corpus::read(&std::fs::read_to_string(PHASES).unwrap()).unwrap();
    let only = std::env::var("CORPUS_ONLY").unwrap_or_default();
    let known = list(DIFFERENCES);
    let chosen = |row: &&Row| if only.is_empty() { is_compared(row, &known) } else { row.name.contains(&only) };
    for row in rows.iter().filter(|row| !chosen(row)) {
        println!("{}\tskipped: {}", row.name, skipped(row, &known));
    }
    let names: Vec<String> = rows.iter().filter(chosen).map(|row| row.name.clone()).collect();
    let ended = corpus::run(&client, NAMESPACE, Path::new(&folder), &names, LIMITS).await.unwrap();
    let mut wrong = Vec::new();
    for one in &ended {
        println!("{}\t{}\t{:.1}\t{}", one.name, one.phase, one.took.as_secs_f64(), one.message);
        let row = rows.iter_mut().find(|row| row.name == one.name).unwrap();
        row.ours.clone_from(&one.phase);
        match (row.argo == one.phase, known.get(&one.name)) {
            (true, None) | (false, Some(_)) => {}
            (true, Some(why)) => wrong.push(format!("{} ends as Argo's now: it is not {why:?}", one.name)),
            (false, None) => {
                wrong.push(format!("{}: Argo's ends {}, ours {}: {}", one.name, row.argo, one.phase, one.message));
            }
        }
    }
    if std::env::var_os("CORPUS_WRITE").is_some() {
        std::fs::write(PHASES, corpus::write(&rows)).unwrap();
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), thane.log());
}
