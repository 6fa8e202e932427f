//! `thane policy` and `thane workflow lint` without any server.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/place.rs"]
mod place;

use place::Place;

/// What is printed, and whether it ended well.
fn run(place: &Place, arguments: &[&str]) -> (bool, String, String) {
    let output = place.run(arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// A file there, by its name.
fn file(place: &Place, name: &str, text: &str) -> String {
    place.write(name, text);
    name.to_owned()
}

fn asked(place: &Place, rego: &str) -> (bool, String, String) {
    let input = file(place, "input.json", r#"{"stage": "gate", "confidence": 0.96, "threshold": 0.95}"#);
    let policy = file(place, "policy.rego", rego);
    run(place, &["policy", "test", "--input", &input, &policy])
}

const ABOVE: &str = r#"package agentworkload.policies
default decision := {"allow": false, "reason": "not above the threshold"}
decision := {"allow": true, "reason": "sure enough"} if {
    input.confidence > input.threshold
}
"#;

#[test]
fn a_decision_is_printed_and_explained() {
    let place = Place::new();
    assert_eq!(asked(&place, ABOVE), (true, "allow: sure enough\n".to_owned(), String::new()));
    let input = file(&place, "input.json", r#"{"confidence": 0.95, "threshold": 0.95}"#);
    let policy = file(&place, "policy.rego", ABOVE);
    let (well, text, _) = run(&place, &["policy", "explain", "--input", &input, &policy]);
    assert!(well && text.starts_with("deny: not above the threshold\n"), "{text}");
    assert!(text.contains("policy.rego") && text.contains("lines looked at: "), "{text}");
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: p, namespace: here}}\ndata:\n  p.rego: |\n    {}\n",
        ABOVE.replace('\n', "\n    ")
    );
    let map = file(&place, "map.yaml", &map);
    let (well, text, _) = run(&place, &["policy", "test", "-o", "json", "--input", &input, &map]);
    assert!(well && text.contains("\"allow\": false"), "{text}");
}

#[test]
fn policies_that_cannot_be_used_are_named() {
    let place = Place::new();
    for (rego, why) in [
        ("package p\ndecision := {", "policy.rego is not Rego"),
        ("package p\nx := http.send({})", "line 2: http.send is not allowed in a policy"),
    ] {
        let (well, _, error) = asked(&place, rego);
        assert!(!well && error.contains(why), "{error}");
    }
    let policy = file(&place, "policy.rego", ABOVE);
    let broken = file(&place, "broken.json", "{");
    let (well, _, error) = run(&place, &["policy", "test", "--input", &broken, &policy]);
    assert!(!well && error.contains("broken.json"), "{error}");
}

/// Inside one call of a function no clock is looked at, and memory that is not there ends a process.
#[test]
fn a_policy_that_takes_all_there_is_denies_and_whoever_asked_lives_on() {
    let place = Place::new();
    let doubling = (1..50).map(|at| format!("    s{at} := concat(\"\", [s{0}, s{0}])\n", at - 1));
    let doubling = doubling.collect::<Vec<_>>().concat();
    for body in [
        "    some a in numbers.range(1, 20000)\n    some b in numbers.range(1, 20000)\n    a * b == -1\n".to_owned(),
        "    count(numbers.range(1, 100000000000)) > 0\n".to_owned(),
        format!("    s0 := \"0123456789abcdef\"\n{doubling}    count(s49) > 0\n"),
    ] {
        let rego = format!(
            "package agentworkload.policies\ndecision := {{\"allow\": true, \"reason\": \"r\"}} if {{\n{body}}}\n"
        );
        let (well, text, error) = asked(&place, &rego);
        assert!(well && text.starts_with("deny: the policy failed: "), "{body}: {text} {error}");
    }
}

#[test]
fn workflows_are_linted_without_a_server() {
    let place = Place::new();
    let workflow = |name: &str, template: &str| {
        let text = format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {{generateName: w-}}\nspec:\n  entrypoint: main\n  \
             templates:\n  - name: main\n    steps:\n    - - {{name: a, template: {template}}}\n  - name: echo\n    \
             container: {{image: busybox}}\n"
        );
        file(&place, name, &text)
    };
    let (good, bad) = (workflow("good.yaml", "echo"), workflow("bad.yaml", "nobody"));
    let (well, text, error) = run(&place, &["workflow", "lint", &good]);
    assert!(well, "{text} {error}");
    let (well, text, error) = run(&place, &["workflow", "lint", &good, &bad]);
    let said = format!("{text}{error}");
    assert!(!well && said.contains("bad.yaml") && said.contains("nobody") && !said.contains("good.yaml:"), "{said}");
}
