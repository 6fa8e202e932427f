//! A world in which pods end as a script says.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::engine::{Effect, Operated, Refused, Seen, Sources, Start, operate};
use crate::spec::{Workflow, WorkflowSpec};
use crate::status::{NodeStatus, Phase, WorkflowStatus};
use crate::steps::{Identity, TaskResult};

/// How a step ends.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) code: Option<i32>,
    pub(super) outputs: Value,
}

pub(super) fn exits(code: i32) -> End {
    End { code: Some(code), outputs: Value::Null }
}

pub(super) fn gives(outputs: Value) -> End {
    End { code: Some(0), outputs }
}

/// It does not end by itself.
pub(super) fn stays() -> End {
    End { code: None, outputs: Value::Null }
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) workflow: Workflow,
    /// What is stored.
    pub(super) status: WorkflowStatus,
    pub(super) pods: BTreeMap<String, Arc<Pod>>,
    pub(super) results: BTreeMap<String, Arc<TaskResult>>,
    pub(super) refused: BTreeMap<String, Refused>,
    pub(super) lodged: BTreeMap<String, bool>,
    pub(super) now: Timestamp,
    /// Ends by node name; what is not in it ends well.
    pub(super) script: BTreeMap<String, End>,
    pub(super) templates: BTreeMap<String, Arc<WorkflowSpec>>,
    /// Every start, in order.
    pub(super) started: Vec<Start>,
    pub(super) ended: Vec<String>,
    pub(super) labels: BTreeMap<String, String>,
}

impl Sources for World {
    fn workflow_template(&self, name: &str) -> Option<Arc<WorkflowSpec>> {
        self.templates.get(name).cloned()
    }

    fn cluster_template(&self, name: &str) -> Option<Arc<WorkflowSpec>> {
        self.templates.get(&format!("cluster/{name}")).cloned()
    }

    fn config_value(&self, name: &str, key: &str) -> Option<String> {
        (name == "settings" && key == "colour").then(|| "blue".to_owned())
    }
}

