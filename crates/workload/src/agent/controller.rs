//! The shell around [`plan`](super::plan): watches, questions to policies, writes.

mod gate;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use thane_runtime::{SharedClock, Tasks};

use super::create::{self, Services, WORKLOAD, WORKLOAD_NAMESPACE};
use super::doubt::EndedPod;
use super::history;
use super::kind::{AgentWorkload, AgentWorkloadStatus, GateAnswer, Phase, Recorded};
use super::plan::{Ask, Effect, FINALIZER, Planned, Seen, learn, plan};
use super::unused;
use crate::controller::is_too_large;
use crate::policy::{Answer, Judge, QUERY, Question, kept};

/// How many workloads are looked at at once.
const AT_ONCE: u16 = 16;
/// How long after an error a workload is looked at again.
const RETRY: Duration = Duration::from_secs(5);
/// A controller of Argo's that has not renewed its lease for so long does not run.
const ARGO_LEASE: SignedDuration = SignedDuration::from_secs(60);

/// What a controller of workloads is told.
#[derive(Debug, Clone)]
pub struct Options {
    /// What steps call.
    pub services: Services,
    /// Whose policies come before those of a workload's own namespace.
    pub namespace: String,
    /// Who asks them.
    pub judge: Arc<dyn Judge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Decided {
    stage: &'static str,
    allow: bool,
}

/// What workloads come to, in numbers.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    decisions: Family<Decided, Counter>,
    ended: Family<[(&'static str, String); 1], Counter>,
    errors: Counter,
}

impl Metrics {
    /// All at zero, and in the registry.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("thane_workload_decisions", "Decisions about workloads", metrics.decisions.clone());
        registry.register("thane_workload_ended", "Workloads that ended, by phase", metrics.ended.clone());
        registry.register("thane_workload_errors", "Looks at a workload that failed", metrics.errors.clone());
        metrics
    }
}

struct Context {
    client: Client,
    options: Options,
    clock: SharedClock,
    recorder: Recorder,
    metrics: Metrics,
}

/// Keeps workloads going until the tasks end.
pub fn start(client: Client, options: Options, clock: SharedClock, tasks: &Tasks, metrics: Metrics) {
    let reporter = Reporter { controller: "thane-workload".to_owned(), instance: None };
    let recorder = Recorder::new(client.clone(), reporter);
    let context = Arc::new(Context { client: client.clone(), options, clock, recorder, metrics });
    let stop = tasks.clone();
    let workloads: Api<AgentWorkload> = Api::all(client.clone());
    let workflows: Api<DynamicObject> = Api::all_with(client, &workflow_kind());
    let ours = watcher::Config::default().labels(WORKLOAD);
    let controller = Controller::new(workloads, watcher::Config::default());
    let (known, platform) = (controller.store(), context.options.namespace.clone());
    let policies: Api<ConfigMap> = Api::all(context.client.clone());
    let run = controller
        .with_config(Config::default().concurrency(AT_ONCE))
        .watches_with(workflows, workflow_kind(), ours, |workflow| {
            let label = |name: &str| workflow.labels().get(name).cloned();
            let named = label(WORKLOAD).zip(label(WORKLOAD_NAMESPACE));
            named.map(|(name, namespace)| ObjectRef::new(&name).within(&namespace))
        })
        .watches(policies, watcher::Config::default().labels(kept::LABEL), move |map| {
            let changed = map.namespace().unwrap_or_default();
            let concerns = |workload: &AgentWorkload| {
                let denied = workload.status.as_ref().is_some_and(|status| status.phase == Phase::PolicyDenied);
                denied && (changed == platform || workload.namespace().as_deref() == Some(changed.as_str()))
            };
            let concerned: Vec<_> = known.state().into_iter().filter(|workload| concerns(workload)).collect();
            concerned.into_iter().map(|workload| ObjectRef::from_obj(&*workload))
        })
        .graceful_shutdown_on(async move { stop.cancelled().await })
        .run(reconcile, failed, context)
        .for_each(|_| std::future::ready(()));
    tasks.spawn("workloads", run);
}

/// The kind of a Workflow.
pub(super) fn workflow_kind() -> ApiResource {
    kind("Workflow", "workflows")
}

fn kind(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("argoproj.io", "v1alpha1", kind), plural)
}

#[expect(clippy::needless_pass_by_value, reason = "it is called so")]
fn failed(workload: Arc<AgentWorkload>, error: &kube::Error, context: Arc<Context>) -> Action {
    context.metrics.errors.inc();
    tracing::warn!(workload = workload.name_any(), %error, "looking at a workload failed");
    Action::requeue(RETRY)
}

