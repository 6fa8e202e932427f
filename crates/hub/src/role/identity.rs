//! The hub's persistent id, by which agents notice that another hub has taken over.

use http::Request;
use kube::Client;
use serde_json::{Value, json};

const NAME: &str = "argocd-agent-principal-identity";
const KEY: &str = "principal-uid";

/// Reads the hub's id, or makes one from `fresh` and keeps it.
pub async fn principal_uid(client: &Client, namespace: &str, fresh: &str) -> Result<String, kube::Error> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let get = || Request::get(format!("{path}/{NAME}")).body(Vec::new()).map_err(kube::Error::HttpError);
    match client.request::<Value>(get()?).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        answer => return answer.map(|map| text(&map)),
    }
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": namespace}, "data": {KEY: fresh},
    });
    let post = Request::post(&path).header("content-type", "application/json").body(map.to_string().into_bytes());
    match client.request::<Value>(post.map_err(kube::Error::HttpError)?).await {
        // Another hub was faster: its id is ours.
        Err(kube::Error::Api(status)) if status.code == 409 => client.request(get()?).await.map(|map| text(&map)),
        answer => answer.map(|map| text(&map)),
    }
}

fn text(map: &Value) -> String {
    map["data"][KEY].as_str().unwrap_or_default().to_owned()
}
