//! Steps of workflows in pods: the wrapper, `thane step` beside it, and what is recorded of them.

use std::path::PathBuf;
use std::time::Instant;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};
use thane_testkit::endpoint::Endpoint;
use thane_workload::steps::request::{ApiAddress, Settings};
use thane_workload::steps::{Identity, Outcome, Phase, PodRequest, TaskResult, outcome, pod};

use crate::bed::{Bed, PATIENCE, phase_of};

const CLAIM: &str = "thane-artifacts";

/// The program beside the tests, which is built with them when all are.
fn program() -> Option<PathBuf> {
    let running = std::env::current_exe().ok()?;
    let found = running.parent()?.parent()?.join("thane");
    if found.is_file() {
        return Some(found);
    }
    eprintln!("SKIPPED, this test needs {}: run `cargo build -p thane`", found.display());
    None
}

struct Steps {
    bed: Bed,
    settings: Settings,
}

impl Steps {
    async fn start() -> Option<Self> {
        let program = program()?;
        let bed = Bed::new(|config| config.program = program).await?;
        let endpoint = Endpoint::from_kubeconfig(&bed.kubeconfig(), None).unwrap();
        let (host, port) = endpoint.address.rsplit_once(':').unwrap();
        let api = ApiAddress { host: host.to_owned(), port: port.parse().unwrap() };
        let settings = Settings {
            image: "thane".to_owned(),
            api: Some(api),
            artifacts: Some(CLAIM.to_owned()),
            ..Settings::default()
        };
        let steps = Self { bed, settings };
        steps.prepare().await;
        Some(steps)
    }

