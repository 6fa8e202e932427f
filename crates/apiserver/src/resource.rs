//! A resource type: everything the verbs need to know about one kind at one version.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;

use crate::builtin;
use crate::crd::{CustomKind, Scale, Version};
use crate::failure::Failure;
use crate::field::FieldError;
use crate::patch::apply::{Replicas, Target, reset_fields};
use crate::schema::{self, Schema};

mod behaviour;

/// One kind at one version.
pub(crate) struct ResourceType {
    /// API group; empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Kind of its list.
    pub list_kind: String,
    /// Resource name.
    pub plural: String,
    /// Resource name for one.
    pub singular: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories.
    pub categories: Vec<String>,
    /// Lives in a namespace.
    pub namespaced: bool,
    /// Has a status subresource.
    pub status: bool,
    /// Where its scale subresource finds its numbers.
    pub scale: Option<Scale>,
    /// What it does.
    pub behaviour: Behaviour,
    api_version: String,
    prefix: String,
}

/// Where a type's behaviour comes from.
#[derive(Clone)]
pub(crate) enum Behaviour {
    /// Written in Rust.
    Builtin(&'static builtin::Kind),
    /// Described by a `CustomResourceDefinition`.
    Custom(Arc<Custom>),
}

/// A version of a custom resource.
pub(crate) struct Custom {
    /// The version.
    pub version: Version,
    /// The schema of the version objects are stored in, which decides what of a stored object is still there.
    pub stored: Arc<Schema>,
    /// The schemas of the other versions, by `group/version`.
    pub other_versions: Vec<(String, Arc<Schema>)>,
    /// The store's revision when this was made; differs for each spec.
    pub made: u64,
    /// The newest revision at which objects may have been stored under another spec: any, until no such write is under
    /// way.
    pub revision: Arc<AtomicU64>,
    /// There is no other version, so that objects written after `revision` were pruned and defaulted by this very
    /// schema. Others are when they are read.
    pub alone: bool,
    /// The definition is going away: nothing new is stored.
    pub terminating: AtomicBool,
}

impl ResourceType {
    /// A built-in type.
    pub(crate) fn builtin(kind: &'static builtin::Kind) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Self {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            kind: kind.kind.to_owned(),
            list_kind: format!("{}List", kind.kind),
            plural: kind.plural.to_owned(),
            singular: kind.singular.to_owned(),
            short_names: owned(kind.short_names),
            categories: owned(kind.categories),
            namespaced: kind.namespaced,
            status: kind.status,
            scale: None,
            behaviour: Behaviour::Builtin(kind),
            api_version: api_version(kind.group, kind.version),
            // both groups of Event show the same objects
            prefix: prefix(if kind.plural == "events" { "" } else { kind.group }, kind.plural),
        }
    }

    /// The types described by a `CustomResourceDefinition`: one for each version that is served.
    ///
    /// `revision` is the newest at which objects may have been stored under another spec.
    pub(crate) fn custom(definition: &CustomKind, made: u64, revision: &Arc<AtomicU64>) -> Vec<Self> {
        let versions = &definition.versions;
        let served = versions.iter().filter(|version| version.served);
        served
            .map(|version| {
                let others = versions.iter().filter(|other| other.name != version.name);
                Self::custom_version(
                    definition,
                    Custom {
                        version: version.clone(),
                        stored: Arc::clone(&definition.storage().unwrap_or(version).schema),
                        other_versions: others
                            .map(|other| (api_version(&definition.group, &other.name), Arc::clone(&other.schema)))
                            .collect(),
                        made,
                        revision: Arc::clone(revision),
                        alone: versions.len() == 1,
                        terminating: AtomicBool::new(false),
                    },
                )
            })
            .collect()
    }

    fn custom_version(definition: &CustomKind, custom: Custom) -> Self {
        Self {
            group: definition.group.clone(),
            version: custom.version.name.clone(),
            kind: definition.kind.clone(),
            list_kind: definition.list_kind.clone(),
            plural: definition.plural.clone(),
            singular: definition.singular.clone(),
            short_names: definition.short_names.clone(),
            categories: definition.categories.clone(),
            namespaced: definition.namespaced,
            status: custom.version.status,
            scale: custom.version.scale.clone(),
            api_version: api_version(&definition.group, &custom.version.name),
            prefix: prefix(&definition.group, &definition.plural),
            behaviour: Behaviour::Custom(Arc::new(custom)),
        }
    }

