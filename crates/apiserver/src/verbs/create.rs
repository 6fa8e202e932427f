//! Creating objects.

use serde_json::{Value, json};

use super::Call;
use crate::admission;
use crate::failure::{Failure, Result};
use crate::metadata;
use crate::objects::Swap;
use crate::options::{FieldValidation, WriteOptions};
use crate::patch::apply::track_update;
use crate::patch::managed::manager_from_user_agent;
use crate::resource::ResourceType;
use crate::response::Answer;
use crate::{body, random, schema};

/// How often a generated name is tried again when it is taken.
const GENERATED_TRIES: usize = 8;

/// Handles POST to a collection.
pub async fn create(call: &Call<'_>) -> Result<Answer> {
    let options = WriteOptions::parse(call.query, "CreateOptions")?;
    let mut object = decode(call, &options)?;
    match metadata::namespace(&object) {
        "" => {}
        namespace if namespace == call.namespace() => {}
        _ => {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    object["metadata"]["namespace"] = call.namespace().into();
    insert(call, &options, object).await
}

/// Decodes and checks a body that should hold an object of the call's type.
pub fn decode(call: &Call<'_>, options: &WriteOptions) -> Result<Value> {
    let decoded = body::decode(call.headers, &call.body)?;
    let mut object = decoded.value;
    check_type(&call.kind, &object, &call.body)?;
    known_fields(call, options, &mut object, decoded.duplicates)?;
    call.kind.default(&mut object);
    Ok(object)
}

/// Refuses an object of another kind or version.
fn check_type(kind: &ResourceType, object: &Value, body: &[u8]) -> Result<()> {
    if !object.is_object() {
        return Err(Failure::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ \
             APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            json_kind(object)
        )));
    }
    let found_kind = object["kind"].as_str().unwrap_or_default();
    let found_version = object["apiVersion"].as_str().unwrap_or_default();
    if kind.is_custom() {
        let text = || String::from_utf8_lossy(body).into_owned();
        if found_kind.is_empty() {
            return Err(Failure::bad_request(format!("Object 'Kind' is missing in '{}'", text())));
        }
        if found_version.is_empty() {
            return Err(Failure::bad_request(format!("Object 'apiVersion' is missing in '{}'", text())));
        }
    }
    let same_version = found_version.is_empty() || found_version == kind.api_version();
    if (found_kind.is_empty() || found_kind == kind.kind) && same_version {
        return Ok(());
    }
    let (group, version) = found_version.rsplit_once('/').unwrap_or(("", found_version));
    let (shown_group, shown_version) =
        if found_version.is_empty() { (kind.group.as_str(), kind.version.as_str()) } else { (group, version) };
    let shown_kind = if found_kind.is_empty() { kind.kind.as_str() } else { found_kind };
    if kind.is_custom() {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({found_version}) does not match the expected API version ({})",
            kind.api_version()
        )));
    }
    Err(Failure::bad_request(format!(
        "{shown_kind} in version {shown_version:?} cannot be handled as a {}: no kind {shown_kind:?} is registered for version {:?} in \
         scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        kind.kind,
        if shown_group.is_empty() { shown_version.to_owned() } else { format!("{shown_group}/{shown_version}") },
    )))
}

/// A JSON value's kind, as Go's decoder names it.
fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Drops unknown fields, and warns or refuses as the client asked.
pub fn known_fields(
    call: &Call<'_>,
    options: &WriteOptions,
    object: &mut Value,
    duplicates: Vec<String>,
) -> Result<()> {
    let kind = &call.kind;
    let schema = kind.schema();
    if !kind.is_custom()
        && let Some(why) = schema::decode_errors(&kind.kind, &kind.version, &schema, object)
    {
        return Err(Failure::bad_request(why));
    }
    let mut wrong = duplicates;
    wrong.extend(schema::prune(&schema, object).into_iter().map(|path| format!("unknown field {path:?}")));
    if wrong.is_empty() {
        return Ok(());
    }
    match options.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => wrong.into_iter().for_each(|text| call.warn(text)),
        FieldValidation::Strict => {
            let list = wrong.join(", ");
            let message = if kind.is_custom() {
                format!("strict decoding error: {list}")
            } else {
                format!(
                    "{} in version {:?} cannot be handled as a {}: strict decoding error: {list}",
                    kind.kind, kind.version, kind.kind
                )
            };
            return Err(Failure::bad_request(message));
        }
    }
    Ok(())
}

