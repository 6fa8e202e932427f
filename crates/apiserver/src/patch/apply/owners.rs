//! How ownership moves when an object changes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::conflict::Conflict;
use super::{Target, Trouble};
use crate::patch::fields::FieldSet;
use crate::patch::managed::Owned;
use crate::patch::typed::compare::{Comparison, compare};
use crate::patch::typed::field_set::{field_set, with_named_parents};
use crate::patch::typed::{Shape, item, merge, reconcile, remove};

type Owners = BTreeMap<String, Owned>;

/// Records what a write changed under `key`; everybody else loses it.
pub(super) fn update(
    target: &Target<'_>,
    live: &Value,
    new: &Value,
    owners: &mut Owners,
    key: &str,
    mut owner: Owned,
) -> Result<(), String> {
    reconcile_all(target, owners);
    let change = transfer(target, live, new, owners, key, true).map_err(|trouble| match trouble {
        Trouble::Other(message) => message,
        Trouble::Conflicts(_) => "a forced write cannot conflict".to_owned(),
    })?;
    let before = owners.get(key).map(|owned| owned.set.clone()).unwrap_or_default();
    owner.set = before.difference(&change.removed).union(&change.modified).union(&change.added);
    owner.set = owner.set.recursive_difference(target.reset);
    if owner.set.is_empty() {
        owners.remove(key);
    } else {
        owners.insert(key.to_owned(), owner);
    }
    Ok(())
}

/// Applies a configuration: the new object, or `None` where it equals the live one.
pub(super) fn apply(
    target: &Target<'_>,
    live: &Value,
    config: &Value,
    owners: &mut Owners,
    mut owner: Owned,
    force: bool,
) -> Result<Option<Value>, Trouble> {
    reconcile_all(target, owners);
    let shape = target.shape();
    let merged = merge::merge(&shape, live, config).map_err(|errors| format!("failed to merge config: {errors}"))?;
    owner.set = field_set(&shape, config).recursive_difference(target.reset);
    let key = owner.identity();
    let last = owners.insert(key.clone(), owner);
    let object = prune(target, merged, owners, last.as_ref());
    transfer(target, live, &object, owners, &key, force)?;
    Ok((!item::same(live, &object)).then_some(object))
}

/// Sets written under an earlier schema are brought up to date; versions no longer served are forgotten.
fn reconcile_all(target: &Target<'_>, owners: &mut Owners) {
    owners.retain(|_, owned| match target.shape_in(&owned.api_version) {
        Some(shape) => {
            owned.set = reconcile::reconcile(&shape, &owned.set);
            true
        }
        None => false,
    });
}

/// Takes from everybody but `key` what changed or went away; a change of what others own is a conflict unless forced.
fn transfer(
    target: &Target<'_>,
    live: &Value,
    new: &Value,
    owners: &mut Owners,
    key: &str,
    force: bool,
) -> Result<Comparison, Trouble> {
    let versions = comparisons(target, live, new, owners)?;
    let mut conflicts = Vec::new();
    let mut kept = Owners::new();
    for (other, owned) in owners.iter() {
        if other == key {
            kept.insert(other.clone(), owned.clone());
            continue;
        }
        let Some(change) = versions.get(&owned.api_version) else { continue };
        let lost = owned.set.intersection(&change.modified.union(&change.added));
        let shown = owned.shown();
        conflicts.extend(lost.paths().into_iter().map(|path| Conflict { owner: shown.clone(), path }));
        let set = owned.set.difference(&lost).difference(&change.removed);
        kept.insert(other.clone(), Owned { set, ..owned.clone() });
    }
    if !force && !conflicts.is_empty() {
        return Err(Trouble::Conflicts(conflicts));
    }
    kept.retain(|_, owned| !owned.set.is_empty());
    *owners = kept;
    Ok(versions.get(target.api_version).cloned().unwrap_or_default())
}

/// What changed, as each version in use sees it.
fn comparisons(
    target: &Target<'_>,
    live: &Value,
    new: &Value,
    owners: &Owners,
) -> Result<BTreeMap<String, Comparison>, String> {
    let mut out = BTreeMap::new();
    let used = owners.values().map(|owned| owned.api_version.as_str()).chain([target.api_version]);
    for version in used {
        if out.contains_key(version) {
            continue;
        }
        let Some(shape) = target.shape_in(version) else { continue };
        let change = compare(&shape, live, new).map_err(|errors| format!("failed to compare objects: {errors}"))?;
        out.insert(version.to_owned(), change.without(target.reset));
    }
    Ok(out)
}

/// Removes what the manager applied last time, does not apply now, and nobody else owns.
fn prune(target: &Target<'_>, merged: Value, owners: &Owners, last: Option<&Owned>) -> Value {
    let Some(last) = last.filter(|last| !last.set.is_empty()) else { return merged };
    let Some(shape) = target.shape_in(&last.api_version) else { return merged };
    let named = |set: &FieldSet, shape: &Shape| with_named_parents(set, Some(shape));
    let mut pruned = remove::remove(&shape, &merged, &named(&last.set, &shape));
    let mut versions: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for owned in owners.values() {
        let set = versions.entry(&owned.api_version).or_default();
        *set = set.union(&owned.set);
    }
    // What anybody owns comes back, seen in the version it is owned in; the last applied version goes first.
    let mut order = versions.keys().copied().collect::<Vec<_>>();
    order.sort_by_key(|version| *version != last.api_version);
    for version in order {
        let (Some(shape), Some(owned)) = (target.shape_in(version), versions.get(version)) else { continue };
        let all = named(&field_set(&shape, &merged), &shape);
        let left = named(&field_set(&shape, &pruned), &shape);
        pruned = remove::remove(&shape, &merged, &all.difference(&left.union(&named(owned, &shape))));
    }
    // What was never applied by this manager was only removed along with its parent: it comes back too.
    let left = named(&field_set(&shape, &pruned), &shape);
    let all = named(&field_set(&shape, &merged), &shape);
    remove::remove(&shape, &merged, &all.difference(&left).intersection(&named(&last.set, &shape)))
}
