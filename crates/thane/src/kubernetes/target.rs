//! What a command is about: kinds, names and selectors from its arguments.

use clap::Args;
use kube::core::Request;
use kube::core::params::{GetParams, ListParams, WatchParams};
use serde_json::Value;
use thane_api::code;

use super::catalog::{Catalog, Resource};
use super::connection::{Session, check_segment};
use super::table::Table;
use crate::failure::Failure;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/// Objects asked for at a time, as kubectl does.
const PAGE: u32 = 500;

/// Arguments that name objects.
#[derive(Debug, Clone, Args)]
pub(crate) struct Selection {
    /// Kind, kinds separated by commas, or KIND/NAME
    #[arg(value_name = "KIND")]
    kinds: String,
    /// Names of objects
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Label selector, such as app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Field selector, such as metadata.name=web
    #[arg(long, value_name = "FIELDS")]
    field_selector: Option<String>,
    /// In every namespace
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

/// Objects of one kind in one place.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) resource: Resource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    selector: Option<String>,
    field_selector: Option<String>,
}

impl Selection {
    pub(crate) fn has_names(&self) -> bool {
        !self.names.is_empty() || self.kinds.contains('/')
    }

    pub(crate) fn has_selector(&self) -> bool {
        self.selector.is_some() || self.field_selector.is_some()
    }

    /// What the arguments mean to this server.
    pub(crate) fn targets(&self, catalog: &Catalog, session: &Session) -> Result<Vec<Target>, Failure> {
        let usage = |message: &str| Err(Failure::new(code::USAGE, message));
        if self.has_names() && self.has_selector() {
            return usage("give names or a selector, not both");
        }
        if self.has_names() && self.all_namespaces {
            return usage("an object cannot be named in every namespace; give --namespace");
        }
        let mut targets = Vec::new();
        if self.kinds.contains('/') {
            for word in std::iter::once(&self.kinds).chain(&self.names) {
                let Some((kind, name)) = word.split_once('/') else {
                    return usage("with KIND/NAME every argument must be of that form");
                };
                targets.push(self.target(one(&catalog.find(kind)?, kind)?, Some(name), session)?);
            }
            return Ok(targets);
        }
        for word in self.kinds.split(',') {
            let found = catalog.find(word)?;
            if self.names.is_empty() {
                for resource in found {
                    targets.push(self.target(resource, None, session)?);
                }
            } else {
                let resource = one(&found, word)?;
                for name in &self.names {
                    targets.push(self.target(resource, Some(name), session)?);
                }
            }
        }
        Ok(targets)
    }

    fn target(&self, resource: &Resource, name: Option<&str>, session: &Session) -> Result<Target, Failure> {
        if let Some(name) = name {
            check_segment("name", name)?;
        }
        let everywhere = self.all_namespaces || !resource.namespaced;
        Ok(Target {
            namespace: (!everywhere).then(|| session.namespace.clone()),
            name: name.map(str::to_owned),
            selector: self.selector.clone(),
            field_selector: self.field_selector.clone(),
            resource: resource.clone(),
        })
    }
}

fn one<'a>(found: &[&'a Resource], word: &str) -> Result<&'a Resource, Failure> {
    match found {
        [resource] => Ok(resource),
        _ => Err(Failure::new(code::USAGE, format!("{word} is a category; names need a kind"))),
    }
}

impl Target {
    /// One object of a kind.
    pub(crate) fn object(resource: Resource, namespace: Option<String>, name: String) -> Self {
        Self { resource, namespace, name: Some(name), selector: None, field_selector: None }
    }

    fn path(&self) -> Request {
        Request::new(self.resource.path(self.namespace.as_deref()))
    }

    /// The object or list, as the server has it.
    pub(crate) async fn fetch(&self, session: &Session) -> Result<Value, Failure> {
        if let Some(name) = &self.name {
            return session.request(self.path().get(name, &GetParams::default())).await;
        }
        let mut list: Value = session.request(self.path().list(&self.list_params(None))).await?;
        while let Some(token) = continue_token(&list) {
            let mut next: Value = session.request(self.path().list(&self.list_params(Some(token)))).await?;
            if let (Some(Value::Array(items)), Some(Value::Array(more))) =
                (list.get_mut("items"), next.get_mut("items"))
            {
                items.append(more);
            }
            list["metadata"] = next["metadata"].take();
        }
        Ok(list)
    }

    /// The object or list as a table.
    pub(crate) async fn fetch_table(&self, session: &Session) -> Result<Table, Failure> {
        if let Some(name) = &self.name {
            return table(session.request(as_table(self.path().get(name, &GetParams::default()))).await?);
        }
        let mut whole = table(session.request(as_table(self.path().list(&self.list_params(None)))).await?)?;
        while !whole.metadata.continue_token.is_empty() {
            let token = std::mem::take(&mut whole.metadata.continue_token);
            let next = table(session.request(as_table(self.path().list(&self.list_params(Some(token))))).await?)?;
            whole.rows.extend(next.rows);
            whole.metadata = next.metadata;
        }
        Ok(whole)
    }

    /// A request for changes after a version.
    pub(crate) fn watch(&self, version: &str, tables: bool) -> Result<http::Request<Vec<u8>>, Failure> {
        let by_name = self.name.as_ref().map(|name| format!("metadata.name={name}"));
        let params = WatchParams {
            label_selector: self.selector.clone(),
            field_selector: by_name.or_else(|| self.field_selector.clone()),
            ..WatchParams::default()
        };
        let request = self.path().watch(&params, version);
        let request = if tables { as_table(request) } else { request };
        request.map_err(|error| Failure::new(code::USAGE, error.to_string()))
    }

    fn list_params(&self, continue_token: Option<String>) -> ListParams {
        ListParams {
            label_selector: self.selector.clone(),
            field_selector: self.field_selector.clone(),
            limit: Some(PAGE),
            continue_token,
            ..ListParams::default()
        }
    }
}

fn continue_token(list: &Value) -> Option<String> {
    list.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty()).map(str::to_owned)
}

fn as_table<E>(request: Result<http::Request<Vec<u8>>, E>) -> Result<http::Request<Vec<u8>>, E> {
    request.map(|mut request| {
        request.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(TABLE));
        request
    })
}

fn table(answer: Value) -> Result<Table, Failure> {
    if answer["kind"] != "Table" {
        return Err(Failure::new(code::REFUSED, "the server does not prepare tables of this kind; use -o yaml"));
    }
    serde_json::from_value(answer).map_err(|error| Failure::new(code::REFUSED, format!("the server's table: {error}")))
}