impl World {
    #[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
    pub(super) fn new(spec: Value, script: Vec<(&str, End)>) -> Self {
        let workflow = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": {"name": "wf", "namespace": "ns", "uid": "1", "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": spec,
        });
        Self {
            workflow: serde_json::from_value(workflow).expect("a workflow"),
            status: WorkflowStatus::default(),
            pods: BTreeMap::new(),
            results: BTreeMap::new(),
            refused: BTreeMap::new(),
            lodged: BTreeMap::new(),
            now: "2026-01-02T03:04:10Z".parse().expect("a time"),
            script: script.into_iter().map(|(name, end)| (name.to_owned(), end)).collect(),
            templates: BTreeMap::new(),
            started: Vec::new(),
            ended: Vec::new(),
            labels: BTreeMap::new(),
        }
    }

    pub(super) fn template(mut self, name: &str, spec: Value) -> Self {
        self.templates.insert(name.to_owned(), Arc::new(serde_json::from_value(spec).expect("a spec")));
        self
    }

    /// One look, from a status that may be older than the last one.
    pub(super) fn look(&self, status: WorkflowStatus) -> Operated {
        let identity =
            Identity { name: "wf".to_owned(), namespace: "ns".to_owned(), uid: "1".to_owned(), instance: None };
        let (pods, results, refused) = (&self.pods, &self.results, &self.refused);
        let seen = Seen { pods, results, lodged: &self.lodged, refused, sources: self };
        operate(&self.workflow, &identity, status, &seen, self.now)
    }

    /// Does what was decided.
    pub(super) fn act(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Start(start) => {
                    assert!(!self.pods.contains_key(&start.node_id), "{} is started twice", start.node_name);
                    assert!(!self.results.contains_key(&start.node_id), "{} is started again", start.node_name);
                    self.started.push((**start).clone());
                    self.pods.insert(start.node_id.clone(), Arc::new(pod(start, "Pending", None)));
                }
                Effect::End { pod } => self.end(pod),
                Effect::Claim(_) | Effect::Unclaim { .. } => {}
            }
        }
    }

    /// A pod's time is over: its node is told from elsewhere what it came to.
    fn end(&mut self, name: &str) {
        self.ended.push(name.to_owned());
        for start in self.started.iter().filter(|start| start.pod == name) {
            if let Some(known) = self.pods.get_mut(&start.node_id) {
                *known = Arc::new(pod(start, "Failed", Some(143)));
            }
        }
    }

    /// Pods that run.
    pub(super) fn alive(&self) -> Vec<&str> {
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        let alive = self.pods.values().filter(|pod| matches!(phase(pod).as_str(), "Pending" | "Running"));
        alive.filter_map(|pod| pod.metadata.name.as_deref()).collect()
    }

    /// Every pod that runs goes on by one: it starts, then it ends.
    pub(super) fn pass(&mut self) -> bool {
        let mut moved = false;
        for start in &self.started {
            let Some(now) = self.pods.get(&start.node_id) else { continue };
            let end = self.script.get(&start.node_name).cloned().unwrap_or_else(|| exits(0));
            let phase = now.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
            let next = match (phase, end.code) {
                ("Pending", _) => pod(start, "Running", None),
                ("Running", Some(code)) => {
                    let result = json!({
                        "metadata": {"name": start.node_id, "labels": {"workflows.argoproj.io/report-outputs-completed": "true"}},
                        "outputs": with_code(&end.outputs, code),
                    });
                    let result = serde_json::from_value(result).expect("a result");
                    self.results.insert(start.node_id.clone(), Arc::new(result));
                    pod(start, if code == 0 { "Succeeded" } else { "Failed" }, Some(code))
                }
                _ => continue,
            };
            moved = true;
            self.pods.insert(start.node_id.clone(), Arc::new(next));
        }
        moved
    }

    /// Runs to the end, or until nothing more happens.
    pub(super) fn run(mut self) -> Self {
        for _ in 0..500 {
            let operated = self.look(self.status.clone());
            self.status = operated.status;
            self.labels = operated.labels;
            self.workflow.metadata.labels = Some(self.labels.clone());
            self.workflow.metadata.annotations = Some(operated.annotations);
            self.act(&operated.effects);
            if self.status.phase.is_completed() {
                return self;
            }
            self.now += SignedDuration::from_secs(1);
            if !self.pass() && operated.effects.is_empty() && !operated.changed {
                match operated.wake_at {
                    Some(time) => self.now = self.now.max(time),
                    None => return self,
                }
            }
        }
        panic!("it does not end:\n{}", self.tree().join("\n"));
    }

    pub(super) fn node(&self, name: &str) -> &NodeStatus {
        self.status
            .nodes
            .iter()
            .find(|node| node.name == name)
            .unwrap_or_else(|| panic!("no node {name} in {:#?}", self.tree()))
    }

    /// Nodes by name: type, phase, message, and what follows.
    pub(super) fn tree(&self) -> Vec<String> {
        let name = |id: &String| self.status.nodes.get(id).map_or_else(|| format!("?{id}"), |node| node.name.clone());
        let mut all: Vec<String> = self
            .status
            .nodes
            .iter()
            .map(|node| {
                let mut line = format!("{} {:?} {}", node.name, node.kind, node.phase.word());
                if !node.message.is_empty() {
                    line.extend([format!(" ({})", node.message)]);
                }
                let mut children: Vec<String> = node.children.iter().map(name).collect();
                children.sort();
                if !children.is_empty() {
                    line.extend([format!(" -> {}", children.join(", "))]);
                }
                line
            })
            .collect();
        all.sort();
        all
    }

    pub(super) fn is(&self, phase: Phase, message: &str) {
        assert_eq!((self.status.phase, self.status.message.as_str()), (phase, message), "{:#?}", self.tree());
        assert_eq!(self.labels["workflows.argoproj.io/phase"], phase.word());
        assert_eq!(self.labels["workflows.argoproj.io/completed"], phase.is_completed().to_string());
    }
}

fn with_code(outputs: &Value, code: i32) -> Value {
    let mut outputs = if outputs.is_null() { json!({}) } else { outputs.clone() };
    outputs["exitCode"] = json!(code.to_string());
    outputs
}

fn pod(start: &Start, phase: &str, code: Option<i32>) -> Pod {
    let state = match code {
        None => json!({"running": {}}),
        Some(0) => json!({"terminated": {"exitCode": 0, "reason": "Completed"}}),
        Some(code) => json!({"terminated": {"exitCode": code, "reason": "Error"}}),
    };
    let statuses = if phase == "Pending" {
        json!([])
    } else {
        json!([{"name": "main", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": state}])
    };
    serde_json::from_value(json!({
        "metadata": {"name": start.pod, "namespace": "ns"},
        "spec": {"containers": [], "nodeName": "here"},
        "status": {"phase": phase, "podIP": "10.0.0.1", "containerStatuses": statuses},
    }))
    .expect("a pod")
}
