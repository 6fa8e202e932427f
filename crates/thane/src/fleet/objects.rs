//! Objects of a fleet, read and written.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use serde_json::{Map, Value, json};
use thane_api::code;

use crate::failure::Failure;
use crate::kubernetes::connection::Session;

/// The objects of one API.
pub(crate) struct Objects<'a> {
    session: &'a Session,
}

/// What became of an object that should be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Created,
    Replaced,
}

impl<'a> Objects<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        Self { session }
    }

    /// The namespace that was asked for.
    pub(crate) fn namespace(&self) -> &str {
        &self.session.namespace
    }

    /// An object; none if it, or its kind, is not there.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, Failure> {
        match self.send(Method::GET, path, None).await {
            Ok(object) => Ok(Some(object)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The objects of a collection; none if the kind is not there.
    pub(crate) async fn list(&self, path: &str) -> Result<Option<Vec<Value>>, Failure> {
        let list = self.get(path).await?;
        Ok(list.map(|mut list| match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }))
    }

    pub(crate) async fn create(&self, collection: &str, object: &Value) -> Result<Value, Failure> {
        self.send(Method::POST, &format!("{collection}?fieldManager=thane"), Some(object)).await
    }

    pub(crate) async fn merge(&self, path: &str, change: &Value) -> Result<Value, Failure> {
        self.send(Method::PATCH, &format!("{path}?fieldManager=thane"), Some(change)).await
    }

    /// Deletes an object; false if there was none.
    pub(crate) async fn delete(&self, path: &str) -> Result<bool, Failure> {
        match self.send(Method::DELETE, path, None).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_not_found() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// The path of an object in the namespace that was asked for.
    pub(crate) fn path(&self, plural: &str, name: &str) -> String {
        format!("/api/v1/namespaces/{}/{plural}/{name}", self.namespace())
    }

    pub(crate) async fn secret(&self, name: &str) -> Result<Option<Value>, Failure> {
        self.get(&self.path("secrets", name)).await
    }

    /// Makes a Secret, or replaces its data if that is asked for.
    pub(crate) async fn put_secret(
        &self,
        name: &str,
        r#type: &str,
        data: &[(&str, &str)],
        replace: bool,
    ) -> Result<Put, Failure> {
        let data: Map<String, Value> =
            data.iter().map(|(key, text)| ((*key).to_owned(), STANDARD.encode(text).into())).collect();
        let what = format!("Secret {}/{name}", self.namespace());
        let about = |failure: Failure| failure.about(&what);
        let path = self.path("secrets", name);
        match self.secret(name).await? {
            Some(_) if !replace => Err(Failure::new(code::SECRET_EXISTS, format!("{what} is already there"))),
            Some(mut secret) if secret["type"] == r#type => {
                secret["data"] = data.into();
                self.send(Method::PUT, &path, Some(&secret)).await.map_err(about)?;
                Ok(Put::Replaced)
            }
            there => {
                if there.is_some() {
                    // A Secret keeps its type for life.
                    self.delete(&path).await.map_err(about)?;
                }
                let metadata = json!({"name": name, "namespace": self.namespace()});
                let secret =
                    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": r#type, "data": data});
                let collection = format!("/api/v1/namespaces/{}/secrets", self.namespace());
                self.create(&collection, &secret).await.map_err(about)?;
                Ok(if there.is_some() { Put::Replaced } else { Put::Created })
            }
        }
    }

    /// Makes a namespace unless it is there; whether it was made.
    pub(crate) async fn ensure_namespace(&self, name: &str) -> Result<bool, Failure> {
        if self.get(&format!("/api/v1/namespaces/{name}")).await?.is_some() {
            return Ok(false);
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create("/api/v1/namespaces", &namespace).await.map(|_| true)
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, media).body(bytes);
        self.session.request(request).await
    }
}
