//! House rules that a machine can check.
#![expect(clippy::unwrap_used, reason = "a tidy test that cannot read its files must fail")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// No file is longer than this.
const LINE_LIMIT: usize = 1000;
/// Points at which the API differs from Kubernetes' and is known to. The number only becomes smaller.
const DIFFERENCES: usize = 33;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files under version control and those about to be.
fn files() -> Vec<PathBuf> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").current_dir(root()).args(list).output();
    if let Ok(output) = output
        && output.status.success()
    {
        let text = String::from_utf8(output.stdout).unwrap();
        return text.lines().map(PathBuf::from).filter(|path| root().join(path).is_file()).collect();
    }
    walk(Path::new(""))
}

/// The same for an archive without version control.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap) {
        let path = folder.join(entry.file_name());
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().unwrap().is_dir() {
            if !["target", ".git", ".thane", "coverage"].contains(&name.as_str()) {
                found.extend(walk(&path));
            }
        } else {
            found.push(path);
        }
    }
    found
}

/// The edges between our crates as cargo has them, however they are written and for whatever target, short names,
/// development dependencies left out.
fn declared_edges() -> BTreeSet<(String, String)> {
    let metadata = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).current_dir(root()).args(metadata).output().unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    edges(&serde_json::from_slice(&output.stdout).unwrap())
}

fn edges(metadata: &Value) -> BTreeSet<(String, String)> {
    let short = |value: &Value| value["name"].as_str().unwrap().trim_start_matches("thane-").to_owned();
    let mut edges = BTreeSet::new();
    for package in metadata["packages"].as_array().unwrap() {
        for dependency in package["dependencies"].as_array().unwrap() {
            let ours = dependency["name"].as_str().is_some_and(|name| name.starts_with("thane-"));
            if ours && dependency["kind"] != "dev" {
                edges.insert((short(package), short(dependency)));
            }
        }
    }
    edges
}

/// The edges that the Mermaid diagram under the heading `Crates` of a document draws.
fn drawn_edges(document: &str) -> BTreeSet<(String, String)> {
    let mut edges = BTreeSet::new();
    let (mut under_heading, mut in_diagram) = (false, false);
    for line in document.lines().map(str::trim) {
        if line.starts_with("```") {
            in_diagram = under_heading && line == "```mermaid";
        } else if line.starts_with('#') && !in_diagram {
            under_heading = line.trim_start_matches('#').trim() == "Crates";
        } else if in_diagram && let Some((from, to)) = line.split_once("-->") {
            edges.insert((node(from), node(to)));
        }
    }
    edges
}

/// A node's name without its label.
fn node(text: &str) -> String {
    text.trim().trim_end_matches(';').split(['[', '(', '{']).next().unwrap_or_default().trim().to_owned()
}

#[test]
fn crates_depend_on_each_other_as_drawn() {
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md"))
        .expect("ARCHITECTURE.md must draw the crates in a mermaid block under the heading `Crates`");
    let (drawn, declared) = (drawn_edges(&document), declared_edges());
    let undrawn: Vec<_> = declared.difference(&drawn).collect();
    assert!(undrawn.is_empty(), "dependencies that ARCHITECTURE.md does not draw: {undrawn:?}");
    let gone: Vec<_> = drawn.difference(&declared).collect();
    assert!(gone.is_empty(), "ARCHITECTURE.md draws dependencies that no manifest has: {gone:?}");
}

#[test]
fn edges_are_seen_however_they_are_written() {
    let dependency =
        |name: &str, kind: Value| json!({"name": name, "kind": kind, "rename": "x", "target": "cfg(unix)"});
    let dependencies = [
        dependency("thane-b", Value::Null),
        dependency("thane-c", "build".into()),
        dependency("thane-d", "dev".into()),
        dependency("serde", Value::Null),
    ];
    let metadata = json!({"packages": [{"name": "thane-a", "dependencies": dependencies}]});
    let expected = [("a", "b"), ("a", "c")].map(|(from, to)| (from.to_owned(), to.to_owned()));
    assert_eq!(edges(&metadata), BTreeSet::from(expected));
}

#[test]
fn a_diagram_is_read() {
    let document = "# Crates\ntext\n```mermaid\ngraph TD\n    apiserver --> kv\n    kv[\"kv: store\"] --> runtime;\n```\n## Other\n```mermaid\n a --> b\n```\n";
    let expected = [("apiserver", "kv"), ("kv", "runtime")].map(|(from, to)| (from.to_owned(), to.to_owned()));
    assert_eq!(drawn_edges(document), BTreeSet::from(expected));
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| {
            let lines = std::fs::read_to_string(root().join(&path)).unwrap_or_default().lines().count();
            (lines > LINE_LIMIT).then(|| format!("{} has {lines} lines", path.display()))
        })
        .collect();
    assert!(long.is_empty(), "split these: {long:#?}");
}

#[test]
fn differences_from_kubernetes_become_fewer() {
    let text = std::fs::read_to_string(root().join("docs/differences.md")).unwrap();
    let kubernetes = text.split("\n# ").next().unwrap();
    let listed = kubernetes.lines().filter(|line| line.starts_with("- ")).count();
    assert_eq!(listed, DIFFERENCES, "one less: lower DIFFERENCES; one more: answer as Kubernetes does");
}

#[test]
fn no_module_is_called_mod() {
    let found: Vec<_> = files().into_iter().filter(|path| path.ends_with("mod.rs")).collect();
    assert!(found.is_empty(), "name the file after its module: {found:?}");
}

/// Paths of the machine something was written on help nobody else.
#[test]
fn no_machine_paths() {
    // Put together here so that this file does not find itself.
    let banned = [["/ro", "ot/"], ["/home", "/"], ["/wo", "rk/"], ["/Us", "ers/"]].map(|parts| parts.concat());
    let mut found = Vec::new();
    for path in files() {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for (index, line) in text.lines().enumerate() {
            if banned.iter().any(|word| line.contains(word.as_str())) {
                found.push(format!("{}:{}: {}", path.display(), index + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