async fn reconcile(workload: Arc<AgentWorkload>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let (name, namespace) = create::place(&workload);
    let workflows: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &namespace, &workflow_kind());
    let workflow = workflows.get_opt(&name).await?.map(|found| json!(found));
    let template = match create::template(&workload) {
        Some(template) if workflow.is_none() => {
            let kind = kind("WorkflowTemplate", "workflowtemplates");
            let templates: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &namespace, &kind);
            templates.get_metadata_opt(&template).await?.is_some()
        }
        _ => false,
    };
    let pods = match &workflow {
        Some(found) => ended_pods(&context.client, &namespace, &name, &found["metadata"]["uid"]).await?,
        None => Vec::new(),
    };
    let now = context.clock.now();
    let argo = workflow.is_none() && argo_runs(&context).await;
    let seen = Seen {
        workload: &workload,
        workflow: workflow.as_ref(),
        template,
        pods: &pods,
        argo,
        services: &context.options.services,
        now,
    };
    let mut planned = plan(&seen);
    for ask in std::mem::take(&mut planned.asks) {
        let recorded = decide(&workload, ask, &context).await?;
        if !learn(&mut planned.status, recorded) {
            continue;
        }
        // What follows from it is planned from what is stored.
        planned.effects.clear();
        planned.wake = Some(now);
    }
    let mut current = (*workload).clone();
    if let Some(version) = write(&workload, &mut planned, &context).await? {
        current.metadata.resource_version = Some(version);
    }
    for effect in std::mem::take(&mut planned.effects) {
        act(&current, effect, &workflows, &context).await?;
    }
    Ok(match planned.wake {
        Some(at) => Action::requeue(Duration::try_from(at.duration_since(now)).unwrap_or_default()),
        None => Action::await_change(),
    })
}

/// Asks the policies, and makes a record of it.
async fn decide(workload: &AgentWorkload, ask: Ask, context: &Context) -> Result<Recorded, kube::Error> {
    let own = workload.namespace().unwrap_or_default();
    let set = workload.spec.opa_policy.unwrap_or_default();
    let modules = kept::find(&context.client, &context.options.namespace, &own, set).await?;
    let answer = context.options.judge.judge(Question { modules, input: ask.input.clone(), explain: false }).await;
    let rule = matches!(answer, Answer::Decided(_)).then(|| QUERY.to_owned());
    // A gate closes for good: what kept it from being judged is a policy's word on it.
    let rule = rule.or_else(|| (ask.stage == super::kind::Stage::Gate).then(|| QUERY.to_owned()));
    let decision = answer.decision();
    let stage = match ask.stage {
        super::kind::Stage::Start => "start",
        super::kind::Stage::Gate => "gate",
    };
    context.metrics.decisions.get_or_create(&Decided { stage, allow: decision.allow }).inc();
    Ok(Recorded {
        stage: ask.stage,
        gate: ask.gate,
        allow: decision.allow,
        reason: decision.reason,
        by: "policy".to_owned(),
        rule,
        input: Some(ask.input),
        workflow: workload.status.as_ref().and_then(|status| status.argo_workflow.as_ref()?.uid.clone()),
        at: Time(context.clock.now()),
    })
}

/// Writes the status, if it is another, and says which version it has then; nobody else's write in between is lost, since
/// the version must be the one that was read.
async fn write(
    workload: &AgentWorkload,
    planned: &mut Planned,
    context: &Context,
) -> Result<Option<String>, kube::Error> {
    let before = workload.status.clone().unwrap_or_default();
    history::bound(&mut planned.status);
    if planned.status == before || workload.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    planned.status.last_reconcile_time = Some(Time(context.clock.now()));
    let api: Api<AgentWorkload> = Api::namespaced(context.client.clone(), &workload.namespace().unwrap_or_default());
    let mut next = workload.clone();
    next.status = Some(planned.status.clone());
    let written = match api.replace_status(&workload.name_any(), &PostParams::default(), &next).await {
        Err(error) if is_too_large(&error) => {
            tracing::warn!(workload = workload.name_any(), %error, "a status is too large, leaving out what can be");
            history::least(&mut planned.status);
            let last = planned.status.last_reconcile_time.take();
            let mut known = before.clone();
            known.last_reconcile_time = None;
            if planned.status == known {
                return Ok(None);
            }
            planned.status.last_reconcile_time = last;
            next.status = Some(planned.status.clone());
            api.replace_status(&workload.name_any(), &PostParams::default(), &next).await?
        }
        written => written?,
    };
    if before.phase != planned.status.phase {
        tell(workload, &planned.status, context).await;
    }
    if let Some(unused) = unused::told(&before, &planned.status) {
        publish(workload, EventType::Warning, unused::CONDITION, Some(unused.to_owned()), context).await;
    }
    Ok(written.resource_version())
}

/// An Event about a new phase.
async fn tell(workload: &AgentWorkload, status: &AgentWorkloadStatus, context: &Context) {
    let phase = format!("{:?}", status.phase);
    if status.phase.ended() {
        context.metrics.ended.get_or_create(&[("phase", phase.clone())]).inc();
    }
    let bad = matches!(phase.as_str(), "Failed" | "PolicyDenied");
    let type_ = if bad { EventType::Warning } else { EventType::Normal };
    publish(workload, type_, &phase, status.message.clone(), context).await;
}

/// An Event; it is no harm if nobody hears of it.
async fn publish(workload: &AgentWorkload, type_: EventType, reason: &str, note: Option<String>, context: &Context) {
    let event = Event { type_, reason: reason.to_owned(), note, action: "Reconcile".to_owned(), secondary: None };
    let about: ObjectReference = workload.object_ref(&());
    if let Err(error) = context.recorder.publish(&event, &about).await {
        tracing::debug!(%error, "an event could not be written");
    }
}

