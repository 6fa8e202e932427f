//! What each verb does with a resource.

pub(crate) mod create;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod pod;
pub(crate) mod pod_access;
pub(crate) mod scale;
pub(crate) mod update;
pub(crate) mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use crate::authz::User;
use crate::catalog::Types;
use crate::failure::{Failure, Result};
use crate::field::{FieldError, Path};
use crate::media::{self, Accepted, Encoding, View};
use crate::objects::{Objects, Stored};
use crate::request::{Query, RequestInfo};
use crate::resource::ResourceType;
use crate::response::{self, Answer};
use crate::server::Inner;
use crate::table;

/// The most warnings that are kept: more would not fit into the headers of an answer.
const WARNINGS_MAX: usize = 1024;

/// A request on its way through a verb.
pub(crate) struct Call<'a> {
    /// The server.
    pub server: &'a Arc<Inner>,
    /// What is asked.
    pub info: &'a RequestInfo,
    /// With which parameters.
    pub query: &'a Query,
    /// With which headers.
    pub headers: &'a HeaderMap,
    /// What the client wants back.
    pub accepted: Accepted,
    /// The body.
    pub body: Bytes,
    /// The connection itself, where the client wants to go on with another protocol.
    pub upgrade: Option<hyper::upgrade::OnUpgrade>,
    /// By whom.
    pub user: &'a User,
    /// Of which type.
    pub kind: Arc<ResourceType>,
    /// All types, as they were when the request began.
    pub types: Arc<Types>,
    /// When.
    pub now: Timestamp,
    /// What the client should be told besides the answer.
    pub warnings: Mutex<Vec<String>>,
}

impl Call<'_> {
    /// The objects.
    pub(crate) fn objects(&self) -> &Objects {
        &self.server.objects
    }

    /// 404 for the object this call names.
    pub(crate) fn not_found(&self) -> Failure {
        Failure::not_found(&self.kind.group, &self.kind.plural, &self.info.name)
    }

    /// The present state of the object this call names.
    pub(crate) async fn current(&self) -> Result<Stored> {
        let found = self.objects().get(&self.kind, self.namespace(), &self.info.name).await?;
        found.ok_or_else(|| self.not_found())
    }

    /// The namespace the object lives in; empty for cluster-wide types (a Namespace is not in itself).
    pub(crate) fn namespace(&self) -> &str {
        if self.kind.namespaced { &self.info.namespace } else { "" }
    }

    /// How much of its object a row of a `Table` carries.
    pub(crate) fn include(&self) -> Result<table::Include> {
        let text = self.query.first("includeObject").unwrap_or_default();
        let unknown = || {
            let why = "must be 'Metadata', 'Object', 'None', or empty";
            let error = FieldError::invalid(&Path::new("includeObject"), text, why);
            Failure::bad_request(format!("Unable to convert to Table as requested: {error}"))
        };
        table::Include::parse(text).ok_or_else(unknown)
    }

    /// Tells the client something besides the answer, once.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let (text, mut warnings) = (text.into(), self.warnings.lock());
        if warnings.len() < WARNINGS_MAX && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Answers with one object in the form the client wants.
    pub(crate) fn present(&self, code: u16, stored: &Stored) -> Result<Answer> {
        if self.accepted.view == View::Full && self.accepted.encoding == Encoding::Json {
            return Ok(response::json_bytes(code, stored.to_json(&self.kind)?));
        }
        self.present_value(code, stored.value(&self.kind)?)
    }

    /// As [`Call::present`], for an object that is not stored (a dry run).
    pub(crate) fn present_value(&self, code: u16, object: Value) -> Result<Answer> {
        let shown = match self.accepted.view {
            View::Full => object,
            View::Table => {
                let list = table::single_metadata(&object);
                table::table(self.kind.rows(), [&object], &list, self.include()?, true, self.now)
            }
            View::Metadata => table::partial(&object),
            View::MetadataList => return Err(media::not_acceptable()),
        };
        Ok(response::value(code, &shown, self.accepted.encoding))
    }
}

/// Reads one object.
pub(crate) async fn get(call: &Call<'_>) -> Result<Answer> {
    if let Some(wanted) = crate::options::resource_version(call.query.first("resourceVersion"))? {
        list::known_revision(call, wanted)?;
    }
    call.present(200, &call.current().await?)
}
