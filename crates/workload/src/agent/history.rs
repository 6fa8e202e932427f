//! What was decided: in the run that is now and in those before it, and how much of it is kept.

use serde_json::{Value, json};

use super::kind::{AgentWorkloadStatus, Recorded, Stage};
use super::plan::closing;

/// How many records a workload keeps, but for those it cannot do without.
const RECORDS: usize = 100;
/// Bytes of what one decision was asked with; of more, what steps found is left out first.
const INPUT: usize = 64 << 10;
/// Bytes of all of them; of more, the oldest are cut to what they are judged by.
const INPUTS: usize = 256 << 10;
/// Characters of a reason.
const REASON: usize = 4096;

impl AgentWorkloadStatus {
    /// What was decided in the run that is now. What was said of an earlier one is not about it.
    pub fn current(&self) -> impl Iterator<Item = &Recorded> {
        let uid = self.argo_workflow.as_ref().and_then(|workflow| workflow.uid.as_ref());
        self.decisions.iter().filter(move |it| it.workflow.is_none() || it.workflow.as_ref() == uid)
    }

    /// The status of a workload that begins again: it knows what was decided before, and no more.
    #[must_use]
    pub fn anew(mut self) -> Self {
        let uid = self.argo_workflow.and_then(|workflow| workflow.uid).unwrap_or_default();
        for record in &mut self.decisions {
            record.workflow.get_or_insert_with(|| uid.clone());
        }
        Self { decisions: self.decisions, ..Self::default() }
    }

    /// Says of what is known now which run it is about.
    pub(super) fn belongs_to(&mut self, uid: &str) {
        for record in &mut self.decisions {
            record.workflow.get_or_insert_with(|| uid.to_owned());
        }
    }
}

/// Keeps records within their bounds. What lets a workload start and what opens or closes its gates stays in any case: it
/// would be asked for again.
pub(super) fn bound(status: &mut AgentWorkloadStatus) {
    for record in &mut status.decisions {
        if let Some((end, _)) = record.reason.char_indices().nth(REASON) {
            record.reason.truncate(end);
        }
        if record.input.as_ref().is_some_and(|input| size(input) > INPUT) {
            record.input = record.input.take().map(without_findings);
        }
    }
    let mut all: usize = status.decisions.iter().filter_map(|record| record.input.as_ref()).map(size).sum();
    for input in status.decisions.iter_mut().filter_map(|record| record.input.as_mut()) {
        if all <= INPUTS {
            break;
        }
        let before = size(input);
        *input = judged_by(input);
        all -= before.saturating_sub(size(input));
    }
    drain(status);
}

/// The least that says how it is, where all of it is more than the API takes.
pub(super) fn least(status: &mut AgentWorkloadStatus) {
    for input in status.decisions.iter_mut().filter_map(|record| record.input.as_mut()) {
        *input = judged_by(input);
    }
    status.workflow_artifacts.clear();
    status.agent_statuses.clear();
    status.message = Some(match status.message.take() {
        Some(message) => {
            format!("{} (artifacts and agents are left out: the status is too large)", cut(&message))
        }
        None => "artifacts and agents are left out: the status is too large".to_owned(),
    });
}

fn cut(message: &str) -> String {
    message.chars().take(REASON).collect()
}

fn drain(status: &mut AgentWorkloadStatus) {
    let mut surplus = status.decisions.len().saturating_sub(RECORDS);
    if surplus == 0 {
        return;
    }
    let current: Vec<bool> =
        status.decisions.iter().map(|record| status.current().any(|it| std::ptr::eq(it, record))).collect();
    let closed: Vec<String> = status.current().filter_map(closing).map(|(gate, _)| gate).collect();
    // Earlier runs first, then what policies said of gates on which somebody else had the last word.
    let mut goes = vec![false; status.decisions.len()];
    for of_now in [false, true] {
        for (at, record) in status.decisions.iter().enumerate() {
            let is_ruled = record.stage == Stage::Gate
                && closing(record).is_none()
                && record.gate.as_ref().is_some_and(|gate| closed.contains(gate));
            if surplus > 0 && current[at] == of_now && (!of_now || is_ruled) {
                goes[at] = true;
                surplus -= 1;
            }
        }
    }
    let mut goes = goes.into_iter();
    status.decisions.retain(|_| !goes.next().unwrap_or_default());
}

fn size(input: &Value) -> usize {
    input.to_string().len()
}

fn without_findings(mut input: Value) -> Value {
    if let Some(insights) = input.get_mut("insights") {
        *insights = json!([{"leftOut": format!("{} bytes", size(insights))}]);
    }
    if size(&input) > INPUT { judged_by(&input) } else { input }
}

/// What of an input a ruling depends on later.
fn judged_by(input: &Value) -> Value {
    let mut kept = json!({});
    for name in ["stage", "gate", "confidence", "threshold", "now"] {
        if let Some(value) = input.get(name) {
            kept[name] = value.clone();
        }
    }
    kept
}
