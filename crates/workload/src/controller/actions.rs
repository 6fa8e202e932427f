//! What people do to Workflows: edits of the object, as Argo's own commands make them.

mod again;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::runtime::conditions::is_deleted;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::argo;
use super::store::{Stored, text};
use crate::engine::take_defaults;
use crate::spec::{AnyString, Parameter};
use crate::status::packed::{PLAIN_MAX, packed};
use crate::status::{Moment, NodePhase, NodeStatus, WorkflowStatus};
use crate::steps::names::pod_name;
pub use again::{memoized, resubmitted};

/// How often an edit is tried when others edit, too.
const TRIES: usize = 5;
/// Pods and results that a retry removes are gone by then.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start nothing more.
    Suspend,
    /// Go on: the whole Workflow, or the waits that are selected.
    Resume {
        /// Which waits; all if empty.
        nodes: Selector,
        /// What to say about it.
        message: String,
    },
    /// End it, but run exit handlers; or end the waits that are selected.
    Stop {
        /// Which waits; the whole Workflow if empty.
        nodes: Selector,
        /// What to say about it.
        message: String,
    },
    /// End it at once.
    Terminate,
    /// Try what failed again.
    Retry,
    /// Set outputs, phase or message of waits.
    Set {
        /// Which waits.
        nodes: Selector,
        /// Outputs by name.
        outputs: Vec<(String, String)>,
        /// Their phase.
        phase: Option<NodePhase>,
        /// Their message.
        message: String,
    },
}

/// Fields that nodes must have: `displayName=gate,templateName=wait`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Vec<(String, String)>);

impl std::str::FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pairs = text.split(',').filter(|part| !part.trim().is_empty()).map(|part| {
            let (field, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not FIELD=VALUE"))?;
            Ok((field.trim().to_owned(), value.trim_start_matches('=').trim().to_owned()))
        });
        pairs.collect::<Result<Vec<_>, String>>().map(Self)
    }
}

impl Selector {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn matches(&self, node: &NodeStatus) -> bool {
        self.0.iter().all(|(field, value)| {
            let of_input = field.strip_prefix("inputs.parameters.").and_then(|rest| rest.strip_suffix(".value"));
            let input = of_input.and_then(|name| node.inputs.as_ref()?.parameter(name)?.value.clone());
            let has = match field.as_str() {
                "displayName" => node.display_name.clone(),
                "templateName" => node.template_name.clone(),
                "phase" => node.phase.word().to_owned(),
                "name" => node.name.clone(),
                "id" => node.id.clone(),
                "templateRef.name" => node.template_ref.as_ref().map(|other| other.name.clone()).unwrap_or_default(),
                "templateRef.template" => {
                    node.template_ref.as_ref().map(|other| other.template.clone()).unwrap_or_default()
                }
                _ => input.map(|value| value.as_str().to_owned()).unwrap_or_default(),
            };
            has == *value
        })
    }
}

/// Why something cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Workflow does not allow it.
    #[error("{0}")]
    Refused(String),
    /// The API does not.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// Others edit it all the time.
    #[error("the workflow kept changing")]
    Busy,
    /// Old pods do not go.
    #[error("pods of the last attempt are still there")]
    Remains,
}

/// An edit that was thought out.
#[derive(Debug)]
pub struct Edited {
    /// The whole object.
    pub object: Value,
    /// Nodes to be run again: ids, and names of their pods.
    pub removed: Vec<(String, String)>,
}

/// Does something to a Workflow.
pub async fn act(
    client: &Client,
    namespace: &str,
    name: &str,
    action: &Action,
    now: impl Fn() -> Timestamp,
) -> Result<Value, Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &argo("Workflow"));
    for _ in 0..TRIES {
        let object = serde_json::to_value(api.get(name).await?).map_err(kube::Error::SerdeError)?;
        let edited = edited(object, action, now()).map_err(Error::Refused)?;
        clear(client, namespace, &edited.removed).await?;
        let object: DynamicObject = serde_json::from_value(edited.object).map_err(kube::Error::SerdeError)?;
        match api.replace(name, &PostParams::default(), &object).await {
            Ok(written) => return Ok(serde_json::to_value(written).map_err(kube::Error::SerdeError)?),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Busy)
}

