//! Gates: nodes that wait until a policy and, where that is not sure enough, a person let the steps behind them go on.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::kind::{GateAnswer, Phase, Recorded, Stage};
use super::super::view::{Node, WorkflowView};
use super::{Ask, Effect, Planned, Seen, input};

/// Who decided, where nobody did in time.
const DEADLINE: &str = "deadline";
/// Who decided, where it was done past us.
const ELSEWHERE: &str = "workflow";
/// How long a gate waits if its workload does not say.
const WAIT: i64 = 1800;

/// Decides what can be decided, asks what must be asked, and says who is waited for.
pub(super) fn decide(seen: &Seen<'_>, view: &WorkflowView, planned: &mut Planned) {
    for gate in view.gates() {
        let of_gate = |it: &&Recorded| it.stage == Stage::Gate && it.gate.as_deref() == Some(gate.id.as_str());
        let recorded: Vec<&Recorded> = planned.status.current().filter(of_gate).collect();
        let until = deadline(seen, gate);
        let find =
            |is_policys_word: bool| recorded.iter().copied().find(|it| is_policys(it) == is_policys_word).cloned();
        let ruling = match (find(false), find(true)) {
            (Some(ruled), _) => Some(ruled),
            (None, Some(policy)) => ruling(&policy, answer(seen, view, gate), until, seen.now),
            (None, None) => {
                let input = input(seen, Stage::Gate, Some(&gate.display_name), Some(view));
                planned.asks.push(Ask { stage: Stage::Gate, gate: Some(gate.id.clone()), input });
                continue;
            }
        };
        match ruling {
            Some(ruling) => {
                let effect = Effect::Gate { node: gate.id.clone(), allow: ruling.allow, message: told(&ruling) };
                if !is_policys(&ruling) && !planned.status.decisions.contains(&ruling) {
                    planned.status.decisions.push(ruling);
                }
                planned.effects.push(effect);
            }
            None => {
                planned.status.phase = Phase::PendingApproval;
                planned.status.message = Some(format!(
                    "gate {} waits for a person: thane workload approve or deny {}",
                    gate.display_name,
                    seen.workload.metadata.name.as_deref().unwrap_or_default()
                ));
                planned.wake = planned.wake.min(Some(until));
            }
        }
    }
}

/// What a person said of a gate first; what was said of an earlier run's is not about this one.
fn answer<'a>(seen: &Seen<'a>, view: &WorkflowView, gate: &Node) -> Option<&'a GateAnswer> {
    seen.workload.spec.gate_answers.iter().find(|answer| answer.gate == gate.id && answer.workflow == view.uid)
}

/// Whether a record is a policy's word; people may be called anything.
fn is_policys(recorded: &Recorded) -> bool {
    recorded.rule.is_some()
}

/// What the policy's word, a person's and the clock make together; none while a person is waited for.
fn ruling(policy: &Recorded, answer: Option<&GateAnswer>, until: Timestamp, now: Timestamp) -> Option<Recorded> {
    if !policy.allow {
        return Some(policy.clone());
    }
    let ruled = |allow: bool, reason: String, by: &str| Recorded {
        stage: Stage::Gate,
        gate: policy.gate.clone(),
        allow,
        reason,
        by: by.to_owned(),
        rule: None,
        input: None,
        workflow: policy.workflow.clone(),
        at: Time(now),
    };
    if let Some(answer) = answer {
        return Some(ruled(answer.allow, answer.reason.clone(), &answer.by));
    }
    if sure(policy) {
        return Some(policy.clone());
    }
    (now >= until).then(|| ruled(false, "nobody answered in time".to_owned(), DEADLINE))
}

/// Gates that ended without us, by the duration of their template or by somebody's hand: what they came to is recorded,
/// also where they had closed before a decision of ours could open them.
pub(super) fn expired(seen: &Seen<'_>, view: &WorkflowView, planned: &mut Planned) {
    for gate in
        view.nodes.values().filter(|node| node.kind == "Suspend" && node.phase != "Skipped" && node.phase != "Omitted")
    {
        let of_gate = |it: &&Recorded| closing(it).is_some_and(|(ruled, _)| ruled == gate.id);
        let rulings: Vec<&Recorded> = planned.status.current().filter(of_gate).collect();
        let denied = rulings.iter().any(|it| !it.allow);
        let Some(decision) = gate.parameter("decision").filter(|_| !denied) else { continue };
        let allow = decision == "approve";
        let (by, reason) = match (allow, rulings.is_empty()) {
            (true, true) => (ELSEWHERE, "it was opened in the Workflow, by somebody who may change that"),
            (true, false) => continue,
            (false, true) => (DEADLINE, "nobody answered in time"),
            (false, false) => (DEADLINE, "it was approved, but only after the Workflow had closed it"),
        };
        planned.status.decisions.push(Recorded {
            stage: Stage::Gate,
            gate: Some(gate.id.clone()),
            allow,
            reason: reason.to_owned(),
            by: by.to_owned(),
            rule: None,
            input: None,
            workflow: Some(view.uid.clone()),
            at: Time(gate.finished_at.unwrap_or(seen.now)),
        });
    }
}

/// A record that opened or closed a gate, and when.
pub(in crate::agent) fn closing(recorded: &Recorded) -> Option<(String, Timestamp)> {
    let closes = !is_policys(recorded) || !recorded.allow || sure(recorded);
    (recorded.stage == Stage::Gate && closes).then(|| (recorded.gate.clone().unwrap_or_default(), recorded.at.0))
}

/// Whether a policy's word was enough.
fn sure(recorded: &Recorded) -> bool {
    let number =
        |name: &str| recorded.input.as_ref().and_then(|input| input.get(name)).and_then(serde_json::Value::as_f64);
    matches!((number("confidence"), number("threshold")), (Some(confidence), Some(threshold)) if confidence > threshold)
}

fn told(ruling: &Recorded) -> String {
    let verb = if ruling.allow { "approved" } else { "denied" };
    format!("{verb} by {}: {}", ruling.by, ruling.reason)
}

fn deadline(seen: &Seen<'_>, gate: &Node) -> Timestamp {
    let wait = seen.workload.spec.timeouts.as_ref().and_then(|timeouts| timeouts.suspend_gate).unwrap_or(WAIT);
    gate.started_at.unwrap_or(seen.now) + SignedDuration::from_secs(wait)
}
