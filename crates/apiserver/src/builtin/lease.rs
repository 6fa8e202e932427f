//! Lease.

use jiff::Timestamp;
use serde_json::Value;

use super::access::{map_mut, remove, text};
use super::columns::{AGE, NAME, age, column, name};
use super::tidy::tidy;
use super::{Column, Strategy};
use crate::field::{FieldError, Path};
use crate::names;

pub(super) struct Lease;

impl Strategy for Lease {
    fn default(&self, object: &mut Value) {
        tidy(object);
        map_mut(object, "spec");
    }

    fn prepare_create(&self, object: &mut Value) {
        // Fields of a feature that is off unless asked for.
        for field in ["strategy", "preferredHolder"] {
            remove(object, "/spec", field);
        }
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value) {
        self.prepare_create(object);
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
