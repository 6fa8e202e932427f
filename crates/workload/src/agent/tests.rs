mod kept;
mod late;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::doubt::EndedPod;
use super::kind::{AgentWorkload, GateAnswer, Phase, Recorded, Runtime, Stage, Timeouts};
use super::plan::FINALIZER;
use super::{Effect, Planned, Seen, Services, plan};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_760_000_000 + seconds).unwrap()
}

fn workload() -> AgentWorkload {
    serde_json::from_value(json!({
        "apiVersion": "agentic.clawdlinux.org/v1alpha1", "kind": "AgentWorkload",
        "metadata": {"name": "scan", "namespace": "team", "uid": "u1", "generation": 1},
        "spec": {"jobId": "j1", "targetUrls": ["https://example.org"], "autoApproveThreshold": "0.95",
            "orchestration": {"workflowTemplateRef": {"name": "scraper"}}},
    }))
    .unwrap()
}

/// A workload, its Workflow and a clock, moved by hand.
struct World {
    workload: AgentWorkload,
    workflow: Option<Value>,
    template: bool,
    pods: Vec<EndedPod>,
    argo: bool,
    services: Services,
    now: i64,
}

impl World {
    fn new() -> Self {
        let text = |text: &str| text.to_owned();
        let services = Services {
            agent_image: text("agents:1"),
            browserless_url: text("ws://browser"),
            litellm_url: text("http://models"),
            postgres_dsn: text("postgresql://checkpoints"),
            bucket: text("artifacts"),
            instance: Some(text("thane")),
        };
        Self { workload: workload(), workflow: None, template: true, pods: Vec::new(), argo: false, services, now: 0 }
    }

    fn look(&mut self) -> Planned {
        let planned = plan(&Seen {
            workload: &self.workload,
            workflow: self.workflow.as_ref(),
            template: self.template,
            pods: &self.pods,
            argo: self.argo,
            services: &self.services,
            now: at(self.now),
        });
        self.workload.status = Some(planned.status.clone());
        planned
    }

    /// Answers everything that is asked.
    fn policy(&mut self, allow: bool) {
        for ask in self.look().asks {
            let recorded = Recorded {
                stage: ask.stage,
                gate: ask.gate,
                allow,
                reason: "the policy says so".to_owned(),
                by: "policy".to_owned(),
                rule: Some("data.rule".to_owned()),
                input: Some(ask.input),
                workflow: None,
                at: Time(at(self.now)),
            };
            self.workload.status.get_or_insert_default().decisions.push(recorded);
        }
    }

    /// Started, with a Workflow whose nodes these are.
    #[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
    fn with_nodes(nodes: Value) -> Self {
        let mut world = Self::new();
        world.policy(true);
        let created = world.look().effects.into_iter().find_map(|effect| match effect {
            Effect::Create(workflow) => Some(workflow),
            _ => None,
        });
        let mut workflow = created.unwrap();
        workflow["metadata"]["uid"] = json!("w1");
        workflow["metadata"]["creationTimestamp"] = json!(at(0).to_string());
        workflow["status"] = json!({"phase": "Running", "nodes": nodes});
        world.workflow = Some(workflow);
        world
    }

    fn phase(&self) -> (Phase, String) {
        let status = self.workload.status.clone().unwrap_or_default();
        (status.phase, status.message.unwrap_or_default())
    }

    fn answer(&mut self, gate: &str, allow: bool) {
        self.answer_of(gate, "w1", allow, "ada");
    }

    fn answer_of(&mut self, gate: &str, workflow: &str, allow: bool, by: &str) {
        let text = |text: &str| text.to_owned();
        self.workload.spec.gate_answers.push(GateAnswer {
            gate: text(gate),
            workflow: text(workflow),
            allow,
            by: text(by),
            reason: text("I looked"),
        });
    }

    fn ends(&mut self, phase: &str, nodes: &Value) -> (Phase, String) {
        let workflow = self.workflow.as_mut().unwrap();
        workflow["status"] = json!({"phase": phase, "nodes": nodes});
        self.look();
        self.phase()
    }
}

