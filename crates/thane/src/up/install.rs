//! What every server of `thane up` has from the start: kinds and namespaces.

use std::time::Duration;

use futures::future::{try_join, try_join_all};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use thane_api::{code, kinds};
use thane_apiserver::ApiServer;
use thane_apiserver::authz::{MASTERS, User};

use crate::failure::Failure;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACES: &str = "/api/v1/namespaces";
/// A kind takes milliseconds to be served; this long means that it never will be.
const PATIENCE: Duration = Duration::from_secs(30);
/// Rights take about as long.
const SOON: Duration = Duration::from_millis(2);

/// Creates what is absent, leaves alone what is there, and waits until all kinds are served.
pub(super) async fn install(server: &ApiServer, namespaces: &[String]) -> Result<(), Failure> {
    let client = server.client(process(), "default");
    let definitions = kinds::definitions().into_iter().chain(thane_sandbox::definitions());
    let definitions = definitions.chain([thane_workload::agent::definition::definition()]);
    let kinds = try_join_all(definitions.map(|object| define(&client, object)));
    let namespaces = try_join_all(namespaces.iter().map(|name| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(&client, NAMESPACES, object)
    }));
    match tokio::time::timeout(PATIENCE, try_join(kinds, namespaces)).await {
        Ok(installed) => installed.map(|_| ()),
        Err(_) => Err(Failure::new(code::TASK_FAILED, "the kinds it should have are not served")),
    }
}

/// This process as a user, who may do everything, as the audit log shows it.
pub(super) fn process() -> User {
    let groups = vec![MASTERS.to_owned(), "system:authenticated".to_owned()];
    User { name: "system:thane".to_owned(), groups, ..User::default() }
}

/// A service account that a role has.
pub(super) struct Account {
    pub(super) namespace: &'static str,
    pub(super) name: &'static str,
    /// What it can read once its rights count.
    pub(super) may: &'static str,
}

impl Account {
    fn user(&self) -> User {
        let Self { namespace, name, .. } = self;
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        let groups = groups.into_iter().chain(["system:authenticated".to_owned()]).collect();
        User { name: format!("system:serviceaccount:{namespace}:{name}"), groups, ..User::default() }
    }
}

/// Gives a role exactly the rights that `deploy/` gives it, so that a missing one shows here and not first on Kubernetes.
pub(super) async fn grant(client: &Client, rights: &str) -> Result<(), Failure> {
    let objects: Vec<Value> =
        serde_saphyr::from_multiple(rights).map_err(|error| Failure::new(code::BUG, error.to_string()))?;
    for object in objects {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let (group, resource) = match kind {
            "ServiceAccount" => ("api/v1", "serviceaccounts".to_owned()),
            _ => ("apis/rbac.authorization.k8s.io/v1", format!("{}s", kind.to_lowercase())),
        };
        let within = match text("/metadata/namespace") {
            "" => String::new(),
            namespace => format!("namespaces/{namespace}/"),
        };
        let path = format!("/{group}/{within}{resource}/{name}?fieldManager=thane&force=true");
        let apply = http::Request::patch(&path)
            .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml")
            .body(object.to_string().into_bytes());
        let applied = client.request::<Value>(request(apply)?).await;
        applied.map_err(|error| Failure::from(error).about(&path))?;
    }
    Ok(())
}

/// A client of a service account that has been given rights, once they count: servers learn of rights as of any object.
pub(super) async fn entitled(server: &ApiServer, account: &Account) -> Result<Client, Failure> {
    let (client, name, path) = (server.client(account.user(), account.namespace), account.name, account.may);
    let allowed = async {
        loop {
            let get = http::Request::get(path).body(Vec::new());
            match client.request::<Value>(request(get)?).await {
                Err(kube::Error::Api(status)) if status.code == 403 => tokio::time::sleep(SOON).await,
                Err(error) => return Err(Failure::from(error).about(name)),
                Ok(_) => return Ok(()),
            }
        }
    };
    match tokio::time::timeout(PATIENCE, allowed).await {
        Ok(allowed) => allowed.map(|()| client),
        Err(_) => Err(Failure::new(code::TASK_FAILED, format!("the rights of {name} do not count"))),
    }
}

async fn define(client: &Client, definition: Value) -> Result<(), Failure> {
    let object = ensure(client, DEFINITIONS, definition).await?;
    if is_established(&object) {
        return Ok(());
    }
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let waited = await_condition(api, name, conditions::is_crd_established()).await;
    waited.map(|_| ()).map_err(|error| Failure::new(code::TASK_FAILED, format!("wait for the kind {name}: {error}")))
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Established" && one["status"] == "True"))
}

/// The object of that name, created if there is none.
pub(super) async fn ensure(client: &Client, path: &str, object: Value) -> Result<Value, Failure> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let get = || http::Request::get(format!("{path}/{name}")).body(Vec::new());
    let answer = match client.request(request(get())?).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let post = http::Request::post(format!("{path}?fieldManager=thane"))
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(object.to_string().into_bytes());
            match client.request(request(post)?).await {
                // Someone else was faster.
                Err(kube::Error::Api(status)) if status.code == 409 => client.request(request(get())?).await,
                answer => answer,
            }
        }
        answer => answer,
    };
    answer.map_err(|error| Failure::from(error).about(&format!("{path}/{name}")))
}

fn request(built: http::Result<http::Request<Vec<u8>>>) -> Result<http::Request<Vec<u8>>, Failure> {
    built.map_err(|error| Failure::new(code::BUG, format!("build a request: {error}")))
}
