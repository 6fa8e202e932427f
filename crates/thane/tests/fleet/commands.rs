//! `thane agents`, `thane jwt` and `thane pki` on an API.

use crate::{bare, fail, fleet, json, succeed};

#[test]
fn a_fleet_is_made_step_by_step_and_each_missing_step_is_named() {
    let (place, _running) = bare();
    fail(&place, "agents create blue --context hub", 1, "THANE-1401", &["argocd-agent-ca", "thane pki init"]);
    fail(&place, "pki issue principal --san a --context hub", 1, "THANE-1401", &["argocd-agent-ca"]);
    let made = json(&place, "pki init --context hub");
    assert_eq!(made["secret"], "argocd/argocd-agent-ca");
    fail(&place, "pki init --context hub", 1, "THANE-1406", &["--force"]);
    fail(&place, "pki issue principal --context hub", 1, "THANE-1101", &["at least one DNS name"]);
    let issued = json(&place, "pki issue principal --dns a,b --ip 127.0.0.1 --context hub");
    assert_eq!(issued["details"]["names"], serde_json::json!(["a", "b", "127.0.0.1"]));
    fail(&place, "pki issue principal --san a --context hub", 1, "THANE-1406", &["--force"]);
    succeed(&place, "pki issue principal --san c --context hub --force");
    succeed(&place, "pki issue resource-proxy --san c --context hub");
    fail(&place, "pki issue agent blue --context hub", 2, "THANE-1901", &["--agent-context"]);
    fail(&place, "pki issue client blue --context hub", 2, "THANE-1901", &["principal"]);

    fail(&place, "jwt inspect-key --context hub", 1, "THANE-1401", &["thane jwt create-key"]);
    let key = json(&place, "jwt create-key --context hub");
    assert_eq!((&key["bits"], &key["secret"]), (&4096.into(), &"argocd/argocd-agent-jwt".into()));
    assert_eq!(json(&place, "jwt inspect-key --context hub"), key);
    fail(&place, "jwt create-key --context hub", 1, "THANE-1406", &[]);
    assert_ne!(json(&place, "jwt create-key --context hub --upsert"), key);
    assert_eq!(json(&place, "jwt delete-key --context hub")["deleted"], true);
    fail(&place, "jwt delete-key --context hub", 1, "THANE-1401", &[]);
}

#[test]
fn agents_come_and_go() {
    let (place, _running) = fleet();
    for bad in ["Blue", "a.b", "argocd"] {
        fail(&place, &format!("agents create {bad}"), 2, "THANE-1901", &[]);
    }
    fail(&place, "agents create green --resource-proxy-server nowhere", 2, "THANE-1901", &["HOST:PORT"]);
    let made =
        json(&place, "agents create blue --label tier=one --label site=b --resource-proxy-server rp.example:9090");
    assert_eq!((&made["namespaceCreated"], &made["certificateGiven"]), (&true.into(), &false.into()));
    assert_eq!(made["server"], "https://rp.example:9090?agentName=blue");
    fail(&place, "agents create blue", 1, "THANE-1405", &["rotate"]);
    json(&place, "agents create green --no-namespace");
    assert!(succeed(&place, "get namespaces").contains("blue") && !succeed(&place, "get namespaces").contains("green"));

    let names = |line: &str| -> Vec<String> {
        let list = json(&place, line);
        list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("agents list"), ["blue", "cluster-1", "green"]);
    assert_eq!(names("agents list -l tier=one"), ["blue"]);
    let table = succeed(&place, "agents list");
    assert!(table.starts_with("NAME        MODE   CONNECTED   VERSION   SINCE\n"), "{table}");
    let blue = json(&place, "agents inspect blue");
    assert_eq!((&blue["hasNamespace"], &blue["blocked"]), (&true.into(), &false.into()));
    assert_eq!(blue["certificate"]["subject"]["commonName"], "blue");
    assert!(succeed(&place, "agents inspect green").contains("has no namespace of its own"));

    let old = blue["certificate"]["fingerprint"].clone();
    let rotated = json(&place, "agents rotate blue --block-old");
    assert_eq!(rotated["blocked"].as_array().unwrap().len(), 1);
    assert_ne!(json(&place, "agents inspect blue")["certificate"]["fingerprint"], old);
    assert_eq!(json(&place, "agents block blue")["blocked"].as_array().unwrap().len(), 1);
    assert_eq!(json(&place, "agents inspect blue")["blocked"], true);
    // What was replaced stays blocked.
    assert_eq!(json(&place, "agents unblock blue")["unblocked"].as_array().unwrap().len(), 1);
    assert_eq!(json(&place, "agents inspect blue")["blocked"], false);
    fail(&place, "agents block blue --fingerprint 00", 2, "THANE-1901", &["SHA-256"]);

    for command in ["inspect", "rotate", "block", "resync", "remove"] {
        fail(&place, &format!("agents {command} nobody"), 1, "THANE-1404", &["nobody"]);
    }
    assert_eq!(json(&place, "agents remove blue --with-namespace")["namespaceDeleted"], true);
    assert_eq!(names("agents list"), ["cluster-1", "green"]);
}

#[test]
fn an_agent_beside_its_hub_does_not_cost_the_hub_its_authority() {
    let (place, _running) = fleet();
    succeed(&place, "pki issue agent beside --context hub --agent-context hub");
    // The authority still signs.
    succeed(&place, "agents create beside --context hub");
}
