//! An event before it is sent.

use std::collections::BTreeMap;

use bytes::Bytes;
use thane_api::event::{Event, Target, Type};

use crate::lane::Lane;
use crate::object::Object;

/// The payload of an event, serialised when it is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Nothing.
    Empty,
    /// An object, shared with whoever else has it.
    Object(Object),
    /// JSON as it is.
    Json(Bytes),
}

impl Body {
    fn into_bytes(self) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::Json(bytes) => bytes,
            Self::Object(object) => {
                serde_json::to_vec(&*object).expect("a JSON value in memory always has a text form").into()
            }
        }
    }
}

/// An event that is to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// What it keeps its order with.
    pub lane: Lane,
    /// What it is about.
    pub target: Target,
    /// What it says.
    pub kind: Type,
    /// The wire's name of what it is about.
    pub resource_id: String,
    /// The start of its id; a suffix that no other event has is added, unless it is sent only once.
    pub event_id: String,
    /// `<namespace>/<name>` of the object, where it is about one.
    pub subject: Option<String>,
    /// Its payload.
    pub body: Body,
    /// Further attributes.
    pub extensions: BTreeMap<String, String>,
    /// Lanes that are to be empty before it is sent.
    pub needs: Vec<Lane>,
}

impl Outgoing {
    /// Whether it is repeated until the peer has it; as `Event::wants_acknowledgement`.
    pub(super) fn is_tracked(&self) -> bool {
        !matches!(self.target, Target::Processed | Target::Heartbeat)
    }

    pub(super) fn into_event(self) -> Event {
        Event {
            target: self.target,
            kind: self.kind,
            resource_id: self.resource_id,
            event_id: self.event_id,
            subject: self.subject,
            data: self.body.into_bytes(),
            extensions: self.extensions,
        }
    }
}
