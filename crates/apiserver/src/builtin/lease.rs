//! Lease.

use jiff::Timestamp;
use serde_json::Value;

use super::access::{map_mut, present, text};
use super::columns::{AGE, NAME, age, column, name};
use super::{Column, Strategy};
use crate::field::{FieldError, Path};
use crate::names;

pub(super) struct Lease;

impl Strategy for Lease {
    fn default(&self, object: &mut Value) {
        map_mut(object, "spec");
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let at = Path::new("spec");
        let mut errors = Vec::new();
        let number = |field: &str| object.pointer(&format!("/spec/{field}")).and_then(Value::as_i64);
        if let Some(seconds) = number("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            errors.push(FieldError::invalid(&at.child("leaseDurationSeconds"), seconds, "must be greater than 0"));
        }
        if let Some(count) = number("leaseTransitions").filter(|count| *count < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&at.child("leaseTransitions"), count, why));
        }
        let strategy = text(object, "/spec/strategy");
        if present(object, "/spec/strategy").is_some() {
            errors.extend(strategy_errors(strategy, &at.child("strategy")));
        }
        if !text(object, "/spec/preferredHolder").is_empty() && strategy.is_empty() {
            let why = "may only be specified if `strategy` is defined";
            errors.push(FieldError::forbidden(&at.child("preferredHolder"), why));
        }
        errors
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::subdomain_name(name, prefix)
    }

    fn columns(&self) -> &'static [Column] {
        const { &[NAME, column("Holder", "Who holds the lease."), AGE] }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![name(object), text(object, "/spec/holderIdentity").into(), age(object, now)]
    }
}

fn strategy_errors(strategy: &str, path: &Path) -> Vec<FieldError> {
    if strategy.contains('/') {
        return names::qualified_name(strategy)
            .into_iter()
            .map(|why| FieldError::invalid(&path.child("strategy"), strategy, why))
            .collect();
    }
    if strategy == "OldestEmulationVersion" {
        return Vec::new();
    }
    vec![FieldError::not_supported(&path.child("strategy"), strategy, &["OldestEmulationVersion"])]
}
