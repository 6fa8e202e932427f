use proptest::prelude::*;
use serde_json::json;

use super::*;

fn module(source: &str) -> Module {
    Module { path: "policy.rego".to_owned(), source: source.to_owned() }
}

fn policies(source: &str) -> Policies {
    Policies::load(&[module(source)]).unwrap()
}

const ABOVE: &str = r#"package agentworkload.policies
default decision := {"allow": false, "reason": "not above the threshold"}
decision := {"allow": true, "reason": "sure enough"} if {
    input.stage == "gate"
    input.confidence > input.threshold
}
"#;

#[test]
fn a_gate_opens_above_the_threshold_and_not_at_it() {
    let above = policies(ABOVE);
    let at = |confidence: f64| above.decide(&json!({"stage": "gate", "confidence": confidence, "threshold": 0.95}));
    assert_eq!(at(0.96), Decision { allow: true, reason: "sure enough".to_owned() });
    assert_eq!(at(0.95), Decision { allow: false, reason: "not above the threshold".to_owned() });
    assert!(!above.decide(&json!({})).allow);
}

#[test]
fn both_versions_of_the_language_are_read_side_by_side() {
    let old = "package agentworkload.helpers\nsure { input.confidence > 0.5 }\n";
    let new = "package agentworkload.policies\nimport data.agentworkload.helpers\n\
               decision := {\"allow\": true, \"reason\": \"r\"} if helpers.sure\n";
    let both = Policies::load(&[module(new), Module { path: "old.rego".to_owned(), source: old.to_owned() }]).unwrap();
    assert!(both.decide(&json!({"confidence": 0.6})).allow);
    let denied = both.decide(&json!({"confidence": 0.4}));
    assert_eq!((denied.allow, denied.reason.as_str()), (false, "data.agentworkload.policies.decision is undefined"));
}

#[test]
fn whatever_is_no_decision_is_a_refusal_that_says_so() {
    let table = [
        ("decision := true", "is no object"),
        ("decision := {\"allow\": \"yes\"}", "neither true nor false"),
        ("decision := {\"reason\": \"r\"}", "has no allow"),
        ("decision := {\"allow\": true} if input.nothing", "undefined"),
        ("decision := {\"allow\": false}", "denied by the policy"),
    ];
    for (rule, why) in table {
        let decision = policies(&format!("package agentworkload.policies\n{rule}\n")).decide(&json!({}));
        assert!(!decision.allow && decision.reason.contains(why), "{rule}: {decision:?}");
    }
}

#[test]
fn a_policy_that_does_not_end_is_a_refusal() {
    let endless = "package agentworkload.policies\ndecision := {\"allow\": true, \"reason\": \"r\"} if {\n\
                   some a in numbers.range(1, 20000)\nsome b in numbers.range(1, 20000)\na * b == -1\n}\n";
    let decision = policies(endless).decide(&json!({}));
    assert!(!decision.allow && decision.reason.contains("the policy failed"), "{decision:?}");
}

#[test]
fn what_cannot_be_used_is_named() {
    assert_eq!(Policies::load(&[]).unwrap_err(), Unusable::None);
    let broken = Policies::load(&[module("package p\ndecision := {")]).unwrap_err();
    assert!(matches!(&broken, Unusable::Invalid { path, .. } if path == "policy.rego"), "{broken}");
    let calls = Policies::load(&[module("package p\n\nx := http.send({\"url\": \"http://a\"})")]).unwrap_err();
    assert_eq!(calls, Unusable::Calls { path: "policy.rego".to_owned(), line: 3 });
    let large = Policies::load(&[module(&"#".repeat(MODULE_BYTES + 1))]).unwrap_err();
    assert!(matches!(large, Unusable::Large { .. }));
}

#[test]
fn a_question_and_its_answer_cross_a_pipe() {
    let question = Question {
        modules: vec![module(ABOVE)],
        input: json!({"stage": "gate", "confidence": 0.96, "threshold": 0.95}),
        explain: true,
    };
    let read: Question = serde_json::from_str(&serde_json::to_string(&question).unwrap()).unwrap();
    assert_eq!(read, question);
    let answer = read.answer();
    let read: Answer = serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap();
    assert_eq!(read, answer);
    assert!(matches!(&answer, Answer::Decided(explained) if explained.modules.len() == 1));
    assert!(answer.decision().allow);
}

#[test]
fn policies_that_cannot_be_asked_are_a_refusal_that_names_them() {
    for (source, why) in [
        ("package p\ndecision := {", "policy.rego is not Rego"),
        ("package p\nx := http.send({})", "policy.rego, line 2: http.send is not allowed"),
    ] {
        let answer = Question { modules: vec![module(source)], input: json!({}), explain: false }.answer();
        assert!(matches!(answer, Answer::Unusable(_)), "{answer:?}");
        let decision = answer.decision();
        assert!(!decision.allow && decision.reason.contains(why), "{decision:?}");
    }
    let none = Question { modules: Vec::new(), input: json!({}), explain: false }.answer().decision();
    assert!(!none.allow && none.reason.contains("there is no policy"), "{none:?}");
    let failed = Answer::failed("its process ended").decision();
    assert_eq!((failed.allow, failed.reason.as_str()), (false, "the policy failed: its process ended"));
}

#[test]
fn an_explanation_names_the_lines() {
    let explained = policies(ABOVE).explain(&json!({"stage": "gate", "confidence": 0.1, "threshold": 0.95}));
    assert!(!explained.decision.allow);
    assert_eq!(explained.modules.len(), 1);
    assert!(explained.modules[0].reached.contains(&4), "{explained:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}", body in "[a-z0-9:={}\" \n.\\[\\]]{0,120}") {
        let _ = Policies::load(&[module(&text)]);
        if let Ok(read) = Policies::load(&[module(&format!("package agentworkload.policies\n{body}"))]) {
            let _ = read.decide(&json!({"stage": "gate"}));
        }
    }
}
