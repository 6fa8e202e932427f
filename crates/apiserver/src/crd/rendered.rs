//! Internal Go types as Kubernetes prints them in errors: every field, in order, under its Go name.

use serde_json::{Map, Value, json};

use super::view::text;

const SCHEMA_FIELDS: [(&str, &str, Zero); 41] = [
    ("ID", "id", Zero::Text),
    ("Schema", "$schema", Zero::Text),
    ("Ref", "$ref", Zero::Null),
    ("Description", "description", Zero::Text),
    ("Type", "type", Zero::Text),
    ("Nullable", "nullable", Zero::False),
    ("Format", "format", Zero::Text),
    ("Title", "title", Zero::Text),
    ("Default", "default", Zero::Null),
    ("Maximum", "maximum", Zero::Null),
    ("ExclusiveMaximum", "exclusiveMaximum", Zero::False),
    ("Minimum", "minimum", Zero::Null),
    ("ExclusiveMinimum", "exclusiveMinimum", Zero::False),
    ("MaxLength", "maxLength", Zero::Null),
    ("MinLength", "minLength", Zero::Null),
    ("Pattern", "pattern", Zero::Text),
    ("MaxItems", "maxItems", Zero::Null),
    ("MinItems", "minItems", Zero::Null),
    ("UniqueItems", "uniqueItems", Zero::False),
    ("MultipleOf", "multipleOf", Zero::Null),
    ("Enum", "enum", Zero::Null),
    ("MaxProperties", "maxProperties", Zero::Null),
    ("MinProperties", "minProperties", Zero::Null),
    ("Required", "required", Zero::Null),
    ("Items", "items", Zero::Null),
    ("AllOf", "allOf", Zero::Null),
    ("OneOf", "oneOf", Zero::Null),
    ("AnyOf", "anyOf", Zero::Null),
    ("Not", "not", Zero::Null),
    ("Properties", "properties", Zero::Null),
    ("AdditionalProperties", "additionalProperties", Zero::Null),
    ("PatternProperties", "patternProperties", Zero::Null),
    ("Dependencies", "dependencies", Zero::Null),
    ("AdditionalItems", "additionalItems", Zero::Null),
    ("Definitions", "definitions", Zero::Null),
    ("ExternalDocs", "externalDocs", Zero::Null),
    ("Example", "example", Zero::Null),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Zero::Null),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Zero::False),
    ("XIntOrString", "x-kubernetes-int-or-string", Zero::False),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Zero::Null),
];

#[derive(Clone, Copy)]
enum Zero {
    Text,
    False,
    Null,
}

/// The Go names of the fields a schema sets, in order.
pub(super) fn fields_set(schema: &Value) -> Vec<&'static str> {
    let tail = [
        ("XListType", "x-kubernetes-list-type"),
        ("XMapType", "x-kubernetes-map-type"),
        ("XValidations", "x-kubernetes-validations"),
    ];
    let all = SCHEMA_FIELDS.iter().map(|(go, name, _)| (*go, *name)).chain(tail);
    let is_set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    all.filter(|(_, name)| schema.get(*name).is_some_and(is_set)).map(|(go, _)| go).collect()
}

/// A schema.
pub(super) fn schema(value: &Value) -> String {
    let mut parts = Vec::new();
    for (go, name, zero) in SCHEMA_FIELDS {
        let shown = match (name, value.get(name)) {
            (_, None | Some(Value::Null)) => match zero {
                Zero::Text => "\"\"".to_owned(),
                Zero::False => "false".to_owned(),
                Zero::Null => "null".to_owned(),
            },
            ("properties", Some(Value::Object(map))) => {
                let entries = map.iter().map(|(key, child)| format!("{}:{}", go_json(&json!(key)), schema(child)));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
            }
            ("items", Some(child)) => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(child)),
            ("additionalProperties", Some(Value::Bool(allows))) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
            ("additionalProperties", Some(child)) => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(child)),
            ("not", Some(child)) => schema(child),
            ("allOf" | "anyOf" | "oneOf", Some(Value::Array(list))) => {
                format!("[{}]", list.iter().map(schema).collect::<Vec<_>>().join(","))
            }
            (_, Some(other)) => go_json(other),
        };
        parts.push(format!("\"{go}\":{shown}"));
    }
    for (go, name) in [("XListType", "x-kubernetes-list-type"), ("XMapType", "x-kubernetes-map-type")] {
        parts.push(format!("\"{go}\":{}", value.get(name).map_or_else(|| "null".to_owned(), go_json)));
    }
    let rules = value.get("x-kubernetes-validations").and_then(Value::as_array);
    let rules = rules.map(|list| format!("[{}]", list.iter().map(rule).collect::<Vec<_>>().join(",")));
    parts.push(format!("\"XValidations\":{}", rules.as_deref().unwrap_or("null")));
    format!("{{{}}}", parts.join(","))
}

/// An entry of `x-kubernetes-validations`.
pub(super) fn rule(value: &Value) -> String {
    let string = |key: &str| go_json(&json!(text(value, key).unwrap_or_default()));
    let or_null = |key: &str| value.get(key).map_or_else(|| "null".to_owned(), go_json);
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        string("rule"),
        string("message"),
        string("messageExpression"),
        or_null("reason"),
        string("fieldPath"),
        or_null("optionalOldSelf")
    )
}

/// The list of versions, without the parts they share.
pub(super) fn versions(list: &[&Value], own: impl Fn(usize) -> Map<String, Value>) -> String {
    let one = |(at, version): (usize, &&Value)| {
        let own = own(at);
        let part = |key: &str| own.get(key).map_or_else(|| "null".to_owned(), go_json);
        let schema = own.get("schema").and_then(|value| value.get("openAPIV3Schema"));
        let schema =
            schema.map_or_else(|| "null".to_owned(), |value| format!("{{\"OpenAPIV3Schema\":{}}}", schema_of(value)));
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{schema},\
             \"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
            go_json(&json!(text(version, "name").unwrap_or_default())),
            super::view::flag(version, "served"),
            super::view::flag(version, "storage"),
            super::view::flag(version, "deprecated"),
            version.get("deprecationWarning").map_or_else(|| "null".to_owned(), go_json),
            part("subresources"),
            part("additionalPrinterColumns"),
            part("selectableFields"),
        )
    };
    format!("[{}]", list.iter().enumerate().map(one).collect::<Vec<_>>().join(","))
}

fn schema_of(value: &Value) -> String {
    schema(value)
}

/// JSON with the escapes Go adds for HTML.
fn go_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