    /// What a controller makes once.
    async fn prepare(&self) {
        let client = self.bed.client();
        let names = json!({"kind": "WorkflowTaskResult", "plural": "workflowtaskresults", "singular": "workflowtaskresult",
            "listKind": "WorkflowTaskResultList"});
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({"metadata": {"name": "workflowtaskresults.argoproj.io"}, "spec": {
            "group": "argoproj.io", "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}]}});
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let definition = serde_json::from_value(definition).unwrap();
        definitions.create(&PostParams::default(), &definition).await.unwrap();
        let wait = await_condition(definitions, "workflowtaskresults.argoproj.io", conditions::is_crd_established());
        tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap();
        let rule =
            json!({"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]});
        let group = json!({"kind": "Group", "name": "system:serviceaccounts", "apiGroup": "rbac.authorization.k8s.io"});
        let steps_role = json!({"kind": "ClusterRole", "name": "steps", "apiGroup": "rbac.authorization.k8s.io"});
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        for (group_of, version, kind, plural, object) in [
            (
                "rbac.authorization.k8s.io",
                "v1",
                "ClusterRole",
                "clusterroles",
                json!({"metadata": {"name": "steps"}, "rules": [rule]}),
            ),
            (
                "rbac.authorization.k8s.io",
                "v1",
                "ClusterRoleBinding",
                "clusterrolebindings",
                json!({"metadata": {"name": "steps"}, "roleRef": steps_role, "subjects": [group]}),
            ),
            (
                "",
                "v1",
                "PersistentVolumeClaim",
                "persistentvolumeclaims",
                json!({"metadata": {"name": CLAIM}, "spec": claim}),
            ),
        ] {
            let kind = GroupVersionKind::gvk(group_of, version, kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, plural);
            let api: Api<DynamicObject> = if group_of.is_empty() {
                Api::namespaced_with(client.clone(), "default", &resource)
            } else {
                Api::all_with(client.clone(), &resource)
            };
            let mut object = object;
            object["apiVersion"] = json!(kind.api_version());
            object["kind"] = json!(kind.kind);
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
    }

    /// Runs a step to its end.
    async fn run(&self, node: &str, template: &Value) -> Outcome {
        let workflow = Identity {
            name: "w".to_owned(),
            namespace: "default".to_owned(),
            uid: "4a7d7c5e-0000-4000-8000-000000000001".to_owned(),
            instance: None,
        };
        let node_id = format!("w-{node}");
        let made = pod(&PodRequest {
            workflow: &workflow,
            node_id: &node_id,
            node_name: node,
            template,
            boundary: None,
            spec: &json!({}),
            claims: &[],
            repository: None,
            active_seconds: None,
            deadline: None,
            wants_result: true,
            on_exit: false,
            settings: &self.settings,
        })
        .unwrap();
        let name = made.pod.metadata.name.clone().unwrap();
        let started = Instant::now();
        // The owner would be collected, as there is none.
        let mut new = made.pod;
        new.metadata.owner_references = None;
        self.bed.pods().create(&PostParams::default(), &new).await.unwrap();
        let ended = self.bed.until(&name, "ended", |pod| matches!(phase_of(pod), "Succeeded" | "Failed")).await;
        eprintln!("{node} took {:?}", started.elapsed());
        let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "WorkflowTaskResult");
        let resource = ApiResource::from_gvk_with_plural(&kind, "workflowtaskresults");
        let results: Api<DynamicObject> = Api::namespaced_with(self.bed.client(), "default", &resource);
        let result = results.get_opt(&node_id).await.unwrap();
        let result: Option<TaskResult> =
            result.map(|object| serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap());
        outcome(&ended, result.as_ref(), template)
    }
}

fn shell(script: &str) -> Value {
    json!({"image": "host", "command": ["sh", "-c", script]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_step_leaves_is_recorded_and_reaches_the_next() {
    let Some(steps) = Steps::start().await else { return };
    let first = json!({"name": "make", "container": shell("echo hello; mkdir -p /tmp/d; echo x > /tmp/d/x; printf 7 > /tmp/n"),
        "outputs": {"parameters": [{"name": "n", "valueFrom": {"path": "/tmp/n"}}],
            "artifacts": [{"name": "d", "path": "/tmp/d"}]}});
    let made = Box::pin(steps.run("make", &first)).await;
    assert_eq!((made.phase, made.message.as_str()), (Phase::Succeeded, ""), "{made:?}");
    assert!(made.is_synced);
    let outputs = made.outputs.unwrap();
    assert_eq!((&outputs["result"], &outputs["exitCode"]), (&json!("hello"), &json!("0")));
    assert_eq!(outputs["parameters"][0]["value"], "7");

    let mut input = outputs["artifacts"][0].clone();
    input["path"] = json!("/in");
    let next = json!({"name": "use", "script": {"image": "host", "command": ["sh"], "source": "cat /in/x /raw"},
        "inputs": {"artifacts": [input, {"name": "raw", "path": "/raw", "raw": {"data": "y"}}]}});
    let used = Box::pin(steps.run("use", &next)).await;
    assert_eq!((used.phase, used.message.as_str()), (Phase::Succeeded, ""), "{used:?}");
    assert_eq!(used.outputs.unwrap()["result"], "x\ny");

    let failed = Box::pin(steps.run("fails", &json!({"name": "f", "container": shell("exit 3")}))).await;
    assert_eq!((failed.phase, failed.message.as_str()), (Phase::Failed, "main: Error (exit code 3)"));
    assert_eq!(failed.exit_code, Some(3));

    let lacking =
        json!({"name": "l", "container": shell("true"), "outputs": {"artifacts": [{"name": "a", "path": "/none"}]}});
    let lacking = Box::pin(steps.run("lacks", &lacking)).await;
    assert_eq!(lacking.phase, Phase::Error, "{lacking:?}");
    assert!(lacking.message.starts_with("wait: Error (exit code 64): open "), "{}", lacking.message);

    let absent = json!({"name": "b", "container": {"image": "host", "command": ["nope-nope"]}});
    let absent = Box::pin(steps.run("absent", &absent)).await;
    assert_eq!(absent.phase, Phase::Failed);
    assert!(absent.message.contains("(exit code 64): failed to find name in PATH"), "{}", absent.message);

    let beside = json!({"name": "s", "container": shell("sleep 0.2"),
        "sidecars": [{"name": "side", "image": "host", "command": ["sleep", "60"]}]});
    let beside = Box::pin(steps.run("beside", &beside)).await;
    assert_eq!((beside.phase, beside.message.as_str()), (Phase::Succeeded, ""), "{beside:?}");
}
