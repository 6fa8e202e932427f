//! Pools: what is said of them, and the objects they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use http::StatusCode;
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::Shared;
use super::bodies::{CreatePool, PatchPool, PoolCondition, PoolCreated, PoolInfo};
use super::create::{Created, name};
use super::failure::{Failure, Result};
use super::keys::Caller;
use super::read::{Asked, At, Json};
use super::routes::InNamespace;
use crate::kinds::{WarmPool, WarmPoolSpec};
use crate::names::WORKSPACE;

/// Idle sandboxes of a pool, unless it is said.
const REPLICAS: i32 = 2;
/// The container that steps run in.
const CONTAINER: &str = "executor";

impl Shared {
    fn pools(&self, caller: &Caller, namespace: Option<String>) -> Result<(Api<WarmPool>, String)> {
        let namespace = namespace.unwrap_or_else(|| self.options.namespace.clone());
        name("namespace", &namespace)?;
        caller.in_namespace(&namespace)?;
        Ok((Api::namespaced(self.client.clone(), &namespace), namespace))
    }
}

pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<CreatePool>,
) -> Created<PoolCreated> {
    let (api, _) = shared.pools(&caller, body.namespace.clone())?;
    name("name", &body.name)?;
    let title = body.name.clone();
    api.create(&PostParams::default(), &pool(body)?).await.map_err(|error| about(&title, error))?;
    Ok((StatusCode::CREATED, axum::Json(PoolCreated { name: title, status: "created".to_owned() })))
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
) -> Result<axum::Json<Vec<PoolInfo>>> {
    let (api, _) = shared.pools(&caller, namespace)?;
    let pools = api.list(&ListParams::default()).await?;
    Ok(axum::Json(pools.items.iter().map(info).collect()))
}

pub(super) async fn get(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(title): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
) -> Result<axum::Json<PoolInfo>> {
    let (api, _) = shared.pools(&caller, namespace)?;
    name("name", &title)?;
    Ok(axum::Json(info(&api.get(&title).await.map_err(|error| about(&title, error))?)))
}

pub(super) async fn patch(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(title): At,
    Asked(asked): Asked<InNamespace>,
    Json(body): Json<PatchPool>,
) -> Result<axum::Json<PoolInfo>> {
    let (api, _) = shared.pools(&caller, body.namespace.or(asked.namespace))?;
    name("name", &title)?;
    let mut spec = json!({});
    if let Some(replicas) = not_negative("replicas", body.replicas)? {
        spec["replicas"] = replicas.into();
    }
    if let Some(resources) = body.resources {
        // A list is replaced as a whole: the other fields of its container have to be known.
        let current = api.get(&title).await.map_err(|error| about(&title, error))?;
        let mut template = current.spec.template;
        if let Some(container) = template.spec.as_mut().and_then(|spec| spec.containers.first_mut()) {
            container.resources = Some(resources);
        }
        spec["template"] = json!(template);
    }
    let patch = Patch::Merge(json!({"spec": spec}));
    let patched = api.patch(&title, &PatchParams::default(), &patch).await.map_err(|error| about(&title, error))?;
    Ok(axum::Json(info(&patched)))
}

pub(super) async fn delete(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    At(title): At,
    Asked(InNamespace { namespace }): Asked<InNamespace>,
) -> Result<StatusCode> {
    let (api, _) = shared.pools(&caller, namespace)?;
    name("name", &title)?;
    api.delete(&title, &DeleteParams::default()).await.map_err(|error| about(&title, error))?;
    Ok(StatusCode::NO_CONTENT)
}

fn about(title: &str, error: kube::Error) -> Failure {
    match &error {
        kube::Error::Api(status) if status.code == 404 => Failure::absent(format!("there is no pool {title:?}")),
        kube::Error::Api(status) if status.code == 409 => {
            Failure::conflict(format!("there is a pool {title:?} already")).with_detail(status.message.clone())
        }
        _ => error.into(),
    }
}

/// A number of sandboxes that is not negative.
pub(super) fn not_negative(field: &str, number: Option<i32>) -> Result<Option<i32>> {
    match number {
        Some(..0) => Err(Failure::bad(format!("{field}: it is negative"))),
        number => Ok(number),
    }
}

/// A pool as an object.
pub(super) fn pool(body: CreatePool) -> Result<WarmPool> {
    if body.image.trim().is_empty() {
        return Err(Failure::bad("image: it is empty"));
    }
    let container = Container {
        name: CONTAINER.to_owned(),
        image: Some(body.image),
        working_dir: Some(body.workspace_dir.unwrap_or_else(|| WORKSPACE.to_owned())),
        resources: Some(body.resources.unwrap_or_else(resources)),
        ..Container::default()
    };
    let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
    let spec = WarmPoolSpec {
        replicas: not_negative("replicas", body.replicas)?.unwrap_or(REPLICAS),
        max_replicas: not_negative("maxReplicas", body.max_replicas)?,
        template: PodTemplateSpec { metadata: None, spec: Some(spec) },
        tools: body.tools,
        image_locality: body.image_locality,
    };
    Ok(WarmPool::new(&body.name, spec))
}

/// What a sandbox may use, unless it is said.
fn resources() -> ResourceRequirements {
    let quantities = |cpu: &str, memory: &str| {
        let pairs = [("cpu", cpu), ("memory", memory)];
        Some(
            pairs
                .map(|(name, text)| (name.to_owned(), Quantity(text.to_owned())))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
        )
    };
    let (requests, limits) = (quantities("100m", "128Mi"), quantities("1", "1Gi"));
    ResourceRequirements { requests, limits, ..ResourceRequirements::default() }
}

fn info(pool: &WarmPool) -> PoolInfo {
    let status = pool.status.clone().unwrap_or_default();
    let conditions = status.conditions.into_iter().map(|condition| PoolCondition {
        kind: condition.type_,
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
    });
    PoolInfo {
        name: pool.name_any(),
        namespace: pool.namespace().unwrap_or_default(),
        replicas: pool.spec.replicas,
        ready_replicas: status.ready_replicas,
        allocated_replicas: status.allocated_replicas,
        conditions: conditions.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::parse;
    use super::*;

    #[test]
    fn a_pool_has_upstreams_defaults() {
        let made = pool(parse(br#"{"name": "p", "image": "host"}"#).unwrap()).unwrap();
        let spec = serde_json::to_value(&made.spec).unwrap();
        let container = &spec["template"]["spec"]["containers"][0];
        assert_eq!((&spec["replicas"], &container["image"]), (&json!(2), &json!("host")));
        assert_eq!(container["workingDir"], "/workspace");
        assert_eq!(container["resources"]["limits"], json!({"cpu": "1", "memory": "1Gi"}));
        for wrong in [
            &br#"{"name": "p", "image": "host", "replicas": -1}"#[..],
            br#"{"name": "p", "image": " "}"#,
            br#"{"name": "p", "image": "host", "maxReplicas": -1}"#,
        ] {
            assert_eq!(pool(parse(wrong).unwrap()).unwrap_err().status.as_u16(), 400);
        }
    }
}
