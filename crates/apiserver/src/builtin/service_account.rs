//! `ServiceAccount`.

use jiff::Timestamp;
use serde_json::Value;

use super::access::{each_mut, items};
use super::columns::{AGE, NAME, age, column, name};
use super::tidy::tidy;
use super::{Column, Strategy};
use crate::field::FieldError;
use crate::names;

pub(super) struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn default(&self, object: &mut Value) {
        tidy(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        for secret in each_mut(object, "/secrets") {
            secret.retain(|key, _| key == "name");
        }
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value) {
        self.prepare_create(object);
    }

    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::subdomain_name(name, prefix)
    }

    fn columns(&self) -> &'static [Column] {
        const { &[NAME, column("Secrets", "How many secrets the account may use."), AGE] }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![name(object), items(object, "/secrets").len().into(), age(object, now)]
    }
}