    /// The refusal of an object of this type. Both groups of Event are one to Kubernetes here.
    pub(crate) fn invalid(&self, name: &str, errors: &[FieldError]) -> Failure {
        let group = if self.is_other_event() { "" } else { &self.group };
        Failure::invalid(group, &self.kind, name, errors)
    }

    /// `group/version`, or the version alone for core.
    pub(crate) fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The key of an object, or of a collection's start when `name` is empty.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Bytes {
        if self.namespaced && !namespace.is_empty() {
            format!("{}{namespace}/{name}", self.prefix).into()
        } else {
            format!("{}{name}", self.prefix).into()
        }
    }

    /// The prefix of all objects of the type.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Its schema.
    pub(crate) fn schema(&self) -> Arc<Schema> {
        match &self.behaviour {
            Behaviour::Builtin(kind) => schema::builtin(kind.definition).unwrap_or_default(),
            Behaviour::Custom(custom) => Arc::clone(&custom.version.schema),
        }
    }

    /// What decides about ownership of fields in writes to a part of the object.
    pub(crate) fn with_target<R>(&self, subresource: &str, use_it: impl FnOnce(&Target<'_>) -> R) -> R {
        let others = match &self.behaviour {
            Behaviour::Builtin(_) => &[][..],
            Behaviour::Custom(custom) => custom.other_versions.as_slice(),
        };
        use_it(&Target {
            schema: &self.schema(),
            api_version: &self.api_version,
            kind: &self.kind,
            builtin: !self.is_custom(),
            subresource,
            reset: &reset_fields(&self.api_version, &self.kind, self.status, subresource),
            other_versions: others,
        })
    }

    /// Where its objects keep their replicas and in which versions, for managers of its scale.
    pub(crate) fn with_replicas<R>(&self, scale: &Scale, use_it: impl FnOnce(&Replicas<'_>) -> R) -> R {
        let other_versions = match &self.behaviour {
            Behaviour::Builtin(_) => &[][..],
            Behaviour::Custom(custom) => custom.other_versions.as_slice(),
        };
        use_it(&Replicas { api_version: &self.api_version, other_versions, path: &scale.spec_replicas })
    }

    /// The built-in strategy, if it has one.
    pub(crate) fn strategy(&self) -> Option<&'static dyn builtin::Strategy> {
        match &self.behaviour {
            Behaviour::Builtin(kind) => Some(kind.strategy),
            Behaviour::Custom(_) => None,
        }
    }

    /// It is a `CustomResourceDefinition`'s.
    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.behaviour, Behaviour::Custom(_))
    }

    /// From now on nothing new of a custom type may be stored. Requests that looked before may still store something.
    pub(crate) fn terminate(&self) {
        if let Behaviour::Custom(custom) = &self.behaviour {
            custom.terminating.store(true, Ordering::SeqCst);
        }
    }

    /// Its definition is going away.
    pub(crate) fn is_terminating(&self) -> bool {
        matches!(&self.behaviour, Behaviour::Custom(custom) if custom.terminating.load(Ordering::SeqCst))
    }

    /// Secrets may be encrypted at rest.
    pub(crate) fn is_secret(&self) -> bool {
        self.group.is_empty() && self.plural == "secrets"
    }

    /// Whether it is the built-in resource `group/plural`.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        !self.is_custom() && self.group == group && self.plural == plural
    }

    /// It is the type of definitions.
    pub(crate) fn is_definition(&self) -> bool {
        self.is("apiextensions.k8s.io", "customresourcedefinitions")
    }

    /// Events of either group.
    pub(crate) fn is_event(&self) -> bool {
        self.is("", "events") || self.is_other_event()
    }

    fn is_other_event(&self) -> bool {
        self.is("events.k8s.io", "events")
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn prefix(group: &str, plural: &str) -> String {
    format!("/registry/{}/{plural}/", if group.is_empty() { "core" } else { group })
}
