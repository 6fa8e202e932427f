//! Roles that cannot start say what is missing and how it is made.

use crate::{bare, fail, fleet, succeed};

const HUB: &str = "hub --context hub --listen-port 0 --metrics-port 0";
const AGENT: &str = "agent --context cluster-1 --server-address 127.0.0.1 --server-port 1 --metrics-port 0";

#[test]
fn a_missing_secret_is_named_with_the_command_that_makes_it() {
    let (place, _running) = bare();
    fail(&place, HUB, 1, "THANE-1401", &["argocd/argocd-agent-jwt is not there", "thane jwt create-key"]);
    fail(&place, AGENT, 1, "THANE-1401", &["argocd/argocd-agent-client-tls", "thane pki issue agent"]);
    succeed(&place, "jwt create-key --context hub");
    fail(&place, HUB, 1, "THANE-1401", &["argocd-agent-principal-tls", "thane pki issue principal"]);
    fail(&place, &format!("{HUB} --jwt-secret-name other"), 1, "THANE-1401", &["argocd/other"]);
}

#[test]
fn a_secret_that_holds_something_else_is_named() {
    let (place, _running) = fleet();
    let secret = |name: &str, data: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: argocd}}\nstringData: {data}\n")
    };
    place.write("empty.yaml", &secret("empty", "{a: b}"));
    place.write("broken.yaml", &secret("broken", "{jwt.key: not a key, tls.crt: none, tls.key: none}"));
    succeed(&place, "apply -f empty.yaml -f broken.yaml --context hub");
    let hub = |more: &str, words: &[&str]| fail(&place, &format!("{HUB} {more}"), 1, "THANE-1402", words);
    hub("--jwt-secret-name empty", &["argocd/empty", "no jwt.key"]);
    hub("--jwt-secret-name broken", &["argocd/broken", "not an RSA private key"]);
    hub("--tls-secret-name empty", &["no tls.crt"]);
    hub("--tls-secret-name broken", &["argocd/broken", "certificate"]);
    hub("--tls-ca-secret-name empty", &["neither ca.crt nor tls.crt"]);
}

#[test]
fn what_is_not_taken_says_why() {
    let (place, _running) = bare();
    fail(&place, &format!("{HUB} --insecure-plaintext"), 2, "THANE-1403", &["every connection has TLS"]);
    fail(&place, &format!("{HUB} --ha-enabled"), 2, "THANE-1403", &["one hub"]);
    fail(&place, &format!("{AGENT} --insecure-tls"), 2, "THANE-1403", &["--root-ca-path"]);
    fail(&place, "agent --context cluster-1 --metrics-port 0", 2, "THANE-1001", &["no hub is named"]);
    fail(&place, &format!("{AGENT} --agent-mode both"), 2, "THANE-1001", &["agent.mode"]);
    fail(&place, &format!("{HUB} --tls-cert only.crt"), 2, "THANE-1901", &["needs its key file"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let line = format!("hub --context hub --metrics-port {port}");
    fail(&place, &line, 1, "THANE-1002", &[&port.to_string(), "--metrics-port"]);
}
