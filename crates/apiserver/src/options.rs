//! The options of each verb, read from the query string (and, for a delete, from the body).

use serde_json::Value;

use crate::failure::Failure;
use crate::field::{FieldError, Path};
use crate::patch::managed::manager_errors;
use crate::request::Query;

/// What to do with fields the schema does not know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and tell.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

/// Options of create, update and patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// Do everything but store.
    pub dry_run: bool,
    /// Who owns the fields; empty means from the user agent.
    pub field_manager: String,
    /// What to do with unknown fields.
    pub field_validation: FieldValidation,
    /// Server-side apply: take fields from other managers.
    pub force: Option<bool>,
}

impl WriteOptions {
    /// Reads and checks them; `kind` is the options' own kind as errors name it.
    pub(crate) fn parse(query: &Query, kind: &'static str) -> Result<Self, Failure> {
        let mut errors = Vec::new();
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let field_validation = match query.first("fieldValidation") {
            None | Some("" | "Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let path = Path::new("fieldValidation");
                errors.push(FieldError::not_supported(&path, other, &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Warn
            }
        };
        let field_manager = query.first("fieldManager").unwrap_or_default().to_owned();
        errors.extend(manager_errors(&Path::new("fieldManager"), &field_manager));
        let force = match query.first("force") {
            None | Some("") => None,
            Some("false" | "0") => Some(false),
            Some(_) => Some(true),
        };
        if errors.is_empty() {
            Ok(Self { dry_run, field_manager, field_validation, force })
        } else {
            Err(Failure::invalid("meta.k8s.io", kind, "", &errors))
        }
    }
}

fn dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut Vec<FieldError>) -> bool {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported(&Path::new("dryRun"), values.clone(), &["All"]));
    }
    !values.is_empty()
}

/// How a list's `resourceVersion` is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// At least as new.
    NotOlderThan,
    /// Exactly then.
    Exact,
}

/// Options of list, watch and deletecollection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListOptions {
    /// Label selector text.
    pub label_selector: String,
    /// Field selector text.
    pub field_selector: String,
    /// Page size; zero means no limit.
    pub limit: u64,
    /// Where the previous page ended.
    pub continue_token: String,
    /// `None` when absent or empty.
    pub resource_version: Option<u64>,
    /// How it is meant.
    pub version_match: Option<VersionMatch>,
    /// End a watch after so many seconds.
    pub timeout_seconds: Option<u64>,
    /// Send bookmarks.
    pub bookmarks: bool,
    /// Start a watch with the present state.
    pub send_initial_events: Option<bool>,
    /// It is a watch.
    pub watch: bool,
}

