//! `thane doctor` names what is wrong.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use thane_runtime::pki::{Authority, Request};
use thane_runtime::{Clock, SystemClock};

use crate::place::Place;
use crate::{bare, fail, fleet, json, run, succeed};

const PAIR: &str = "doctor --hub-context hub --agent-context cluster-1";

/// What is wrong, each with its next step.
fn wrong(place: &Place, line: &str) -> Vec<(String, String)> {
    let output = run(place, &format!("{line} -o json"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["state"] == "wrong");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let wrong: Vec<_> = findings.map(|finding| (text(&finding["message"]), text(&finding["next"]))).collect();
    assert_eq!(report["wrong"], wrong.len());
    assert_eq!(output.status.code(), Some(i32::from(!wrong.is_empty())));
    wrong
}

fn check(place: &Place, line: &str, expected: &[(&str, &str)]) {
    let found = wrong(place, line);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (message, next) in expected {
        let is_there = found.iter().any(|(said, step)| said.contains(message) && step.contains(next));
        assert!(is_there, "{message} ({next}) is missing in {found:#?}");
    }
}

#[test]
fn a_pair_with_nothing_is_told_each_step() {
    let (place, _running) = bare();
    check(
        &place,
        PAIR,
        &[
            ("argocd/argocd-agent-ca is not there", "thane pki init"),
            ("argocd/argocd-agent-principal-tls is not there", "thane pki issue principal"),
            ("argocd/argocd-agent-jwt is not there", "thane jwt create-key"),
            ("argocd/argocd-agent-ca is not there", "thane pki issue agent"),
            ("argocd/argocd-agent-client-tls is not there", "thane pki issue agent"),
        ],
    );
    check(
        &place,
        "doctor --hub-context hub --namespace elsewhere",
        &[
            ("namespace elsewhere is not there", "kubectl create namespace elsewhere"),
            ("elsewhere/argocd-agent-ca", ""),
            ("elsewhere/argocd-agent-principal-tls", ""),
            ("elsewhere/argocd-agent-jwt", ""),
        ],
    );
}

#[test]
fn a_good_pair_is_told_so_and_a_wrong_one_what_to_do() {
    let (place, _running) = fleet();
    check(&place, PAIR, &[]);
    let text = succeed(&place, PAIR);
    assert!(text.ends_with("\nnothing is wrong\n"), "{text}");
    // Nobody listens there, and the certificate is for another name.
    check(
        &place,
        &format!("{PAIR} --server-address 127.0.0.1 --server-port 1"),
        &[("127.0.0.1:1 cannot be reached", "Service")],
    );
    let elsewhere = format!("{PAIR} --server-address hub.invalid --server-port 1");
    check(
        &place,
        &elsewhere,
        &[
            ("valid for localhost, 127.0.0.1, not for hub.invalid", "--san hub.invalid"),
            ("hub.invalid:1 cannot be reached", "check that the hub runs"),
        ],
    );
    succeed(&place, "delete namespace cluster-1 --context hub");
    succeed(&place, "delete secret cluster-cluster-1 -n argocd --context hub");
    check(
        &place,
        PAIR,
        &[
            ("argocd/cluster-cluster-1 is not there", "thane agents create cluster-1"),
            ("namespace cluster-1", "kubectl create"),
        ],
    );
}

/// The agent's Secret with a certificate of the hub's authority that was good until yesterday.
fn expired(place: &Place) -> String {
    let secret = json(place, "get secret argocd-agent-ca -n argocd --context hub");
    let text = |key: &str| {
        let bytes = STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let authority = Authority::from_pem(&text("tls.crt"), &text("tls.key")).unwrap();
    let day = Duration::from_hours(24);
    let then = SystemClock::new().now() - 2 * day;
    let identity = authority.issue(&Request::agent("cluster-1"), then, day).unwrap();
    let data = json!({"tls.crt": STANDARD.encode(identity.cert_pem), "tls.key": STANDARD.encode(identity.key_pem)});
    let metadata = json!({"name": "argocd-agent-client-tls", "namespace": "argocd"});
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data})
        .to_string()
}

#[test]
fn a_foreign_or_expired_certificate_is_told_apart() {
    let (place, _running) = fleet();
    place.write("expired.yaml", &expired(&place));
    succeed(&place, "apply -f expired.yaml --context cluster-1 --force-conflicts");
    check(&place, PAIR, &[("CN=cluster-1 expired at", "thane pki issue agent")]);
    succeed(&place, "pki issue agent cluster-1 --context hub --agent-context cluster-1 --force");
    succeed(&place, "pki init --context hub --force");
    let found = wrong(&place, PAIR);
    assert!(found.iter().all(|(said, _)| said.contains("unknown authority")), "{found:#?}");
    assert_eq!(found.len(), 2);
    succeed(&place, "pki issue principal --san localhost --context hub --force");
    let found = wrong(&place, PAIR);
    assert!(found.iter().any(|(said, _)| said.contains("does not lead to the hub's certificate")), "{found:#?}");
}

#[test]
fn an_api_that_is_not_there_is_a_finding_too() {
    let (place, _running) = bare();
    fail(&place, "agents list --kubeconfig absent", 2, "THANE-1201", &[]);
    let found = wrong(&place, "doctor --kubeconfig absent");
    assert!(found[0].0.contains("absent"), "{found:?}");
}
