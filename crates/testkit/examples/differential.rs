//! Holds two running servers against each other, or prints what one answers.
//!
//! `differential [--only TEXT] KUBECONFIG[#CONTEXT] [KUBECONFIG[#CONTEXT]]`, the reference first. With one server its answers
//! are printed; the same server given twice shows which sequences are not deterministic.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use thane_testkit::differential::{NamedEndpoint, Report, load_all, run_all};
use thane_testkit::endpoint::Endpoint;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<ExitCode> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut sequences = load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sequences"))?;
    if arguments.first().is_some_and(|argument| argument == "--only") && arguments.len() > 2 {
        let only = arguments.remove(1);
        arguments.remove(0);
        sequences.retain(|sequence| format!("{}:{}", sequence.file, sequence.name).contains(&only));
    }
    // The process id sets the namespaces of runs on one server apart.
    let run = format!("d{}", std::process::id());
    match arguments.as_slice() {
        [one] => {
            let recordings = run_all(&target(one)?, &sequences, &run).await?;
            for (sequence, recording) in sequences.iter().zip(recordings) {
                println!("=== {}: {}", sequence.file, sequence.name);
                for (step, record) in sequence.steps.iter().zip(recording.records) {
                    println!("--- {}\n{record:#}", step.request);
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        [reference, other] => {
            let (reference, other) = (target(reference)?, target(other)?);
            let (left_run, right_run) = (format!("{run}a"), format!("{run}b"));
            let left = run_all(&reference, &sequences, &left_run);
            let right = run_all(&other, &sequences, &right_run);
            let (left, right) = tokio::try_join!(left, right)?;
            let report = Report::new(&sequences, &left, &right);
            println!("{report}");
            Ok(if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        _ => bail!("usage: differential [--only TEXT] KUBECONFIG[#CONTEXT] [KUBECONFIG[#CONTEXT]]"),
    }
}

fn target(argument: &str) -> Result<NamedEndpoint> {
    let (file, context) = argument.split_once('#').map_or((argument, None), |(file, context)| (file, Some(context)));
    Ok(NamedEndpoint { name: argument.to_owned(), endpoint: Endpoint::from_kubeconfig(Path::new(file), context)? })
}