impl ListOptions {
    /// Reads and checks them.
    pub(crate) fn parse(query: &Query, watch: bool) -> Result<Self, Failure> {
        let text = |key: &str| query.first(key).unwrap_or_default().to_owned();
        let options = Self {
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            limit: number(query, "limit")?.and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            continue_token: text("continue"),
            resource_version: resource_version(query.first("resourceVersion")).map_err(|failure| {
                // a watch is refused by a deeper layer
                let text = failure.message.trim_start_matches("invalid resource version: ").to_owned();
                if watch { Failure::new(500, "", text) } else { failure }
            })?,
            version_match: version_match(query)?,
            timeout_seconds: number(query, "timeoutSeconds")?.and_then(|n| u64::try_from(n).ok()),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.first("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
            watch,
        };
        let errors = options.contradictions(query);
        if errors.is_empty() { Ok(options) } else { Err(Failure::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
    }

    fn contradictions(&self, query: &Query) -> Vec<FieldError> {
        let path = Path::new("resourceVersionMatch");
        let forbidden = |detail: &str| FieldError::forbidden(&path, detail);
        let mut errors = Vec::new();
        if self.watch {
            return self.watch_contradictions();
        }
        if self.send_initial_events.is_some() {
            let path = Path::new("sendInitialEvents");
            errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
        if let Some(rule) = self.version_match {
            if query.first("resourceVersion").unwrap_or_default().is_empty() {
                errors.push(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            if !self.continue_token.is_empty() {
                errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
            }
            if rule == VersionMatch::Exact && self.resource_version == Some(0) {
                errors.push(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
            }
        }
        errors
    }

    fn watch_contradictions(&self) -> Vec<FieldError> {
        let path = Path::new("resourceVersionMatch");
        let mut errors = Vec::new();
        match (self.send_initial_events, self.version_match) {
            (None, Some(_)) => {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(&path, detail));
            }
            (Some(_), None) => {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.push(FieldError::forbidden(&path, detail));
            }
            (Some(_), Some(VersionMatch::Exact)) => {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.push(FieldError::forbidden(&path, detail));
                let shown = "Exact";
                errors.push(FieldError::not_supported(&path, shown, &["NotOlderThan"]));
            }
            _ => {}
        }
        if !self.continue_token.is_empty() && self.send_initial_events.is_some() {
            errors.push(FieldError::forbidden(&Path::new("continue"), "continue is forbidden with sendInitialEvents"));
        }
        errors
    }
}

fn version_match(query: &Query) -> Result<Option<VersionMatch>, Failure> {
    match query.first("resourceVersionMatch") {
        None | Some("") => Ok(None),
        Some("NotOlderThan") => Ok(Some(VersionMatch::NotOlderThan)),
        Some("Exact") => Ok(Some(VersionMatch::Exact)),
        Some(other) => {
            let path = Path::new("resourceVersionMatch");
            let error = FieldError::not_supported(&path, other, &["Exact", "NotOlderThan", ""]);
            Err(Failure::invalid("meta.k8s.io", "ListOptions", "", &[error]))
        }
    }
}

/// A resource version: a number, or a refusal in Kubernetes' words.
pub(crate) fn resource_version(text: Option<&str>) -> Result<Option<u64>, Failure> {
    match text {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
            let error = FieldError::invalid(&Path::new("resourceVersion"), text, why);
            Failure::bad_request(format!("invalid resource version: {error}"))
        }),
    }
}

fn number(query: &Query, key: &str) -> Result<Option<i64>, Failure> {
    match query.first(key) {
        None | Some("") => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))),
    }
}

/// What happens to the objects that an owner leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They stay, without the owner.
    Orphan,
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
}

/// Options of delete and deletecollection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// Do everything but delete.
    pub dry_run: bool,
    /// Seconds a pod gets to end.
    pub grace_seconds: Option<i64>,
    /// Only this incarnation.
    pub uid: Option<String>,
    /// Only this revision.
    pub resource_version: Option<String>,
    /// What happens to dependents.
    pub propagation: Option<Propagation>,
}

impl DeleteOptions {
    /// Reads them from the body if there is one, otherwise from the query.
    pub(crate) fn parse(query: &Query, body: Option<&Value>) -> Result<Self, Failure> {
        let mut errors = Vec::new();
        let mut options = Self::default();
        let (grace, policy, orphan) = if let Some(body) = body {
            let dry: Vec<&str> = body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            options.dry_run = dry_run(dry.into_iter(), &mut errors);
            options.uid = body["preconditions"]["uid"].as_str().map(str::to_owned);
            options.resource_version = body["preconditions"]["resourceVersion"].as_str().map(str::to_owned);
            (
                body["gracePeriodSeconds"].as_i64(),
                body["propagationPolicy"].as_str(),
                body["orphanDependents"].as_bool(),
            )
        } else {
            options.dry_run = dry_run(query.all("dryRun"), &mut errors);
            let orphan = query.first("orphanDependents").map(|_| query.flag("orphanDependents"));
            (number(query, "gracePeriodSeconds")?, query.first("propagationPolicy"), orphan)
        };
        options.grace_seconds = grace;
        let path = Path::new("propagationPolicy");
        options.propagation = match (policy, orphan) {
            (Some(_), Some(_)) => {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid(&path, policy.unwrap_or_default(), detail));
                None
            }
            (None, Some(true)) | (Some("Orphan"), None) => Some(Propagation::Orphan),
            (None, Some(false)) | (Some("Background"), None) => Some(Propagation::Background),
            (Some("Foreground"), None) => Some(Propagation::Foreground),
            (None | Some(""), None) => None,
            (Some(other), None) => {
                errors.push(FieldError::not_supported(&path, other, &["Foreground", "Background", "Orphan", "nil"]));
                None
            }
        };
        if errors.is_empty() { Ok(options) } else { Err(Failure::invalid("meta.k8s.io", "DeleteOptions", "", &errors)) }
    }
}

#[cfg(test)]
mod tests;
