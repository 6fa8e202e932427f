//! Changing objects: the read, change, check and swap that PUT, PATCH and apply share.

use serde_json::Value;

use super::create::{self, manager};
use super::{Call, decode, delete};
use crate::admission::{self, Claim};
use crate::builtin::namespace;
use crate::failure::{Failure, Result};
use crate::field::{FieldError, Path};
use crate::metadata;
use crate::objects::{Attempts, Stored, Swap};
use crate::options::WriteOptions;
use crate::patch::apply::{Target, track_update};
use crate::patch::managed::keep_times_if_unchanged;
use crate::response::Answer;

/// Which part of the object a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but status (where status has its own path).
    Main,
    /// Status alone.
    Status,
    /// A namespace's `spec.finalizers`.
    Finalize,
    /// A pod's node, set once by a binding.
    Binding,
    /// The number of replicas.
    Scale,
}

impl Part {
    fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Binding => "binding",
            Self::Scale => "scale",
        }
    }
}

/// A new state, and whether its managed fields are already settled (by server-side apply, or on its scale).
pub(crate) struct Change {
    /// The object as it should be.
    pub object: Value,
    /// Whoever made it has written managedFields.
    pub applied: bool,
}

/// Handles PUT.
pub(crate) async fn update(call: &Call<'_>, part: Part) -> Result<Answer> {
    let options = WriteOptions::parse(call.query, "UpdateOptions")?;
    let mut object = decode::object(call, &options)?;
    let name = metadata::name(&object);
    if name != call.info.name {
        return Err(Failure::bad_request(if name.is_empty() {
            format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                call.info.name
            )
        } else {
            format!("the name of the object ({name}) does not match the name on the URL ({})", call.info.name)
        }));
    }
    match metadata::namespace(&object) {
        "" => {}
        namespace if namespace == call.namespace() => {}
        _ => {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    if !call.namespace().is_empty() {
        object["metadata"]["namespace"] = call.namespace().into();
    }
    change(call, part, &options, |_| Ok(Change { object: object.clone(), applied: false })).await
}

/// What a change left behind.
pub(crate) enum Changed {
    /// The object as stored.
    Stored(Stored),
    /// An object that is not stored: of a dry run, or gone with its last finalizer.
    Shown(Value),
    /// It was created instead.
    Created(Answer),
}

/// As [`changed`], answered with the object.
pub(crate) async fn change(
    call: &Call<'_>,
    part: Part,
    options: &WriteOptions,
    make: impl Fn(Option<&Value>) -> Result<Change>,
) -> Result<Answer> {
    match changed(call, part, options, make).await? {
        Changed::Stored(stored) => call.present(200, &stored),
        Changed::Shown(object) => call.present_value(200, object),
        Changed::Created(answer) => Ok(answer),
    }
}

/// Reads the object, changes it, checks it, and swaps it in; tries again when another write came first and the
/// change does not insist on a revision.
pub(crate) async fn changed(
    call: &Call<'_>,
    part: Part,
    options: &WriteOptions,
    make: impl Fn(Option<&Value>) -> Result<Change>,
) -> Result<Changed> {
    let mut attempts = Attempts::new(call.objects(), &call.kind, call.namespace(), &call.info.name);
    loop {
        let current = call.objects().get(&call.kind, call.namespace(), &call.info.name).await?;
        let Some(stored) = current else {
            return create_instead(call, part, options, &make).await.map(Changed::Created);
        };
        let old = stored.value(&call.kind)?;
        let wanted = make(Some(&old))?;
        let insists = insists_on_version(call, &wanted.object, &old)?;
        // the claim is held until the object is stored
        let (object, claim) = settle(call, part, options, wanted, &old).await?;
        let stored_form = call.kind.stored_form(&object);
        if stored.holds(&stored_form) {
            return Ok(Changed::Stored(stored));
        }
        if options.dry_run {
            return Ok(Changed::Shown(object));
        }
        match swap(call, &stored, &object, &stored_form).await? {
            // the answer shows the object as this write left it, with the revision it had
            Swap::Done(_) if delete::is_finished(&call.kind, &object) => return Ok(Changed::Shown(object)),
            Swap::Done(stored) => return Ok(Changed::Stored(stored)),
            Swap::Lost if insists => return Err(modified(call)),
            Swap::Lost => {
                drop(claim);
                attempts.again().await?;
            }
        }
    }
}

fn modified(call: &Call<'_>) -> Failure {
    Failure::modified(&call.kind.group, &call.kind.plural, &call.info.name)
}

/// Stores the new state, or removes the object when this write took its last finalizer away.
async fn swap(call: &Call<'_>, stored: &Stored, object: &Value, stored_form: &Value) -> Result<Swap> {
    let name = &call.info.name;
    if delete::is_finished(&call.kind, object) {
        return call.objects().delete(&call.kind, call.namespace(), name, stored).await;
    }
    call.objects().replace(&call.kind, call.namespace(), name, stored.revision, stored_form).await
}

/// Whether the change names the revision it is based on; refuses one that names another.
fn insists_on_version(call: &Call<'_>, object: &Value, old: &Value) -> Result<bool> {
    let uid = metadata::uid(object);
    if !uid.is_empty() && uid != metadata::uid(old) && call.info.verb != "patch" {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", metadata::uid(old));
        return Err(Failure::conflict(&call.kind.group, &call.kind.plural, &call.info.name, &why));
    }
    let wanted = metadata::resource_version(object);
    if wanted.is_empty() || wanted == "0" {
        if call.info.verb == "update" && call.kind.needs_version_on_update() {
            let error = FieldError::invalid(
                &Path::new("metadata.resourceVersion"),
                if wanted.is_empty() { serde_json::json!(0) } else { wanted.into() },
                "must be specified for an update",
            );
            return Err(Failure::invalid(&call.kind.group, &call.kind.plural, &call.info.name, &[error]));
        }
        return Ok(false);
    }
    if wanted.parse::<u64>().is_err() {
        return Err(Failure::new(500, "", format!("strconv.ParseUint: parsing {wanted:?}: invalid syntax")));
    }
    if wanted != metadata::resource_version(old) {
        return Err(modified(call));
    }
    Ok(call.info.verb == "update")
}

/// Makes a changed object ready to be stored: what may not change is put back, admission and validation pass.
async fn settle<'a>(
    call: &Call<'a>,
    part: Part,
    options: &WriteOptions,
    made: Change,
    old: &Value,
) -> Result<(Value, Option<Claim<'a>>)> {
    let Change { mut object, applied } = made;
    let kind = &call.kind;
    if !applied && part != Part::Finalize {
        let manager = manager(call, options);
        let track = |target: &Target<'_>| track_update(target, Some(old), &mut object, &manager, call.now);
        kind.with_target(part.subresource(), track);
    }
    let managed = object["metadata"].get("managedFields").cloned();
    restore(call, &mut object, old);
    match part {
        Part::Main | Part::Scale => kind.prepare_update(&mut object, old),
        Part::Status => kind.prepare_status_update(&mut object, old),
        Part::Finalize => {
            let finalizers = object["spec"].get("finalizers").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
            object = old.clone();
            object["spec"]["finalizers"] = finalizers;
        }
        Part::Binding => {}
    }
    let mut claim = None;
    if part == Part::Main {
        claim = admission::update(call, &mut object, old).await?;
    }
    if let (Some(managed), Some(meta)) = (managed, metadata::metadata_mut(&mut object)) {
        meta.insert("managedFields".to_owned(), managed);
    }
    keep_times_if_unchanged(old, &mut object);
    if let Some(meta) = metadata::metadata_mut(&mut object) {
        create::drop_empty(meta);
    }
    create::warn_of_finalizers(call, &object, Some(old));
    let mut errors = metadata::validate_update(&object, old);
    errors.extend(match part {
        Part::Main | Part::Scale => kind.validate_update(&object, old),
        Part::Status => kind.validate_status_update(&object, old),
        Part::Finalize => namespace::finalize_errors(&object),
        Part::Binding => Vec::new(),
    });
    if !errors.is_empty() {
        return Err(kind.invalid(&call.info.name, &errors));
    }
    if matches!(part, Part::Main | Part::Scale) {
        admission::review(call, &object, Some(old))?;
    }
    if part == Part::Main {
        kind.warnings(&object, Some(old)).into_iter().for_each(|text| call.warn(text));
    }
    Ok((object, claim))
}

