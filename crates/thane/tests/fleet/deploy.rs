//! The manifests in `deploy/`: what they say, and that an API takes them.

use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{bare, succeed};

fn folder(role: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(role)
}

fn files(role: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder(role)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn documents(role: &str) -> Vec<Value> {
    let parse = |path: PathBuf| -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap();
        text.split("\n---\n").map(|part| serde_saphyr::from_str(part).unwrap()).collect()
    };
    files(role).into_iter().flat_map(parse).collect()
}

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> Vec<&'a Value> {
    documents.iter().filter(|document| document["kind"] == kind).collect()
}

/// The document as its type has it: a field that is not one would be lost.
fn typed<T: DeserializeOwned + Serialize>(document: &Value) -> T {
    let typed: T = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&typed).unwrap(), document);
    typed
}

#[test]
fn pods_are_nobody_in_particular_and_can_write_nowhere() {
    for role in ["hub", "agent"] {
        let documents = documents(role);
        let deployments = of_kind(&documents, "Deployment");
        let deployment: Deployment = typed(deployments[0]);
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.security_context.as_ref().unwrap().run_as_non_root, Some(true));
        assert_eq!(pod.enable_service_links, Some(false));
        let container = &pod.containers[0];
        assert_eq!(container.image.as_deref(), Some(concat!("localhost/thane:", env!("CARGO_PKG_VERSION"))));
        let security = container.security_context.as_ref().unwrap();
        assert_eq!(security.read_only_root_filesystem, Some(true));
        assert_eq!(security.allow_privilege_escalation, Some(false));
        assert_eq!(security.capabilities.as_ref().unwrap().drop, Some(vec!["ALL".to_owned()]));
    }
}

#[test]
fn nobody_calls_an_agent_but_for_its_metrics() {
    let documents = documents("agent");
    let policy: NetworkPolicy = typed(of_kind(&documents, "NetworkPolicy")[0]);
    let ingress = policy.spec.unwrap().ingress.unwrap();
    assert_eq!(serde_json::to_value(&ingress).unwrap(), serde_json::json!([{"ports": [{"port": "metrics"}]}]));
    assert_eq!(of_kind(&documents, "Service").len(), 1);
    let rules = of_kind(&documents, "ClusterRole");
    assert!(rules.is_empty(), "an agent needs rights in its own namespace alone");
}

#[test]
fn the_definition_of_agents_is_the_one_the_program_has() {
    let documents = documents("hub");
    let own: Vec<Value> = thane_api::kinds::own_definitions().collect();
    assert_eq!(of_kind(&documents, "CustomResourceDefinition"), own.iter().collect::<Vec<_>>());
}

#[test]
fn an_api_takes_them() {
    let (place, _running) = bare();
    for (role, context) in [("hub", "hub"), ("agent", "cluster-1")] {
        for file in files(role) {
            let text = std::fs::read_to_string(&file).unwrap();
            // The embedded API runs no Deployments, and has no such kind.
            if !text.contains("kind: Deployment") {
                succeed(&place, &format!("apply -f {} --context {context}", file.display()));
            }
        }
    }
    for (file, context) in [("10-agent.yaml", "cluster-1"), ("20-hub.yaml", "hub")] {
        let file = folder("live").join(file);
        succeed(&place, &format!("apply -f {} --context {context}", file.display()));
    }
    assert!(succeed(&place, "get networkpolicies -n argocd --context cluster-1").contains("thane-agent"));
}