fn gate(id: &str, confidence: Option<f64>) -> Value {
    let mut nodes = json!({id: {"id": id, "displayName": "approval-gate", "type": "Suspend", "phase": "Running",
        "startedAt": at(10).to_string()}});
    if let Some(confidence) = confidence {
        nodes["s"] = json!({"id": "s", "displayName": "screenshot", "type": "Pod", "phase": "Succeeded",
            "outputs": {"parameters": [{"name": "confidence", "value": confidence.to_string()}]}});
        nodes["d"] = json!({"id": "d", "displayName": "dom", "type": "Pod", "phase": "Succeeded",
            "outputs": {"parameters": [{"name": "confidence", "value": "0.99"}]}});
    }
    nodes
}

#[test]
fn it_starts_when_the_policy_says_so() {
    let mut world = World::new();
    let first = world.look();
    assert_eq!((first.asks.len(), first.asks[0].stage, first.effects.len()), (1, Stage::Start, 0));
    world.policy(true);
    let planned = world.look();
    let [Effect::Create(workflow)] = planned.effects.as_slice() else { panic!("{planned:?}") };
    assert_eq!(workflow["metadata"]["ownerReferences"][0]["uid"], "u1");
    assert_eq!(workflow["metadata"]["labels"]["workflows.argoproj.io/controller-instanceid"], "thane");
    let parameters = workflow["spec"]["arguments"]["parameters"].as_array().unwrap();
    let names: Vec<&str> = parameters.iter().filter_map(|it| it["name"].as_str()).collect();
    let seven =
        ["job_id", "target_urls", "minio_bucket", "agent_image", "browserless_url", "litellm_url", "postgres_dsn"];
    assert_eq!(names, seven);
    assert_eq!(parameters[1]["value"], r#"["https://example.org"]"#);
    assert_eq!(planned.status.argo_workflow.unwrap().runtime, Runtime::Thane);
}

#[test]
fn it_does_not_start_when_the_policy_denies_until_the_spec_is_another() {
    let mut world = World::new();
    world.policy(false);
    assert!(world.look().effects.is_empty());
    assert_eq!(world.phase(), (Phase::PolicyDenied, "the policy says so".to_owned()));
    assert!(world.look().asks.is_empty());
    world.workload.metadata.generation = Some(2);
    assert_eq!(world.look().asks.len(), 1);
}

#[test]
fn argo_runs_it_where_argo_is_and_another_namespace_is_held() {
    let mut world = World::new();
    world.argo = true;
    world.workload.spec.orchestration.as_mut().unwrap().workflow_template_ref.as_mut().unwrap().namespace =
        Some("argo".to_owned());
    world.policy(true);
    let planned = world.look();
    let [Effect::Hold, Effect::Create(workflow)] = planned.effects.as_slice() else { panic!("{planned:?}") };
    assert_eq!(workflow["metadata"]["namespace"], "argo");
    assert!(workflow["metadata"].get("ownerReferences").is_none());
    assert!(workflow["metadata"]["labels"].get("workflows.argoproj.io/controller-instanceid").is_none());
}

#[test]
fn gates_end_as_they_should() {
    // confidence, policy, person, seconds passed: what becomes of the gate, or none while a person is waited for
    let table = [
        (Some(0.96), true, None, 20, Some(true)),
        (Some(0.95), true, None, 20, None),
        (None, true, None, 20, None),
        (Some(0.96), false, None, 20, Some(false)),
        (Some(0.5), true, Some(true), 20, Some(true)),
        (Some(0.5), true, Some(false), 20, Some(false)),
        (Some(0.96), true, Some(false), 20, Some(false)),
        (Some(0.5), false, Some(true), 20, Some(false)),
        (Some(0.5), true, None, 1809, None),
        (Some(0.5), true, None, 1810, Some(false)),
    ];
    for (confidence, policy, person, seconds, expected) in table {
        let mut world = World::with_nodes(gate("g", confidence));
        world.now = 15;
        world.policy(policy);
        if let Some(person) = person {
            world.answer("g", person);
        }
        world.now = seconds;
        let planned = world.look();
        let ruled = planned.effects.iter().find_map(|effect| match effect {
            Effect::Gate { allow, .. } => Some(*allow),
            _ => None,
        });
        assert_eq!(ruled, expected, "{confidence:?} {policy} {person:?} {seconds}");
        if expected.is_none() {
            assert_eq!(world.phase().0, Phase::PendingApproval);
            assert!(planned.wake.unwrap() <= at(1810));
        }
        assert_eq!(world.look().status, planned.status, "a second look finds nothing new");
    }
}

#[test]
fn an_answer_is_about_one_run_and_people_may_have_any_name() {
    let mut world = World::with_nodes(gate("g", Some(0.5)));
    world.now = 20;
    world.policy(true);
    world.answer_of("g", "an earlier run", false, "ada");
    assert!(world.look().effects.is_empty());
    assert_eq!(world.phase().0, Phase::PendingApproval);
    world.answer_of("g", "w1", true, "policy");
    let planned = world.look();
    let opened = Effect::Gate { node: "g".to_owned(), allow: true, message: "approved by policy: I looked".to_owned() };
    assert_eq!(planned.effects, [opened]);
    let last = planned.status.decisions.last().unwrap();
    assert_eq!((last.by.as_str(), &last.rule), ("policy", &None));
}

#[test]
fn the_template_is_told_how_long_gates_wait() {
    let mut world = World::new();
    world.workload.spec.timeouts = Some(Timeouts { suspend_gate: Some(90), execution: None });
    world.policy(true);
    let planned = world.look();
    let [Effect::Create(workflow)] = planned.effects.as_slice() else { panic!("{planned:?}") };
    let told = workflow["spec"]["arguments"]["parameters"].as_array().unwrap().last().unwrap();
    assert_eq!(told, &json!({"name": "gate_timeout", "value": "90s"}));
}

#[test]
fn two_gates_at_once_are_decided_each_for_itself() {
    let mut nodes = gate("g1", Some(0.5));
    nodes["g2"] = json!({"id": "g2", "displayName": "second", "type": "Suspend", "phase": "Running", "startedAt": at(10).to_string()});
    let mut world = World::with_nodes(nodes);
    world.now = 20;
    world.policy(true);
    world.answer("g2", true);
    let planned = world.look();
    assert_eq!(
        planned.effects,
        [Effect::Gate { node: "g2".to_owned(), allow: true, message: "approved by ada: I looked".to_owned() }]
    );
    assert_eq!(world.phase().0, Phase::PendingApproval);
}

#[test]
fn its_end_is_what_the_gates_say() {
    let mut denied = World::with_nodes(gate("g", Some(0.5)));
    denied.now = 20;
    denied.policy(true);
    denied.answer("g", false);
    denied.look();
    let mut nodes = gate("g", Some(0.5));
    nodes["g"]["phase"] = json!("Failed");
    assert_eq!(denied.ends("Failed", &nodes), (Phase::Failed, "gate approval-gate was denied: I looked".to_owned()));

    // The gate ran out while nobody of ours was there: Argo lets the workflow succeed, and the decision says no.
    let mut expired = World::with_nodes(json!({}));
    let mut nodes = gate("g", None);
    nodes["g"]["phase"] = json!("Succeeded");
    nodes["g"]["outputs"] = json!({"parameters": [{"name": "decision", "value": "deny"}]});
    let (phase, why) = expired.ends("Succeeded", &nodes);
    assert_eq!((phase, why.as_str()), (Phase::Failed, "gate approval-gate was denied: nobody answered in time"));

    // Somebody who may change the Workflow opened it there.
    let mut around = World::with_nodes(json!({}));
    nodes["g"]["outputs"]["parameters"][0]["value"] = json!("approve");
    assert_eq!(around.ends("Succeeded", &nodes).0, Phase::Completed);
    let last = around.workload.status.unwrap().decisions.pop().unwrap();
    assert_eq!((last.allow, last.by.as_str()), (true, "workflow"));

    let mut done = World::with_nodes(json!({}));
    let nodes = json!({"a": {"id": "a", "displayName": "report", "type": "Pod", "phase": "Succeeded",
        "outputs": {"artifacts": [{"name": "report", "s3": {"bucket": "b", "key": "job_j1/report.md"}}]}}});
    assert_eq!(done.ends("Succeeded", &nodes).0, Phase::Completed);
    let artifacts = done.workload.status.unwrap().workflow_artifacts;
    assert_eq!(artifacts["report/report"], "s3://b/job_j1/report.md");

    let mut failed = World::with_nodes(json!({}));
    assert_eq!(failed.ends("Error", &json!({})).0, Phase::Failed);
}

#[test]
fn a_dead_controller_is_noticed_after_five_minutes() {
    type Prepare = fn(&mut World);
    let table: [(&str, Prepare); 5] = [
        ("nobody has taken up", |world| world.workflow.as_mut().unwrap()["status"] = json!({})),
        ("pending", |world| world.workflow.as_mut().unwrap()["status"] = json!({"phase": "Pending"})),
        ("has ended and its node has not", |world| {
            let nodes = json!({"p": {"id": "p", "type": "Pod", "phase": "Running", "startedAt": at(0).to_string()}});
            world.workflow.as_mut().unwrap()["status"]["nodes"] = nodes;
            world.pods = vec![EndedPod { node: "p".to_owned(), name: "pod".to_owned(), at: at(0) }];
        }),
        // Making it was the last thing the controller did.
        ("pod made has ended and its node has not", |world| {
            world.pods = vec![EndedPod { node: "q".to_owned(), name: "made".to_owned(), at: at(0) }];
        }),
        ("nothing has followed", |world| {
            world.workflow.as_mut().unwrap()["status"]["nodes"] = gate("g", Some(0.99));
            world.policy(true);
            world.look();
            let node = &mut world.workflow.as_mut().unwrap()["status"]["nodes"]["g"];
            node["phase"] = json!("Succeeded");
            node["finishedAt"] = json!(at(0).to_string());
        }),
    ];
    for (why, prepare) in table {
        let mut world = World::with_nodes(json!({}));
        prepare(&mut world);
        world.now = 299;
        let planned = world.look();
        assert!(!planned.status.phase.ended(), "{why}: {planned:?}");
        world.now = 300;
        let planned = world.look();
        assert_eq!(planned.effects, [Effect::Stop], "{why}");
        assert!(world.phase().1.contains(why), "{why}: {:?}", world.phase());
    }
}

#[test]
fn what_is_missing_is_named_and_waited_for_five_minutes() {
    let mut world = World::new();
    world.template = false;
    world.policy(true);
    world.look();
    assert_eq!(world.phase(), (Phase::Pending, "there is no WorkflowTemplate scraper in namespace team".to_owned()));
    world.now = 301;
    world.look();
    assert_eq!(world.phase().0, Phase::Failed);

    let mut nameless = World::new();
    nameless.workload.spec.orchestration = None;
    nameless.policy(true);
    nameless.look();
    assert!(nameless.phase().1.contains("names no template"));

    let mut foreign = World::new();
    foreign.policy(true);
    foreign.workflow = Some(json!({"metadata": {"name": "scan", "uid": "x"}}));
    foreign.look();
    assert!(foreign.phase().1.contains("was not made for this"), "{:?}", foreign.phase());

    let mut gone = World::with_nodes(json!({}));
    gone.look();
    gone.workflow = None;
    gone.look();
    assert!(gone.phase().1.contains("was deleted"));
}

#[test]
fn deleting_it_deletes_what_it_made_first() {
    let mut world = World::with_nodes(json!({}));
    world.workload.metadata.deletion_timestamp = Some(Time(at(1)));
    world.workload.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    assert_eq!(world.look().effects, [Effect::Delete]);
    world.workflow.as_mut().unwrap()["metadata"]["deletionTimestamp"] = json!(at(1).to_string());
    assert!(world.look().effects.is_empty());
    world.workflow = None;
    assert_eq!(world.look().effects, [Effect::Release]);
}

proptest! {
    #[test]
    fn nothing_in_a_workflow_makes_it_panic(phase in ".{0,8}", kind in "(Suspend|Pod|.{0,4})", value in ".{0,20}", packed in "[A-Za-z0-9+/=]{0,40}") {
        let nodes = json!({"n": {"id": "n", "type": kind, "phase": phase, "startedAt": value,
            "outputs": {"parameters": [{"name": "confidence", "value": value}]}}});
        let mut world = World::with_nodes(nodes);
        world.look();
        world.workflow.as_mut().unwrap()["status"]["compressedNodes"] = json!(packed);
        world.look();
        world.now += SignedDuration::from_hours(1).as_secs();
        world.look();
    }
}