/// Puts the metadata back that no write may change.
fn restore(call: &Call<'_>, object: &mut Value, old: &Value) {
    object["apiVersion"] = call.kind.api_version().into();
    object["kind"] = call.kind.kind.as_str().into();
    let patched_uid = object["metadata"].get("uid").cloned().filter(|_| call.info.verb == "patch");
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        let kept = old["metadata"].get(field).cloned();
        if let Some(meta) = metadata::metadata_mut(object) {
            match (kept, field) {
                (Some(value), _) => {
                    meta.insert(field.to_owned(), value);
                }
                (None, "uid" | "creationTimestamp") => {}
                (None, _) => {
                    meta.remove(field);
                }
            }
        }
    }
    if let Some(meta) = metadata::metadata_mut(object) {
        // a patch that changes the uid is refused by validation
        if let Some(uid) = patched_uid {
            meta.insert("uid".to_owned(), uid);
        }
        meta.remove("selfLink");
        meta.insert("resourceVersion".to_owned(), old["metadata"]["resourceVersion"].clone());
    }
}

async fn create_instead(
    call: &Call<'_>,
    part: Part,
    options: &WriteOptions,
    make: &impl Fn(Option<&Value>) -> Result<Change>,
) -> Result<Answer> {
    let by_put = call.info.verb == "update" && call.kind.creates_on_update();
    if part != Part::Main || !(by_put || call.info.verb == "patch") {
        return Err(call.not_found());
    }
    let Change { mut object, applied } = make(None)?;
    let version = metadata::resource_version(&object);
    if !version.is_empty() && by_put {
        if version.parse::<u64>().is_err() {
            return Err(Failure::new(500, "", format!("strconv.ParseUint: parsing {version:?}: invalid syntax")));
        }
        return Err(call.not_found());
    }
    if !call.namespace().is_empty() {
        object["metadata"]["namespace"] = call.namespace().into();
    }
    if !metadata::uid(&object).is_empty() {
        let why = format!("Precondition failed: UID in precondition: {}, UID in object meta: ", metadata::uid(&object));
        return Err(Failure::conflict(&call.kind.group, &call.kind.plural, &call.info.name, &why));
    }
    if applied {
        create::insert_applied(call, options, object).await
    } else {
        create::insert(call, options, object).await
    }
}
