//! Tokens as Consul's own command and a Python program make them, against ours.

use std::process::Command;

use serde_json::Value;

use crate::{PYTHON, content, ours, script};

/// Consul's own command, as somebody with a token or without.
struct Consul {
    program: std::path::PathBuf,
    address: String,
}

impl Consul {
    /// Whether it went well, and what it said.
    async fn run(&self, token: &str, line: &str) -> (bool, String) {
        let mut command = Command::new(&self.program);
        command.args(line.split(' ')).env("CONSUL_HTTP_ADDR", &self.address).env_remove("CONSUL_HTTP_TOKEN");
        if !token.is_empty() {
            command.env("CONSUL_HTTP_TOKEN", token);
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let told = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8(told).unwrap())
    }

    async fn json(&self, token: &str, line: &str) -> Value {
        let (fine, told) = self.run(token, &format!("{line} -format=json")).await;
        assert!(fine, "{line}: {told}");
        serde_json::from_str(&told).unwrap_or_else(|error| panic!("{line}: {error}: {told}"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consuls_own_command_makes_tokens() {
    let Some((home, thane)) = ours(&["consul"]).await else { return };
    let consul = Consul { program: home.program("consul"), address: thane.published("discovery").unwrap() };
    let first = consul.json("", "acl bootstrap").await;
    let root = first["SecretID"].as_str().unwrap();
    assert!(!consul.run("", "acl bootstrap").await.0, "only once");
    consul.json(root, "acl policy create -name app -rules key_prefix\"app/\"{policy=\"write\"}").await;
    let policies = consul.json(root, "acl policy list").await;
    assert!(policies.as_array().unwrap().iter().any(|policy| policy["Name"] == "app"), "{policies}");
    let read = consul.json(root, "acl policy read -name app").await;
    assert!(read["Rules"].as_str().unwrap().contains("app/"));

    let made = consul.json(root, "acl token create -description app -policy-name app -service-identity web").await;
    let (secret, id) = (made["SecretID"].as_str().unwrap(), made["AccessorID"].as_str().unwrap());
    for (token, line, is_fine) in [
        (secret, "kv put app/a 1", true),
        (secret, "kv get app/a", true),
        (secret, "kv put other 1", false),
        ("", "kv get app/a", false),
        (secret, "acl token list", false),
    ] {
        let (fine, told) = consul.run(token, line).await;
        assert_eq!(fine, is_fine, "{line}: {told}");
    }
    // The other agent was told too, before anybody asked it.
    let other = Consul { program: consul.program.clone(), address: thane.published("discovery-cluster-2").unwrap() };
    let (fine, told) = other.run(secret, "kv put app/b 1").await;
    assert!(fine, "{told}");
    assert!(!other.run("", "kv get app/b").await.0);

    let listed = consul.json(root, "acl token list").await;
    assert!(listed.as_array().unwrap().iter().any(|token| token["AccessorID"] == *id), "{listed}");
    let shown = consul.json(root, &format!("acl token read -id {id}")).await;
    assert_eq!(shown["Description"], "app");
    let own = consul.json(secret, "acl token read -self").await;
    assert_eq!(own["SecretID"], secret);
    let changed =
        consul.json(root, &format!("acl token update -id {id} -description changed -append-policy-name app")).await;
    assert_eq!(changed["Description"], "changed");
    assert!(consul.run(secret, "kv get app/a").await.0, "its secret is what it was");
    let (fine, told) = consul.run(root, &format!("acl token delete -id {id}")).await;
    assert!(fine, "{told}");
    assert!(!consul.run(secret, "kv get app/a").await.0);
    let (fine, told) = consul.run(root, "acl policy delete -name app").await;
    assert!(fine, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_program_makes_tokens() {
    let Some((home, thane)) = ours(&[PYTHON]).await else { return };
    let address = thane.published("discovery").unwrap();
    let (host, port) = address.split_once(':').unwrap();
    let mut command = Command::new(home.program(PYTHON));
    command.arg(script("tokens.py")).args([host, port]);
    content(command, &address).await;
}
