//! The outcome of a comparison, for people.

use std::fmt;

use super::compare::{Difference, compare, covers};
use super::run::Recording;
use super::sequence::{Sequence, Step};

/// What one sequence came to.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// `file: sequence`.
    pub title: String,
    /// Unexplained differences: the step's number and request, and the difference.
    pub differences: Vec<(String, Difference)>,
    /// Accepted differences that occurred: step and reason.
    pub accepted: Vec<(String, String)>,
    /// Accepted differences that did not occur any more: they can be struck out.
    pub stale: Vec<String>,
}

/// What all sequences came to.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// One verdict per sequence, in their order.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// Compares two recordings of the same sequences, the reference first.
    pub fn new(sequences: &[Sequence], reference: &[Recording], other: &[Recording]) -> Self {
        let pairs = reference.iter().zip(other);
        let verdicts = sequences.iter().zip(pairs).map(|(sequence, (left, right))| judge(sequence, left, right));
        Self { verdicts: verdicts.collect() }
    }

    /// How many sequences differ without an accepted reason.
    pub fn failed(&self) -> usize {
        self.verdicts.iter().filter(|verdict| !verdict.differences.is_empty()).count()
    }

    /// How many accepted differences occurred.
    pub fn accepted(&self) -> usize {
        self.verdicts.iter().map(|verdict| verdict.accepted.len()).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for verdict in &self.verdicts {
            for (step, difference) in &verdict.differences {
                writeln!(out, "DIFFERS {}: {step}\n    {difference}", verdict.title)?;
            }
            for (step, reason) in &verdict.accepted {
                writeln!(out, "accepted {}: {step}: {reason}", verdict.title)?;
            }
            for step in &verdict.stale {
                writeln!(out, "no longer differs {}: {step}", verdict.title)?;
            }
        }
        let total = self.verdicts.len();
        let failed = self.failed();
        writeln!(
            out,
            "{total} sequences: {} agree, {failed} differ, {} differences accepted",
            total - failed,
            self.accepted()
        )
    }
}

fn judge(sequence: &Sequence, reference: &Recording, other: &Recording) -> Verdict {
    let title = format!("{}: {}", sequence.file, sequence.name);
    let mut verdict = Verdict { title, differences: Vec::new(), accepted: Vec::new(), stale: Vec::new() };
    // A failed preparation has put a record before the first step's.
    if reference.records.len() != other.records.len() || reference.records.len() != sequence.steps.len() {
        let find =
            |recording: &Recording| recording.records.iter().find(|record| record.get("failure").is_some()).cloned();
        let difference = Difference { path: String::new(), expected: find(reference), found: find(other) };
        verdict.differences.push(("preparation".to_owned(), difference));
        return verdict;
    }
    for (index, step) in sequence.steps.iter().enumerate() {
        let name = format!("step {} ({})", index + 1, step.request);
        judge_step(step, &name, compare(&reference.records[index], &other.records[index]), &mut verdict);
        if let Some(failure) = reference.records[index].get("failure") {
            let difference = Difference { path: "/failure".to_owned(), expected: None, found: Some(failure.clone()) };
            verdict.differences.push((name, difference));
        }
    }
    verdict
}

fn judge_step(step: &Step, name: &str, differences: Vec<Difference>, verdict: &mut Verdict) {
    let mut used = vec![false; step.differs.len()];
    for difference in differences {
        let path = difference.path.as_str();
        let wanted = |only: &String| covers(only, path) || covers(path, only);
        if !step.only.is_empty() && !step.only.iter().any(wanted) {
            continue;
        }
        if step.ignore.iter().any(|ignored| covers(ignored, path)) {
            continue;
        }
        match step.differs.iter().position(|accepted| covers(&accepted.path, path)) {
            Some(index) => used[index] = true,
            None => verdict.differences.push((name.to_owned(), difference)),
        }
    }
    for (accepted, used) in step.differs.iter().zip(used) {
        if used {
            verdict.accepted.push((name.to_owned(), accepted.because.clone()));
        } else {
            verdict.stale.push(format!("{name}: {}", accepted.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::differential::parse;

    #[test]
    fn sorts_differences_by_what_the_script_says() {
        let check = |step: &str, expected: (usize, usize, usize)| {
            let sequences = parse("a.yaml", &format!("- {{name: a, steps: [{step}]}}")).unwrap();
            let recording = |body: Value| vec![Recording { records: vec![json!({"status": 200, "body": body})] }];
            let left = recording(json!({"a": 1, "b": 1}));
            let report = Report::new(&sequences, &left, &recording(json!({"a": 1, "b": 2})));
            let verdict = &report.verdicts[0];
            assert_eq!((verdict.differences.len(), verdict.accepted.len(), verdict.stale.len()), expected, "{step}");
        };
        check("{do: GET /x}", (1, 0, 0));
        check("{do: GET /x, only: [/body/a]}", (0, 0, 0));
        check("{do: GET /x, ignore: [/body/b]}", (0, 0, 0));
        check("{do: GET /x, differs: [{path: /body/b, because: it does}]}", (0, 1, 0));
        check("{do: GET /x, differs: [{path: /body/a, because: it did}]}", (1, 0, 1));
    }
}
