//! `CustomResourceDefinition`: only how it is named and shown; what it means is elsewhere.

use jiff::Timestamp;
use serde_json::Value;

use super::access::{restore, same};
use super::columns::{CREATED_AT, NAME, name_and_creation};
use super::{Column, Strategy};
use crate::names;

pub(super) struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn prepare_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "status");
    }

    fn prepare_status_update(&self, object: &mut Value, old: &Value) {
        restore(object, old, "spec");
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::subdomain_name(name, prefix)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn raises_generation(&self, object: &Value, old: &Value) -> bool {
        !same(object.get("spec"), old.get("spec"))
    }

    fn columns(&self) -> &'static [Column] {
        const { &[NAME, CREATED_AT] }
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        name_and_creation(object)
    }
}
