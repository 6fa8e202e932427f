//! Sets of paths into an object: what a field manager owns.

mod element;
mod encode;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub(crate) use element::Element;

/// A set of paths. A path may be in the set without its prefixes, and the other way round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    pub(crate) members: BTreeSet<Element>,
    pub(crate) children: BTreeMap<Element, FieldSet>,
}

impl FieldSet {
    /// The set with nothing in it.
    pub(crate) const fn new() -> Self {
        Self { members: BTreeSet::new(), children: BTreeMap::new() }
    }

    /// A set of dotted paths of plain fields, such as `["status", "metadata.ownerReferences"]`.
    pub(crate) fn of(paths: &[&str]) -> Self {
        let mut set = Self::new();
        for path in paths {
            let elements = path.split('.').map(|name| Element::Field(name.to_owned())).collect::<Vec<_>>();
            set.insert(&elements);
        }
        set
    }

    /// Adds a path; the empty path is not one.
    pub(crate) fn insert(&mut self, path: &[Element]) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut set = self;
        for element in parents {
            set = match set.children.entry(element.clone()) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Self::new()),
            };
        }
        set.members.insert(last.clone());
    }

    /// Whether exactly this path is in the set.
    pub(crate) fn has(&self, path: &[Element]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut set = self;
        for element in parents {
            match set.children.get(element) {
                Some(child) => set = child,
                None => return false,
            }
        }
        set.members.contains(last)
    }

    /// Whether there is no path in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// Paths in either set.
    #[must_use]
    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.members.extend(other.members.iter().cloned());
        for (element, theirs) in &other.children {
            match out.children.entry(element.clone()) {
                Entry::Occupied(mut entry) => {
                    let merged = entry.get().union(theirs);
                    entry.insert(merged);
                }
                Entry::Vacant(entry) => {
                    entry.insert(theirs.clone());
                }
            }
        }
        out
    }

    /// Paths in both sets.
    #[must_use]
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, ours)| {
            let both = ours.intersection(other.children.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self { members: self.members.intersection(&other.members).cloned().collect(), children: children.collect() }
    }

    /// Paths of this set that are not in the other.
    #[must_use]
    pub(crate) fn difference(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, ours)| {
            let Some(theirs) = other.children.get(element) else { return Some((element.clone(), ours.clone())) };
            let rest = ours.difference(theirs);
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { members: self.members.difference(&other.members).cloned().collect(), children: children.collect() }
    }

    /// Paths of this set that are neither in the other nor below a path of the other.
    #[must_use]
    pub(crate) fn recursive_difference(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, ours)| {
            if other.members.contains(element) {
                return None;
            }
            let Some(theirs) = other.children.get(element) else { return Some((element.clone(), ours.clone())) };
            let rest = ours.recursive_difference(theirs);
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { members: self.members.difference(&other.members).cloned().collect(), children: children.collect() }
    }

    /// Every path: at each level first what is in the set there, then what is deeper.
    pub(crate) fn paths(&self) -> Vec<Vec<Element>> {
        let mut out = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut out);
        out
    }

    fn collect_paths(&self, prefix: &mut Vec<Element>, out: &mut Vec<Vec<Element>>) {
        for member in &self.members {
            let mut path = prefix.clone();
            path.push(member.clone());
            out.push(path);
        }
        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.collect_paths(prefix, out);
            prefix.pop();
        }
    }
}

/// A path as conflicts print it, such as `.spec.containers[name="a"].image`.
pub(crate) fn show_path(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, path) in self.paths().iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&show_path(path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
