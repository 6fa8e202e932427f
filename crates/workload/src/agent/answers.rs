//! People's answers to gates: who may give one, and that nobody gives one in another's name. The policy of
//! `deploy/workload/70-approvals.yaml` says the same to Kubernetes.

use serde_json::Value;
use thane_runtime::admission::{Reviewer, Write, Writer};

/// The verb of those who may answer.
const APPROVE: &str = "approve";

/// Looks at the answers in `AgentWorkloads` before they are stored.
#[derive(Debug, Clone, Copy, Default)]
pub struct Approvals;

impl Reviewer for Approvals {
    fn review(&self, _: &str, _: &str, _: &Value, _: Option<&Value>) -> Result<(), String> {
        Ok(())
    }

    fn review_writer(&self, writer: &Writer<'_>, write: &Write<'_>) -> Result<(), String> {
        if (write.group, write.plural) != ("agentic.clawdlinux.org", "agentworkloads") {
            return Ok(());
        }
        let (before, after) = (answers(write.old), answers(Some(write.object)));
        if before.iter().any(|answer| !after.contains(answer)) {
            return Err("spec.gateAnswers: an answer stays as it was given".to_owned());
        }
        let added: Vec<&Value> = after.iter().filter(|answer| !before.contains(answer)).collect();
        if let Some(other) = added.iter().find(|answer| answer["by"].as_str() != Some(writer.name)) {
            return Err(format!("spec.gateAnswers: you are {}, and cannot answer as {}", writer.name, other["by"]));
        }
        if !added.is_empty() && !(writer.may)(APPROVE) {
            return Err(format!("spec.gateAnswers: {} may not {APPROVE} agentworkloads here", writer.name));
        }
        Ok(())
    }
}

fn answers(workload: Option<&Value>) -> &[Value] {
    let list = workload.and_then(|workload| workload.pointer("/spec/gateAnswers")).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(name: &str, approver: bool, old: &Value, object: &Value) -> Result<(), String> {
        let may = |verb: &str| approver && verb == APPROVE;
        let write = Write { group: "agentic.clawdlinux.org", plural: "agentworkloads", object, old: Some(old) };
        Approvals.review_writer(&Writer { name, may: &may }, &write)
    }

    #[test]
    fn an_answer_is_its_givers_own() {
        let with = |answers: Value| json!({"spec": {"objective": "x", "gateAnswers": answers}});
        let none = json!({"spec": {}});
        let answer = |by: &str, allow: bool| json!({"gate": "g", "workflow": "u", "by": by, "allow": allow});
        let (ann, bob) = (answer("ann", true), answer("bob", true));
        for (name, approver, old, new, refused) in [
            ("ann", true, &none, with(json!([ann])), None),
            ("ann", false, &none, with(json!([ann])), Some("ann may not approve")),
            ("bob", true, &none, with(json!([ann])), Some("you are bob, and cannot answer as \"ann\"")),
            ("bob", true, &with(json!([ann])), with(json!([ann, bob])), None),
            ("bob", true, &with(json!([ann])), with(json!([bob])), Some("stays as it was given")),
            ("ann", true, &with(json!([ann])), with(json!([answer("ann", false)])), Some("stays as it was given")),
            ("eve", false, &with(json!([ann])), none.clone(), Some("stays as it was given")),
            ("eve", false, &with(json!([ann])), with(json!([ann])), None),
            ("ann", true, &none, with(json!(["no object"])), Some("cannot answer as null")),
        ] {
            let said = verdict(name, approver, old, &new);
            match refused {
                None => assert_eq!(said, Ok(()), "{name} {new}"),
                Some(why) => assert!(said.as_ref().is_err_and(|said| said.contains(why)), "{name} {new}: {said:?}"),
            }
        }
    }
}