/// Removes what nodes that run again have left, before they can.
async fn clear(client: &Client, namespace: &str, removed: &[(String, String)]) -> Result<(), Error> {
    let results: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &argo("WorkflowTaskResult"));
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    for (id, pod) in removed {
        absent_is_fine(results.delete(id, &DeleteParams::default()).await.map(drop))?;
        let Some(found) = pods.get_opt(pod).await? else { continue };
        absent_is_fine(pods.delete(pod, &DeleteParams::default().grace_period(0)).await.map(drop))?;
        let uid = found.metadata.uid.unwrap_or_default();
        let gone = await_condition(pods.clone(), pod, is_deleted(&uid));
        tokio::time::timeout(PATIENCE, gone).await.map_err(|_| Error::Remains)?.map_err(|_| Error::Remains)?;
    }
    Ok(())
}

fn absent_is_fine(done: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        done => done,
    }
}

/// The object after an action.
pub fn edited(object: Value, action: &Action, now: Timestamp) -> Result<Edited, String> {
    let read = Stored::read(object);
    let (mut object, mut status) = (read.object, read.status?);
    let name = text(&object, "/metadata/name").to_owned();
    let ended = status.phase.is_completed();
    let mut removed = Vec::new();
    match action {
        Action::Suspend | Action::Terminate | Action::Stop { .. } if ended => {
            return Err(format!("workflow {name} has already ended"));
        }
        Action::Suspend => object["spec"]["suspend"] = json!(true),
        Action::Terminate => object["spec"]["shutdown"] = json!("Terminate"),
        Action::Stop { nodes, .. } if nodes.is_empty() => object["spec"]["shutdown"] = json!("Stop"),
        Action::Stop { nodes, message } => set(&mut status, nodes, &[], Some(NodePhase::Failed), message, now)?,
        Action::Resume { nodes, message } => {
            if nodes.is_empty()
                && let Some(spec) = object["spec"].as_object_mut()
            {
                spec.remove("suspend");
            }
            let waits = status.nodes.iter().any(NodeStatus::is_waiting);
            if waits || !nodes.is_empty() {
                set(&mut status, nodes, &[], Some(NodePhase::Succeeded), message, now)?;
            }
        }
        Action::Set { nodes, outputs, phase, message } => set(&mut status, nodes, outputs, *phase, message, now)?,
        Action::Retry => {
            for (id, node, template) in again::retried(&name, &mut status, now)? {
                removed.push((id, pod_name(&name, &template, &node)));
            }
            again::reopened(&mut object);
        }
    }
    let status = packed(&status, PLAIN_MAX).map_err(|error| error.to_string())?;
    object["status"] = serde_json::to_value(status).map_err(|error| error.to_string())?;
    Ok(Edited { object, removed })
}

/// Sets outputs, phase and message of waits.
fn set(
    status: &mut WorkflowStatus,
    nodes: &Selector,
    outputs: &[(String, String)],
    phase: Option<NodePhase>,
    message: &str,
    now: Timestamp,
) -> Result<(), String> {
    let mut globals: Vec<Parameter> = Vec::new();
    let mut found = false;
    for node in status.nodes.iter_mut().filter(|node| node.is_waiting() && nodes.matches(node)) {
        found = true;
        for (name, value) in outputs {
            let parameters = node.outputs.iter_mut().flat_map(|outputs| &mut outputs.parameters);
            let Some(parameter) = parameters.into_iter().find(|one| one.name == *name) else {
                return Err(format!("node has no output parameter {name:?}"));
            };
            (parameter.value, parameter.value_from) = (Some(AnyString::from(value.as_str())), None);
            if !parameter.global_name.is_empty() {
                globals.push(Parameter {
                    name: parameter.global_name.clone(),
                    value: parameter.value.clone(),
                    ..Parameter::default()
                });
            }
        }
        if !message.is_empty() {
            node.message =
                if node.message.is_empty() { message.to_owned() } else { format!("{}; {message}", node.message) };
        }
        if let Some(phase) = phase {
            if phase == NodePhase::Succeeded
                && let Some(outputs) = &mut node.outputs
            {
                take_defaults(outputs)?;
            }
            node.phase = phase;
            if phase.is_fulfilled() {
                node.finished_at = Moment::of(now);
            }
        }
    }
    if !found {
        return Err("currently, set only targets suspend nodes: no suspend nodes matching nodeFieldSelector".to_owned());
    }
    for global in globals {
        let all = &mut status.outputs.get_or_insert_with(Default::default).parameters;
        all.retain(|one| one.name != global.name);
        all.push(global);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
