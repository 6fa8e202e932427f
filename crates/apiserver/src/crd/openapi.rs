//! Validation of a version's `openAPIV3Schema`.

use serde_json::Value;

use super::view::{flag, text};
use super::{defaults, rendered, structural};
use crate::field::{FieldError, Path};
use crate::jsonpath::field_path;
use crate::schema::custom::{META_FIELDS, custom};
use crate::schema::node::Schema;

mod cost;
mod lists;

use cost::Costs;
use lists::{list_keys, set_items, wants_type};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// What is wrong with a schema; one that has not changed was accepted before and is not judged again.
pub(super) fn validate(validation: &Value, status: bool, before: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let Some(schema) = validation.get("openAPIV3Schema").filter(|schema| !schema.is_null()) else { return Vec::new() };
    if before == Some(schema) {
        return Vec::new();
    }
    let at = path.child("openAPIV3Schema");
    let mut errors = Vec::new();
    if status {
        errors.extend(root_fields(schema, &at));
    }
    if flag(schema, "nullable") {
        errors.push(FieldError::forbidden(
            &path.child("openAPIV3Schema.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let tree = custom(schema);
    let shape = structural::validate(schema, &at);
    let wrong_defaults = if shape.is_empty() { defaults::validate(&tree, &at) } else { Vec::new() };
    let sound = shape.is_empty() && wrong_defaults.is_empty();
    errors.extend(shape);
    errors.extend(wrong_defaults);
    let mut walk = Walk { schema: Vec::new(), cel: Vec::new(), costs: Costs::default() };
    let scope = Scope { defaults: None, meta: false, uncorrelated: None, times: Some(1) };
    walk.node(schema, sound.then_some(&*tree), &at, &scope, true);
    errors.extend(walk.schema);
    errors.extend(walk.cel);
    errors.extend(walk.costs.errors(&at));
    errors
}

fn root_fields(schema: &Value, path: &Path) -> Option<FieldError> {
    for name in rendered::fields_set(schema) {
        if name == "Type" {
            let kind = text(schema, "type").unwrap_or_default();
            if kind != "object" {
                let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource \
                              is enabled";
                return Some(FieldError::invalid(&path.child("type"), kind, detail));
            }
        } else if !AT_ROOT.contains(&name) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                AT_ROOT.join(" ")
            );
            return Some(FieldError::invalid_as(path, rendered::schema(schema), detail));
        }
    }
    None
}

/// What surrounds a node.
#[derive(Clone)]
struct Scope {
    /// Why no default may be set here.
    defaults: Option<String>,
    /// Inside of the metadata of a whole object.
    meta: bool,
    /// The nearest enclosing node whose parts cannot be told apart between old and new.
    uncorrelated: Option<Path>,
    /// How often an object can have the node; `None` if there is no bound.
    times: Option<u64>,
}

struct Walk {
    schema: Vec<FieldError>,
    cel: Vec<FieldError>,
    costs: Costs,
}

impl Walk {
    fn node(&mut self, raw: &Value, tree: Option<&Schema>, path: &Path, scope: &Scope, root: bool) {
        let before = self.schema.len();
        self.keywords(raw, path, scope);
        self.children(raw, tree, path, scope, root);
        self.map_and_list(raw, path);
        let Some(list) = raw.get("x-kubernetes-validations").and_then(Value::as_array) else { return };
        for (at, rule) in list.iter().enumerate() {
            self.rule_form(rule, tree, &path.child("x-kubernetes-validations").index(at));
        }
        if self.schema.len() == before
            && let Some(rules) = tree.and_then(|tree| tree.rules.as_deref())
        {
            for (at, (rule, raw)) in rules.validations.iter().zip(list).enumerate() {
                self.rule(rule, raw, scope, &path.child("x-kubernetes-validations").index(at));
            }
        }
    }

    fn keywords(&mut self, raw: &Value, path: &Path, scope: &Scope) {
        let errors = &mut self.schema;
        let kind = text(raw, "type").unwrap_or_default();
        if !kind.is_empty() && !TYPES.contains(&kind) {
            errors.push(FieldError::not_supported(&path.child("type"), kind, &TYPES));
        }
        let is_set = |key: &str| raw.get(key).is_some_and(|value| !value.is_null());
        if let (true, Some(why)) = (is_set("default"), &scope.defaults) {
            errors.push(FieldError::forbidden(&path.child("default"), format!("must not be set {why}")));
        }
        for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
            if is_set(key) {
                errors.push(FieldError::forbidden(&path.child(key), format!("{key} is not supported")));
            }
        }
        if kind == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            errors.push(FieldError::forbidden(&path.child("type"), detail));
        }
        if raw.get("items").is_some_and(Value::is_array) {
            let detail = "items must be a schema object and not an array";
            errors.push(FieldError::forbidden(&path.child("items"), detail));
        }
        if scope.meta && flag(raw, "x-kubernetes-embedded-resource") {
            let at = path.child("x-kubernetes-embedded-resource");
            errors.push(FieldError::forbidden(&at, "must not be used inside of resource meta"));
        }
        if flag(raw, "uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            errors.push(FieldError::forbidden(&path.child("uniqueItems"), detail));
        }
    }

    fn children(&mut self, raw: &Value, tree: Option<&Schema>, path: &Path, scope: &Scope, root: bool) {
        let properties = raw.get("properties").and_then(Value::as_object);
        let below = Scope { times: cost::times_below(raw, scope.times), ..scope.clone() };
        let scope = &below;
        if let Some(additional) = raw.get("additionalProperties").filter(|value| !value.is_null()) {
            let at = path.child("additionalProperties");
            if properties.is_some_and(|all| !all.is_empty()) && *additional != Value::Bool(true) {
                let detail = "additionalProperties and properties are mutual exclusive";
                self.schema.push(FieldError::forbidden(&at, detail));
            }
            let mut scope = scope.clone();
            if scope.meta {
                scope.defaults = Some("inside additionalProperties applying to object metadata".to_owned());
            }
            if additional.is_object() {
                let below = tree.and_then(|tree| tree.additional.as_ref()).map(crate::schema::Link::get);
                self.node(additional, below.as_deref(), &at, &scope, false);
            }
        }
        let whole = root || flag(raw, "x-kubernetes-embedded-resource");
        for (name, child) in properties.into_iter().flatten() {
            let mut scope = scope.clone();
            let meta = whole && META_FIELDS.contains(&name.as_str());
            if meta {
                scope.meta = true;
                if root {
                    scope.defaults = Some(format!("in top-level {name}"));
                }
            }
            let below = tree.and_then(|tree| {
                if meta {
                    return tree.rules.as_ref()?.declared.get(name).cloned();
                }
                tree.properties.get(name).map(crate::schema::Link::get)
            });
            self.node(child, below.as_deref(), &path.child("properties").key(name), &scope, false);
        }
        if let Some(not) = raw.get("not").filter(|not| not.is_object()) {
            self.node(not, None, &path.child("not"), scope, false);
        }
        for key in ["allOf", "oneOf", "anyOf"] {
            for (at, child) in raw.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
                self.node(child, None, &path.child(key).index(at), scope, false);
            }
        }
        if let Some(items) = raw.get("items").filter(|items| items.is_object()) {
            let mut scope = scope.clone();
            if text(raw, "x-kubernetes-list-type") != Some("map") {
                scope.uncorrelated.get_or_insert_with(|| path.clone());
            }
            let below = tree.and_then(|tree| tree.items.as_ref()).map(crate::schema::Link::get);
            self.node(items, below.as_deref(), &path.child("items"), &scope, false);
        }
    }

    fn map_and_list(&mut self, raw: &Value, path: &Path) {
        let errors = &mut self.schema;
        let kind = text(raw, "type").unwrap_or_default();
        if raw.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            let at = path.child("x-kubernetes-preserve-unknown-fields");
            errors.push(FieldError::invalid(&at, false, "must be true or undefined"));
        }
        if let Some(given) = text(raw, "x-kubernetes-map-type") {
            wants_type(kind, "object", "x-kubernetes-map-type", path, errors);
            if !matches!(given, "atomic" | "granular") {
                let at = path.child("x-kubernetes-map-type");
                errors.push(FieldError::not_supported(&at, given, &["atomic", "granular"]));
            }
        }
        if let Some(given) = text(raw, "x-kubernetes-list-type") {
            if wants_type(kind, "array", "x-kubernetes-list-type", path, errors) && given == "set" {
                set_items(raw, path, errors);
            }
            if !matches!(given, "atomic" | "set" | "map") {
                let at = path.child("x-kubernetes-list-type");
                errors.push(FieldError::not_supported(&at, given, &["atomic", "set", "map"]));
            }
        }
        list_keys(raw, path, errors);
    }

    fn rule_form(&mut self, rule: &Value, tree: Option<&Schema>, path: &Path) {
        let errors = &mut self.schema;
        let of = |key: &str| text(rule, key).unwrap_or_default();
        let breaks = |text: &str| text.contains(['\n', '\r']);
        let (expression, message) = (of("rule").trim(), of("message").trim());
        if expression.is_empty() {
            errors.push(FieldError::required(&path.child("rule"), "rule is not specified"));
        } else if !of("message").is_empty() && message.is_empty() {
            errors.push(FieldError::invalid(&path.child("message"), of("message"), "must be non-empty if specified"));
        } else if breaks(message) {
            errors.push(FieldError::invalid(&path.child("message"), of("message"), "must not contain line breaks"));
        } else if breaks(expression) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(&path.child("message"), detail));
        }
        if !of("messageExpression").is_empty() && of("messageExpression").trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(&path.child("messageExpression"), detail));
        }
        if let Some(reason) = text(rule, "reason").filter(|reason| !REASONS.contains(reason)) {
            errors.push(FieldError::not_supported(&path.child("reason"), reason, &REASONS));
        }
        let at = path.child("fieldPath");
        let field = of("fieldPath");
        if field.is_empty() {
            return;
        }
        if field.trim().is_empty() {
            errors.push(FieldError::invalid(&at, field, "must be non-empty if specified"));
        }
        if breaks(field) {
            errors.push(FieldError::invalid(&at, field, "must not contain line breaks"));
        }
        if tree.is_some_and(|tree| field_path(field, tree, true).is_err()) {
            errors.push(FieldError::invalid(&at, field, "must be a valid path"));
        }
    }

    fn rule(&mut self, rule: &crate::schema::cel::Rule, raw: &Value, scope: &Scope, path: &Path) {
        let errors = &mut self.cel;
        errors.extend(self.costs.rule(rule.cost(scope.times), "estimated rule cost", &path.child("rule")));
        if let Some(why) = rule.error() {
            errors.push(FieldError::invalid_as(&path.child("rule"), rendered::rule(raw), why));
        }
        if let Some(why) = rule.message_error() {
            errors.push(FieldError::invalid_as(&path.child("messageExpression"), rendered::rule(raw), why));
        } else {
            let at = path.child("messageExpression");
            errors.extend(self.costs.rule(rule.message_cost(), "estimated messageExpression cost", &at));
        }
        if rule.uses_old_self() {
            if let Some(at) = &scope.uncorrelated {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {at}");
                let text = text(raw, "rule").unwrap_or_default();
                errors.push(FieldError::invalid(&path.child("rule"), text, why));
            }
        } else if let Some(given) = raw.get("optionalOldSelf").filter(|value| value.is_boolean()) {
            let why = "may not be set if oldSelf is not used in rule";
            errors.push(FieldError::invalid(&path.child("optionalOldSelf"), given.clone(), why));
        }
    }
}
