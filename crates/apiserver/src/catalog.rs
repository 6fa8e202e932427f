//! All resource types this server has, swapped as a whole when a `CustomResourceDefinition` changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use arc_swap::ArcSwap;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::builtin;
use crate::resource::ResourceType;

/// The types at one moment.
#[derive(Default)]
pub(crate) struct Types {
    by_path: BTreeMap<(String, String, String), Arc<ResourceType>>,
    groups: Vec<Group>,
    /// The requests that write by these types.
    writers: TaskTracker,
}

/// One API group with its versions, the preferred one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Group name; empty for core.
    pub name: String,
    /// Versions, best first.
    pub versions: Vec<String>,
}

impl Types {
    fn new(types: impl IntoIterator<Item = Arc<ResourceType>>) -> Self {
        let mut by_path = BTreeMap::new();
        let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for kind in types {
            let known = versions.entry(kind.group.clone()).or_default();
            if !known.contains(&kind.version) {
                known.push(kind.version.clone());
            }
            by_path.insert((kind.group.clone(), kind.version.clone(), kind.plural.clone()), kind);
        }
        let mut groups: Vec<Group> = versions
            .into_iter()
            .map(|(name, mut versions)| {
                versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
                Group { name, versions }
            })
            .collect();
        groups.sort_by_key(|group| (group_rank(&group.name), group.name.clone()));
        Self { by_path, groups, writers: TaskTracker::new() }
    }

    /// Waits for the requests that still write by these types, once others have taken their place.
    pub(crate) async fn written(&self) {
        self.writers.close();
        self.writers.wait().await;
    }

    /// The type served at a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceType>> {
        self.by_path.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// The type of a kind, at that version.
    pub(crate) fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<ResourceType>> {
        let in_version = self.by_path.iter().filter(|((g, v, _), _)| g == group && v == version);
        in_version.map(|(_, candidate)| candidate).find(|candidate| candidate.kind == kind)
    }

    /// The types of one group and version, in order of their names.
    pub(crate) fn in_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<ResourceType>> + 'a {
        self.by_path.iter().filter(move |((g, v, _), _)| g == group && v == version).map(|(_, kind)| kind)
    }

    /// The groups, in the order discovery shows them.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Every stored collection once (a type served at several versions, or in two groups, is one collection).
    pub(crate) fn collections(&self) -> Vec<Arc<ResourceType>> {
        let mut seen = std::collections::BTreeSet::new();
        let mut out = Vec::new();
        for group in &self.groups {
            for version in &group.versions {
                for kind in self.in_version(&group.name, version) {
                    if seen.insert(kind.prefix().to_owned()) {
                        out.push(Arc::clone(kind));
                    }
                }
            }
        }
        out
    }

    /// The type that stands for a stored collection: the best version of it.
    pub(crate) fn collection(&self, group: &str, plural: &str) -> Option<&Arc<ResourceType>> {
        let versions = &self.groups.iter().find(|known| known.name == group)?.versions;
        versions.iter().find_map(|version| self.find(group, version, plural))
    }

    /// All types.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.by_path.values()
    }
}

/// GA before beta before alpha, then the higher number; other names last, alphabetically.
fn version_rank(version: &str) -> (u8, u32, u32, std::cmp::Reverse<String>) {
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u32 = rest[..digits].parse().ok()?;
        let (stage, minor) = match &rest[digits..] {
            "" => (3, 0),
            tail => {
                let (stage, number) =
                    tail.strip_prefix("beta").map(|n| (2, n)).or_else(|| tail.strip_prefix("alpha").map(|n| (1, n)))?;
                (stage, number.parse().ok()?)
            }
        };
        Some((stage, major, minor))
    });
    match parsed {
        Some((stage, major, minor)) => (stage, major, minor, std::cmp::Reverse(String::new())),
        None => (0, 0, 0, std::cmp::Reverse(version.to_owned())),
    }
}

/// Kubernetes' own groups come first, in its order; groups of custom resources follow by name.
pub(crate) fn group_rank(group: &str) -> usize {
    const ORDER: &[&str] = &[
        "",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "networking.k8s.io",
        "rbac.authorization.k8s.io",
        "apiextensions.k8s.io",
        "coordination.k8s.io",
    ];
    ORDER.iter().position(|name| *name == group).unwrap_or(ORDER.len())
}

/// The types now.
pub(crate) struct Catalog {
    types: ArcSwap<Types>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self { types: ArcSwap::from_pointee(Types::new(builtins())) }
    }
}

fn builtins() -> Vec<Arc<ResourceType>> {
    builtin::kinds().iter().map(|kind| Arc::new(ResourceType::builtin(kind))).collect()
}

impl Catalog {
    /// The types now; a request keeps the snapshot it began with.
    pub(crate) fn types(&self) -> Arc<Types> {
        self.types.load_full()
    }

    /// The types now, for a request that writes by them: whoever replaces them can wait until it has given the token up.
    pub(crate) fn types_to_write(&self) -> (Arc<Types>, TaskTrackerToken) {
        loop {
            let types = self.types();
            let token = types.writers.token();
            // Counted before it looks again, as they are replaced before their writers are counted: one sees the other.
            fence(Ordering::SeqCst);
            if Arc::ptr_eq(&types, &self.types()) {
                return (types, token);
            }
        }
    }

    /// The built-in type `plural` of `group`.
    ///
    /// # Panics
    /// If there is none: a mistake in this program.
    pub(crate) fn builtin(&self, group: &str, plural: &str) -> Arc<ResourceType> {
        let types = self.types();
        let found = types.all().find(|kind| kind.is(group, plural)).cloned();
        found.expect("built-in types are always in the catalog")
    }

    /// Replaces all custom types; the types as they were.
    pub(crate) fn set_custom(&self, custom: impl IntoIterator<Item = Arc<ResourceType>>) -> Arc<Types> {
        let before = self.types.swap(Arc::new(Types::new(builtins().into_iter().chain(custom))));
        fence(Ordering::SeqCst);
        before
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn replaced_types_wait_for_their_writers() {
        let catalog = Catalog::default();
        let (types, writing) = catalog.types_to_write();
        let before = catalog.set_custom([]);
        assert!(Arc::ptr_eq(&types, &before));
        assert_eq!(before.written().now_or_never(), None);
        let (_, later) = catalog.types_to_write();
        drop(writing);
        assert_eq!(before.written().now_or_never(), Some(()), "one that writes by the new types does not matter");
        drop(later);
    }

    #[test]
    fn versions_sort_as_kubernetes_sorts_them() {
        let mut versions = ["foo1", "v1alpha1", "v10", "v2", "v11beta2", "v1beta1", "v1", "foo10"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v11beta2", "v1beta1", "v1alpha1", "foo1", "foo10"]);
    }
}
