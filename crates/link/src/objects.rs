//! Writes to a Kubernetes API, as the protocol plans them.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, header};
use kube::Client;
use serde_json::{Value, json};
use thane_sync::failure::Class;
use thane_sync::mapping::Propagation;
use thane_sync::object::{Key, Kind, Object};
use thane_sync::work::{Failure, Outcome, Write};
use tokio::sync::Semaphore;

use crate::rights::explain;

const CREATE: &str = "create";

/// A Kubernetes API to write to.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    manager: &'static str,
    timeout: Duration,
    permits: Arc<Semaphore>,
    /// What one of many may take of them.
    share: Option<Arc<Semaphore>>,
}

/// Where objects of a kind are, in one namespace or in all.
pub fn collection(kind: Kind, namespace: Option<&str>) -> String {
    let (group, plural) = match kind {
        Kind::Application => ("/apis/argoproj.io/v1alpha1", "applications"),
        Kind::AppProject => ("/apis/argoproj.io/v1alpha1", "appprojects"),
        Kind::Repository => ("/api/v1", "secrets"),
    };
    match namespace {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
        None => format!("{group}/{plural}"),
    }
}

/// An object without who wrote which field of it, which nobody here asks and which is often the larger half.
pub fn slim(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

impl Objects {
    /// Writes through that client under that name, at most `concurrency` at once, each within `timeout`.
    pub fn new(client: Client, manager: &'static str, concurrency: usize, timeout: Duration) -> Self {
        Self { client, manager, timeout, permits: Arc::new(Semaphore::new(concurrency)), share: None }
    }

    /// The same API for one of many who write to it, with at most that many of the writes.
    #[must_use]
    pub fn share(&self, concurrency: usize) -> Self {
        Self { share: Some(Arc::new(Semaphore::new(concurrency.max(1)))), ..self.clone() }
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Carries out a write and says how it ended.
    pub async fn write(&self, key: &Key, write: Write) -> Outcome {
        let share = self.share.as_ref().map(|share| share.acquire());
        let _share = match share {
            Some(share) => share.await.ok(),
            None => None,
        };
        let Ok(_permit) = self.permits.acquire().await else { return failed(Class::Temporary, "stopping") };
        let attempt = tokio::time::timeout(self.timeout, self.attempt(key, write)).await;
        attempt.unwrap_or_else(|_| failed(Class::Temporary, format!("no answer within {:?}", self.timeout)))
    }

    async fn attempt(&self, key: &Key, write: Write) -> Outcome {
        let path = format!("{}/{}", collection(key.kind, Some(&key.namespace)), key.name);
        let is_create = matches!(write, Write::Create(_));
        let is_delete = matches!(write, Write::Delete { .. });
        let verb = match &write {
            Write::Create(_) => CREATE,
            Write::Replace(_) => "update",
            Write::Delete { .. } => "delete",
        };
        let answer = match write {
            Write::Create(object) => {
                let path = collection(key.kind, Some(&key.namespace));
                self.send(Method::POST, &format!("{path}?fieldManager={}", self.manager), Some(typed(key.kind, object)))
                    .await
            }
            Write::Replace(object) => {
                self.send(Method::PUT, &format!("{path}?fieldManager={}", self.manager), Some(typed(key.kind, object)))
                    .await
            }
            Write::Delete { uid, propagation } => {
                let options = json!({
                    "apiVersion": "v1", "kind": "DeleteOptions",
                    "preconditions": {"uid": uid}, "propagationPolicy": propagation_name(propagation),
                });
                self.send(Method::DELETE, &path, Some(options)).await
            }
        };
        match answer {
            Ok(object) if is_delete => after_delete(object),
            Ok(object) => Outcome::Written(Arc::new(slim(object))),
            Err(kube::Error::Api(status)) if status.code == 404 && is_delete => Outcome::Gone,
            Err(kube::Error::Api(status)) if status.code == 409 || (status.code == 404 && !is_create) => {
                self.stale(&path, &status.message).await
            }
            Err(error) => classify(&error, verb, &path),
        }
    }

    /// What is there instead of what a write was planned on.
    async fn stale(&self, path: &str, reason: &str) -> Outcome {
        match self.send(Method::GET, path, None).await {
            Ok(object) => Outcome::Stale(Some(Arc::new(slim(object)))),
            Err(kube::Error::Api(status)) if status.code == 404 => Outcome::Stale(None),
            Err(error) => match classify(&error, "get", path) {
                Outcome::Failed(failure) => failed(failure.class, format!("{reason}; then {}", failure.message)),
                outcome => outcome,
            },
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, kube::Error> {
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.client.request(request.body(body).map_err(kube::Error::HttpError)?).await
    }

    /// Makes sure that a namespace is there.
    pub async fn ensure_namespace(&self, name: &str, labels: &Value) -> Result<(), kube::Error> {
        let silent = || kube::Error::Service(format!("no answer within {:?}", self.timeout).into());
        tokio::time::timeout(self.timeout, self.make_namespace(name, labels)).await.unwrap_or_else(|_| Err(silent()))
    }

    async fn make_namespace(&self, name: &str, labels: &Value) -> Result<(), kube::Error> {
        match self.send(Method::GET, &format!("/api/v1/namespaces/{name}"), None).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            answer => return answer.map(|_| ()),
        }
        let metadata = json!({"name": name, "labels": labels});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        match self.send(Method::POST, "/api/v1/namespaces", Some(namespace)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            answer => answer.map(|_| ()),
        }
    }
}

fn typed(kind: Kind, mut object: Value) -> Value {
    let (version, kind) = match kind {
        Kind::Application => ("argoproj.io/v1alpha1", "Application"),
        Kind::AppProject => ("argoproj.io/v1alpha1", "AppProject"),
        Kind::Repository => ("v1", "Secret"),
    };
    object["apiVersion"] = Value::String(version.to_owned());
    object["kind"] = Value::String(kind.to_owned());
    object
}

fn propagation_name(propagation: Propagation) -> &'static str {
    match propagation {
        Propagation::Foreground => "Foreground",
        Propagation::Background => "Background",
    }
}

/// A deleted object lingers while something holds it.
fn after_delete(answer: Value) -> Outcome {
    let lingers = answer["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
    if lingers { Outcome::Written(Object::new(slim(answer))) } else { Outcome::Gone }
}

fn failed(class: Class, message: impl Into<String>) -> Outcome {
    Outcome::Failed(Failure { class, message: message.into() })
}

fn classify(error: &kube::Error, verb: &str, path: &str) -> Outcome {
    let message = explain(error, verb, path);
    match error {
        // The namespace of a new object is missing: nothing to compare would bring it.
        kube::Error::Api(status) if status.code == 404 && verb == CREATE => failed(Class::Permanent, message),
        kube::Error::Api(status) => failed(Class::of_status(status.code, &status.reason, &status.message), message),
        _ => failed(Class::Temporary, message),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::FutureExt;
    use http::Response;
    use kube::client::Body;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_of_many_does_not_take_all_the_writes() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            if request.uri().path().contains("/namespaces/stuck/") {
                std::future::pending::<()>().await;
            }
            let object = json!({"metadata": {"name": "a", "namespace": "free", "resourceVersion": "1"}});
            Ok::<_, Infallible>(Response::new(Body::from(object.to_string().into_bytes())))
        });
        let objects = Objects::new(Client::new(service, "x"), "test", 4, Duration::from_secs(30));
        let (one, other) = (objects.share(2), objects.share(2));
        let key = |namespace: &str| Key { kind: Kind::Application, namespace: namespace.into(), name: "a".into() };
        let (stuck, free) = (key("stuck"), key("free"));
        let mut writes =
            futures::future::join_all((0..10).map(|_| one.write(&stuck, Write::Create(json!({}))))).boxed();
        assert!(futures::poll!(&mut writes).is_pending());
        assert_eq!(objects.permits.available_permits(), 2);
        let written = tokio::time::timeout(Duration::from_secs(1), other.write(&free, Write::Create(json!({}))));
        assert!(matches!(written.await, Ok(Outcome::Written(_))));
    }
}
