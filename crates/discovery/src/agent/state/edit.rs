//! What is to be changed, and what that comes to.

use std::sync::Arc;

use bytes::Bytes;

use super::Kept;
use crate::agent::pending::ItemKey;
use crate::model::{Check, Service, Status};

/// What somebody wants changed.
#[derive(Debug, Clone)]
pub enum Change {
    /// An instance with its checks.
    Register(Box<Service>, Vec<Check>, ReplaceChecks),
    /// An instance goes.
    Deregister(String),
    /// A check.
    RegisterCheck(Box<Check>),
    /// A check goes.
    DeregisterCheck(String),
    /// In or out of maintenance: an instance, or the node.
    Maintain(Option<String>, Option<String>),
    /// What a check's runs have led to.
    Observed(Observed),
}

/// Whether checks of an instance that are not named again go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaceChecks {
    /// They go.
    Yes,
    /// They stay.
    No,
}

/// What a check's runs have led to.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The check.
    pub id: String,
    /// Which life of it.
    pub generation: u64,
    /// How it stands.
    pub status: Status,
    /// What it says.
    pub output: String,
    /// Whether the hub is told now.
    pub tell: bool,
}

/// One thing that is different afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// An instance is there.
    Service(Arc<Service>),
    /// An instance is gone.
    NoService(String),
    /// A check is there.
    Check(Kept, Effect),
    /// A check is gone.
    NoCheck(String),
}

/// What else a check's edit brings about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// It is kept on disk.
    pub keep: bool,
    /// The hub is told.
    pub tell: bool,
    /// It is run anew.
    pub run: bool,
}

impl Edit {
    /// The item the hub is to be told of.
    pub fn told(&self) -> Option<ItemKey> {
        match self {
            Self::Service(service) => Some(ItemKey::Service(service.id.clone())),
            Self::NoService(id) => Some(ItemKey::Service(id.clone())),
            Self::Check(kept, effect) => effect.tell.then(|| ItemKey::Check(kept.check.id.clone())),
            Self::NoCheck(id) => Some(ItemKey::Check(id.clone())),
        }
    }

    /// What it changes on disk: the key, and its new value or `None`.
    pub fn kept(&self) -> Option<(Bytes, Option<Bytes>)> {
        let json = |value: Result<Vec<u8>, _>| value.ok().map(Bytes::from);
        match self {
            Self::Service(service) => Some((service_key(&service.id), json(serde_json::to_vec(service.as_ref())))),
            Self::NoService(id) => Some((service_key(id), None)),
            Self::Check(kept, effect) => {
                effect.keep.then(|| (check_key(&kept.check.id), json(serde_json::to_vec(kept.check.as_ref()))))
            }
            Self::NoCheck(id) => Some((check_key(id), None)),
        }
    }
}

/// What keys of instances begin with.
pub const SERVICES: &str = "s/";
/// What keys of checks begin with.
pub const CHECKS: &str = "c/";

fn service_key(id: &str) -> Bytes {
    format!("{SERVICES}{id}").into()
}

fn check_key(id: &str) -> Bytes {
    format!("{CHECKS}{id}").into()
}
