//! What is worth counting or a line in the log.
#![expect(missing_docs, reason = "each field is what its variant says it is")]

use std::collections::BTreeMap;
use std::time::Duration;

use thane_api::event::{Target, Type};

use crate::failure::Class;
use crate::object::Key;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// An event had its effect, or needed none.
    Applied { target: Target, kind: Type, sent_at: Option<String>, trace: Option<String>, wrote: bool, took: Duration },
    /// An event cannot have its effect as things are.
    Refused { target: Target, kind: Type, trace: Option<String>, class: Class, message: String, took: Duration },
    /// A write failed and is tried again.
    Failed { key: Key, class: Class, message: String },
    /// The peer has processed an event.
    Acknowledged { target: Target, kind: Type, trace: Option<String>, waited: Duration, attempts: u32 },
    /// Something of the peer's was changed here and is put back.
    Repaired { key: Key },
    /// There was no room for an event; both sides will compare.
    Overflow { target: Target, kind: Type },
    /// The peer was away too long; what waited for it is gone and both sides will compare.
    GaveUp { events: BTreeMap<(Target, Type), usize> },
    /// Both sides compare what they have.
    Compare { reason: &'static str },
    /// They differed in that many objects of so many.
    Drift { differing: usize, of: usize },
    /// Everything is sent again, the same or not.
    Resent { reason: &'static str, objects: usize },
    /// A figure about the agent's cluster.
    ClusterInfo { applications: i64, apis: i64, resources: i64 },
}
