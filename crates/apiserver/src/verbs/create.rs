//! Creating objects.

use serde_json::{Value, json};

use super::delete::{FOREGROUND, ORPHAN};
use super::{Call, decode};
use crate::admission;
use crate::failure::{Failure, Result};
use crate::metadata;
use crate::objects::{Created, Home, Stored};
use crate::options::WriteOptions;
use crate::patch::apply::track_update;
use crate::patch::managed::manager_from_user_agent;
use crate::random;
use crate::response::Answer;

/// How often a generated name is tried again when it is taken.
const GENERATED_TRIES: usize = 8;
/// How often a namespace is asked again because it changed meanwhile.
const HOME_TRIES: usize = 16;

/// Handles POST to a collection.
pub(crate) async fn create(call: &Call<'_>) -> Result<Answer> {
    let options = WriteOptions::parse(call.query, "CreateOptions")?;
    let mut object = decode::object(call, &options)?;
    if !metadata::resource_version(&object).is_empty() {
        return Err(Failure::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    place(call, &mut object)?;
    warn_of_finalizers(call, &object, None);
    insert(call, &options, object).await
}

/// Tells about new finalizers of custom resources that are under nobody's domain.
pub(crate) fn warn_of_finalizers(call: &Call<'_>, object: &Value, old: Option<&Value>) {
    if !call.kind.is_custom() {
        return;
    }
    let had = old.map(metadata::finalizers).unwrap_or_default();
    let mut new: Vec<&str> = metadata::finalizers(object);
    new.retain(|name| !name.contains('/') && !had.contains(name) && !matches!(*name, ORPHAN | FOREGROUND));
    new.sort_unstable();
    for name in new {
        call.warn(format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name including a path (/) to avoid \
             accidental conflicts with other finalizer writers"
        ));
    }
}

/// Puts an object into the namespace of the request, unless it says that it belongs elsewhere.
fn place(call: &Call<'_>, object: &mut Value) -> Result<()> {
    let wanted = metadata::namespace(object);
    if call.kind.namespaced && !wanted.is_empty() && wanted != call.namespace() {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"]["namespace"] = call.namespace().into();
    Ok(())
}

/// Admits and stores a decoded object.
pub(crate) async fn insert(call: &Call<'_>, options: &WriteOptions, mut object: Value) -> Result<Answer> {
    if let Some(meta) = metadata::metadata_mut(&mut object) {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            meta.remove(field);
        }
    }
    let manager = manager(call, options);
    call.kind.with_target("", |target| track_update(target, None, &mut object, &manager, call.now));
    insert_applied(call, options, object).await
}

/// As [`insert`], for an object whose managed fields are settled.
pub(crate) async fn insert_applied(call: &Call<'_>, options: &WriteOptions, mut object: Value) -> Result<Answer> {
    let home = admission::create(call, &mut object).await?;
    complete(call, &mut object);
    // held until the object is stored
    let _claim = admission::allocate(call, &mut object, None).await?;
    store(call, options, object, home).await
}

async fn store(call: &Call<'_>, options: &WriteOptions, mut object: Value, home: Option<Home>) -> Result<Answer> {
    let generated = metadata::name(&object).is_empty() && !metadata::generate_name(&object).is_empty();
    for attempt in 0..GENERATED_TRIES {
        if generated {
            let name = generate(metadata::generate_name(&object));
            object["metadata"]["name"] = name.into();
        }
        validate(call, &object)?;
        admission::review(call, &object, None)?;
        call.kind.warnings(&object, None).into_iter().for_each(|text| call.warn(text));
        let name = metadata::name(&object).to_owned();
        if options.dry_run {
            if call.objects().get(&call.kind, call.namespace(), &name).await?.is_some() {
                return Err(Failure::already_exists(&call.kind.group, &call.kind.plural, &name));
            }
            return call.present_value(201, object);
        }
        match swap_in(call, &name, &call.kind.stored_form(&object), home.clone()).await? {
            Created::Done(stored) => return call.present(201, &stored),
            Created::Taken(_) if generated && attempt + 1 < GENERATED_TRIES => {}
            Created::Taken(there) => return Err(taken(call, &name, &there)),
            Created::Moved => return Err(Failure::modified("", "namespaces", call.namespace())),
        }
    }
    Err(Failure::internal("no free name was found"))
}

/// Stores the object in its namespace as that is now: one that changed is asked again, and one that goes refuses.
async fn swap_in(call: &Call<'_>, name: &str, object: &Value, mut home: Option<Home>) -> Result<Created> {
    for _ in 0..HOME_TRIES {
        match call.objects().create(&call.kind, call.namespace(), name, object, home.as_ref()).await? {
            Created::Moved => home = admission::home(call, name).await?,
            ended => return Ok(ended),
        }
    }
    Ok(Created::Moved)
}

fn taken(call: &Call<'_>, name: &str, there: &Stored) -> Failure {
    let failure = Failure::already_exists(&call.kind.group, &call.kind.plural, name);
    let going = there.value(&call.kind).is_ok_and(|object| metadata::deletion_timestamp(&object).is_some());
    if going {
        Failure { message: format!("object is being deleted: {}", failure.message), ..failure }
    } else {
        failure
    }
}

/// Sets the metadata that only the server may set.
fn complete(call: &Call<'_>, object: &mut Value) {
    object["apiVersion"] = call.kind.api_version().into();
    object["kind"] = call.kind.kind.as_str().into();
    object["metadata"]["creationTimestamp"] = crate::time::seconds(call.now).into();
    object["metadata"]["uid"] = random::uid().into();
    call.kind.prepare_create(object);
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
pub(crate) fn drop_empty(meta: &mut serde_json::Map<String, Value>) {
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
        Err(kind.invalid(name, &errors))
    }
}

/// Who owns the fields of this write.
pub(crate) fn manager(call: &Call<'_>, options: &WriteOptions) -> String {
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
