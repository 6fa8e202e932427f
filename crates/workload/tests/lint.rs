//! Verdicts equal to those of `argo lint --offline` 4.0.7, recorded in tables beside the files: file, verdict, message.
#![expect(clippy::unwrap_used, reason = "tests say why they fail")]

use std::fs;
use std::path::{Path, PathBuf};

use thane_workload::lint::{Offline, Report, Source, check};

const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lint");
const MODULE: &str = "github.com/argoproj/argo-workflows/v4@v4.0.7/examples";

fn report(file: &Path) -> Report {
    let text = fs::read_to_string(file).unwrap();
    check(&[Source { name: file.display().to_string(), text }], &Offline)
}

/// Messages are compared where they are about the workflow rather than about what Go makes of a file.
fn is_comparable(message: &str) -> bool {
    !["", "unreadable: ", "yaml file ", "found nothing"].iter().any(|start| match *start {
        "" => message.is_empty(),
        start => message.starts_with(start),
    })
}

fn compare(folder: &Path, table: &str) -> Vec<String> {
    let table = fs::read_to_string(Path::new(OURS).join(table)).unwrap();
    let mut differences = Vec::new();
    for line in table.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [file, verdict, message] = columns[..] else { panic!("a line is not a row: {line}") };
        let report = report(&folder.join(file));
        let found = report.findings.first().map_or("", |finding| finding.message.as_str());
        if report.is_valid() != (verdict == "valid") {
            differences.push(format!("{file}: Argo says {verdict} {message:?}, we found {found:?}"));
        } else if is_comparable(message) && found != message {
            differences.push(format!("{file}: Argo says {message:?}, we say {found:?}"));
        }
    }
    differences
}

#[test]
fn our_files() {
    let differences = compare(Path::new(OURS), "verdicts.tsv");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let files = fs::read_dir(OURS)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "yaml"));
    let rows = fs::read_to_string(Path::new(OURS).join("verdicts.tsv")).unwrap().lines().count();
    assert_eq!(files.count(), rows, "every file has a row");
}

#[test]
#[expect(clippy::print_stdout, reason = "whoever runs the tests must see what was left out")]
fn examples() {
    let modules = std::env::var_os("GOMODCACHE").map(PathBuf::from).or_else(|| {
        std::env::var_os("GOPATH")
            .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join("go").into()))
            .map(|path| Path::new(&path).join("pkg/mod"))
    });
    let Some(folder) = modules.map(|modules| modules.join(MODULE)).filter(|folder| folder.is_dir()) else {
        println!("SKIPPED: the examples of Argo's module are not here; `peers/build argo-workflows` brings them");
        return;
    };
    let differences = compare(&folder, "examples.tsv");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let all: Vec<Source> = fs::read_to_string(Path::new(OURS).join("examples.tsv"))
        .unwrap()
        .lines()
        // one of those without a workflow is no YAML either
        .filter(|line| !line.contains("found nothing"))
        .map(|line| folder.join(line.split('\t').next().unwrap()))
        .map(|file| Source { name: file.display().to_string(), text: fs::read_to_string(file).unwrap() })
        .collect();
    let report = check(&all, &Offline);
    assert!(report.is_valid(), "together the examples have all they refer to: {:#?}", report.findings);
}