/// Admits and stores a decoded object.
pub async fn insert(call: &Call<'_>, options: &WriteOptions, mut object: Value) -> Result<Answer> {
    let manager = manager(call, options);
    call.kind.with_target("", |target| track_update(target, None, &mut object, &manager, call.now));
    insert_applied(call, options, object).await
}

/// As [`insert`], for an object whose managed fields are settled.
pub async fn insert_applied(call: &Call<'_>, options: &WriteOptions, mut object: Value) -> Result<Answer> {
    admission::create(call, &mut object, options.dry_run).await?;
    complete(call, &mut object);
    store(call, options, object).await
}

async fn store(call: &Call<'_>, options: &WriteOptions, mut object: Value) -> Result<Answer> {
    let generated = metadata::name(&object).is_empty() && !metadata::generate_name(&object).is_empty();
    for attempt in 0..GENERATED_TRIES {
        if generated {
            let name = generate(metadata::generate_name(&object));
            object["metadata"]["name"] = name.into();
        }
        validate(call, &object)?;
        let name = metadata::name(&object).to_owned();
        let mut stored_form = object.clone();
        call.kind.on_write(&mut stored_form);
        if options.dry_run {
            if call.objects().get(&call.kind, call.namespace(), &name).await?.is_some() {
                return Err(Failure::already_exists(&call.kind.group, &call.kind.plural, &name));
            }
            return call.present_value(201, object);
        }
        match call.objects().create(&call.kind, call.namespace(), &name, &stored_form).await? {
            Swap::Done(stored) => return call.present(201, &stored),
            Swap::Lost(_) if generated && attempt + 1 < GENERATED_TRIES => {}
            Swap::Lost(_) => return Err(Failure::already_exists(&call.kind.group, &call.kind.plural, &name)),
        }
    }
    Err(Failure::internal("no free name was found"))
}

/// Sets the metadata that only the server may set.
fn complete(call: &Call<'_>, object: &mut Value) {
    object["apiVersion"] = call.kind.api_version().into();
    object["kind"] = call.kind.kind.as_str().into();
    call.kind.prepare_create(object);
    object["metadata"]["creationTimestamp"] = crate::time::seconds(call.now).into();
    object["metadata"]["uid"] = uuid::Uuid::new_v4().to_string().into();
    if let Some(meta) = metadata::metadata_mut(object) {
        for field in ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            meta.remove(field);
        }
        if meta.get("namespace").is_some_and(|namespace| namespace == "") {
            meta.remove("namespace");
        }
        drop_empty(meta);
    }
}

/// Go leaves empty maps, lists and strings of metadata out.
pub fn drop_empty(meta: &mut serde_json::Map<String, Value>) {
    meta.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    });
}

fn validate(call: &Call<'_>, object: &Value) -> Result<()> {
    let kind = &call.kind;
    let mut errors =
        metadata::validate_create(object, kind.namespaced, |name, prefix| kind.name_errors(object, name, prefix));
    errors.extend(kind.validate(object));
    if errors.is_empty() {
        Ok(())
    } else {
        let name = match metadata::name(object) {
            "" => metadata::generate_name(object),
            name => name,
        };
        Err(Failure::invalid(&kind.group, &kind.kind, name, &errors))
    }
}

/// Who owns the fields of this write.
pub fn manager(call: &Call<'_>, options: &WriteOptions) -> String {
    if !options.field_manager.is_empty() {
        return options.field_manager.clone();
    }
    let agent = call.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    manager_from_user_agent(agent)
}

/// A prefix and a random suffix, within the length of a label.
fn generate(prefix: &str) -> String {
    const NAME_MAX: usize = 63;
    let room = NAME_MAX - random::SUFFIX_LEN;
    let keep = prefix.char_indices().take_while(|(at, c)| at + c.len_utf8() <= room).count();
    format!("{}{}", prefix.chars().take(keep).collect::<String>(), random::suffix())
}

/// The answer to a successful create of something that is not stored, such as a review.
pub fn answered(object: &Value) -> Value {
    let mut object = object.clone();
    if object.get("metadata").is_none() {
        object["metadata"] = json!({});
    }
    object
}
