//! The errors a Kubernetes client sees: `metav1.Status` with the reason, code and wording of kube-apiserver.

use serde_json::{Map, Value, json};

use crate::field::FieldError;

/// A refused request. Becomes the `Status` object that clients branch on.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`; empty where Kubernetes sends none.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
    /// What the request was about.
    pub details: Option<Box<Details>>,
    /// Kubernetes sends this one as plain text, since it arises before anything knows about `Status`.
    pub plain: bool,
}

/// The `details` of a `Status`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    /// Object name.
    pub name: String,
    /// API group.
    pub group: String,
    /// Resource (plural) or kind, as Kubernetes puts either here.
    pub kind: String,
    /// Object uid.
    pub uid: String,
    /// One entry for every thing wrong.
    pub causes: Vec<Cause>,
    /// When to try again; also sent as `Retry-After`.
    pub retry_after_seconds: Option<u32>,
    /// A continue token by which an expired list may go on, sent in the metadata.
    pub next: Option<String>,
}

/// One thing that was wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// Such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
    /// Path of the field.
    pub field: String,
}

/// The result of handling a request.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// `resource` or `resource.group`, as error messages name a type.
pub fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl Failure {
    /// A failure without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, plain: false }
    }

    fn about(mut self, group: &str, resource: &str, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: resource.to_owned(),
            ..Details::default()
        }));
        self
    }

    /// `configmaps "x" not found`.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", qualified(group, resource)))
            .about(group, resource, name)
    }

    /// `configmaps "x" already exists`.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", qualified(group, resource)))
            .about(group, resource, name)
    }

    /// `Operation cannot be fulfilled on configmaps "x": why`.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(group, resource)),
        )
        .about(group, resource, name)
    }

    /// The answer to an update based on an old resourceVersion.
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        Self::conflict(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// `configmaps "x" is forbidden: why`.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", qualified(group, resource))
        } else {
            format!("{} \"{name}\" is forbidden: {why}", qualified(group, resource))
        };
        Self::new(403, "Forbidden", message).about(group, resource, name)
    }

    /// The same, sent as plain text.
    #[must_use]
    pub fn as_text(self) -> Self {
        Self { plain: true, ..self }
    }

    /// A malformed request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// `ConfigMap "x" is invalid: …` with one cause for each error. `kind` is the object's kind, not its resource.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut list = Vec::new();
        for text in errors.iter().map(ToString::to_string) {
            if !list.contains(&text) {
                list.push(text);
            }
        }
        let text = match list.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut failure =
            Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {text}", qualified(group, kind)))
                .about(group, kind, name);
        if let Some(details) = &mut failure.details {
            details.causes = errors.iter().map(FieldError::cause).collect();
        }
        failure
    }

    /// 410: the revision a list or watch asked for is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 500.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let text = message.to_string();
        let mut failure = Self::new(500, "InternalError", format!("Internal error occurred: {text}"));
        failure.details = Some(Box::new(Details {
            causes: vec![Cause { reason: "", message: text, field: String::new() }],
            ..Details::default()
        }));
        failure
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let mut failure =
            Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
        failure.details = Some(Box::default());
        failure
    }

    /// 404 for a path that is no resource.
    pub fn no_such_path() -> Self {
        let mut failure = Self::new(404, "NotFound", "the server could not find the requested resource");
        failure.details = Some(Box::default());
        failure
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            if let Some(next) = &details.next {
                status["metadata"]["continue"] = next.as_str().into();
            } else {
                status["details"] = details.to_value();
            }
        }
        status
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !text.is_empty() {
                out.insert(key.into(), text.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            out.insert("causes".into(), self.causes.iter().map(Cause::to_value).collect());
        }
        if let Some(seconds) = self.retry_after_seconds {
            out.insert("retryAfterSeconds".into(), seconds.into());
        }
        Value::Object(out)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in [("reason", self.reason), ("message", &self.message), ("field", &self.field)] {
            if !text.is_empty() {
                out.insert(key.into(), text.into());
            }
        }
        Value::Object(out)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for Failure {}