async fn act(
    workload: &AgentWorkload,
    effect: Effect,
    workflows: &Api<DynamicObject>,
    context: &Context,
) -> Result<(), kube::Error> {
    let (name, _) = create::place(workload);
    match effect {
        Effect::Hold => finalizers(workload, context, true).await,
        Effect::Release => finalizers(workload, context, false).await,
        Effect::Create(made) => {
            let made: DynamicObject = serde_json::from_value(made).map_err(kube::Error::SerdeError)?;
            match workflows.create(&PostParams::default(), &made).await {
                // Somebody's of that name: the next look says whose.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                done => done.map(drop),
            }
        }
        Effect::Delete => match workflows.delete(&name, &DeleteParams::foreground()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            done => done.map(drop),
        },
        Effect::Stop => {
            let stop = json!({"spec": {"shutdown": "Terminate"}});
            workflows.patch(&name, &PatchParams::default(), &Patch::Merge(stop)).await.map(drop)
        }
        Effect::Gate { node, allow, message } => {
            gate::set(workflows, &name, &node, allow, &message, &context.clock).await
        }
    }
}

async fn finalizers(workload: &AgentWorkload, context: &Context, hold: bool) -> Result<(), kube::Error> {
    let mut names: Vec<String> = workload.finalizers().to_vec();
    names.retain(|name| name != FINALIZER);
    if hold {
        names.push(FINALIZER.to_owned());
    }
    let api: Api<AgentWorkload> = Api::namespaced(context.client.clone(), &workload.namespace().unwrap_or_default());
    let patch = json!({"metadata": {"finalizers": names, "resourceVersion": workload.resource_version()}});
    api.patch(&workload.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

/// The pods of a Workflow that have ended.
async fn ended_pods(
    client: &Client,
    namespace: &str,
    workflow: &str,
    uid: &Value,
) -> Result<Vec<EndedPod>, kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let of = ListParams::default().labels(&format!("workflows.argoproj.io/workflow={workflow}"));
    let list = pods.list(&of).await?;
    // What an earlier one of that name left is not its own.
    let is_own = |pod: &Pod| {
        let mut owners = pod.owner_references().iter().filter(|owner| owner.kind == "Workflow").peekable();
        owners.peek().is_none() || owners.any(|owner| uid.as_str() == Some(&owner.uid))
    };
    Ok(list.into_iter().filter(is_own).filter_map(|pod| ended(&pod)).collect())
}

fn ended(pod: &Pod) -> Option<EndedPod> {
    let status = pod.status.as_ref()?;
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")).then_some(())?;
    let node = pod.annotations().get("workflows.argoproj.io/node-id")?.clone();
    let terminated = status.container_statuses.iter().flatten().filter_map(|it| it.state.as_ref()?.terminated.as_ref());
    let at = terminated.filter_map(|it| it.finished_at.as_ref()).map(|at| at.0).max()?;
    Some(EndedPod { node, name: pod.name_any(), at })
}

/// Whether a controller of Argo's is here: one that renews its lease, or, since one that starts again or leads alone does
/// not, one that is deployed. What may not be listed is thought not to be there.
async fn argo_runs(context: &Context) -> bool {
    argo_leads(context).await || argo_is_deployed(&context.client).await
}

async fn argo_is_deployed(client: &Client) -> bool {
    let deployments: Api<Deployment> = Api::all(client.clone());
    // Argo's own manifests name it and do not label it; its chart does the opposite.
    for chosen in [
        ListParams::default().fields("metadata.name=workflow-controller"),
        ListParams::default().labels("app=workflow-controller"),
    ] {
        let Ok(list) = deployments.list(&chosen).await else { continue };
        if list.iter().any(is_wanted) {
            return true;
        }
    }
    false
}

/// Whether a deployment is to have a pod at all.
fn is_wanted(deployment: &Deployment) -> bool {
    deployment.spec.as_ref().is_some_and(|spec| spec.replicas != Some(0))
}

async fn argo_leads(context: &Context) -> bool {
    let leases: Api<Lease> = Api::all(context.client.clone());
    let Ok(list) = leases.list(&ListParams::default().fields("metadata.name=workflow-controller")).await else {
        return false;
    };
    let now = context.clock.now();
    list.into_iter().any(|lease| {
        let renewed = lease.spec.and_then(|spec| spec.renew_time);
        renewed.is_some_and(|at| now.duration_since(at.0) < ARGO_LEASE)
    })
}

/// Records a person's answer to a gate, unless the workload has changed since it was read.
pub async fn answer(
    api: &Api<AgentWorkload>,
    workload: &AgentWorkload,
    answer: GateAnswer,
) -> Result<AgentWorkload, kube::Error> {
    let mut all = workload.spec.gate_answers.clone();
    all.push(answer);
    let patch = json!({"metadata": {"resourceVersion": workload.resource_version()}, "spec": {"gateAnswers": all}});
    api.patch(&workload.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await
}
