//! Events as `CloudEvents`, and back. What comes is never trusted: every part has a bound.

use std::collections::{BTreeMap, HashMap};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::{Event, Target, Type};
use crate::wire::cloudevents::cloud_event::Data;
use crate::wire::cloudevents::cloud_event_attribute_value::Attr;
use crate::wire::cloudevents::{CloudEvent, CloudEventAttributeValue};

const SPEC_VERSION: &str = "1.0";
const JSON: &str = "application/json";
const DATA_SCHEMA: &str = "dataschema";
const DATA_CONTENT_TYPE: &str = "datacontenttype";
const SUBJECT: &str = "subject";
const TIME: &str = "time";
const RESOURCE_ID: &str = "resourceid";
const EVENT_ID: &str = "eventid";
/// Attributes with a place of their own in an event.
const RESERVED: [&str; 6] = [DATA_SCHEMA, DATA_CONTENT_TYPE, SUBJECT, TIME, RESOURCE_ID, EVENT_ID];

/// Attributes of one event.
const ATTRIBUTES_MAX: usize = 64;
/// Bytes in the name of an attribute.
const NAME_MAX: usize = 128;
/// Bytes in the value of an attribute; identifiers are a name, a uid and a version.
const VALUE_MAX: usize = 4096;

/// What is wrong with something that was received.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes are no message.
    #[error("the frame is not a message: {0}")]
    Frame(String),
    /// There is no event in the message.
    #[error("the message holds no event")]
    Absent,
    /// An attribute that every event has is missing or empty.
    #[error("the event has no {0}")]
    Missing(&'static str),
    /// A part is larger than any honest one.
    #[error("{0} of the event is too long")]
    TooLong(&'static str),
    /// More attributes than any honest event has.
    #[error("the event has {0} attributes")]
    TooMany(usize),
    /// An attribute is of a kind it cannot be.
    #[error("an attribute of the event is not readable")]
    Attribute,
    /// The payload is a protobuf message, which no event carries.
    #[error("the payload is not JSON")]
    Payload,
}

impl Fault {
    /// A word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Frame(_) => "frame",
            Self::Absent => "absent",
            Self::Missing(_) => "missing",
            Self::TooLong(_) | Self::TooMany(_) => "too_long",
            Self::Attribute => "attribute",
            Self::Payload => "payload",
        }
    }
}

/// Something was received that is no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct DecodeError {
    /// What is wrong.
    pub fault: Fault,
    ids: Option<Box<(String, String)>>,
}

impl DecodeError {
    /// The acknowledgement that keeps the peer from sending the same again for ever, if it said which event it is.
    pub fn acknowledgement(&self) -> Option<Event> {
        let (resource_id, event_id) = &**self.ids.as_ref()?;
        Some(Event {
            target: Target::Processed,
            kind: Type::Processed,
            resource_id: resource_id.clone(),
            event_id: event_id.clone(),
            subject: None,
            data: Bytes::new(),
            extensions: BTreeMap::new(),
        })
    }
}

impl From<Fault> for DecodeError {
    fn from(fault: Fault) -> Self {
        Self { fault, ids: None }
    }
}

impl Event {
    /// The event in a `CloudEvent`.
    pub fn from_wire(mut wire: CloudEvent) -> Result<Self, DecodeError> {
        let resource_id = identifier(&mut wire.attributes, RESOURCE_ID, "resource id");
        let event_id = identifier(&mut wire.attributes, EVENT_ID, "event id");
        let (resource_id, event_id) = (resource_id?, event_id?);
        match parts(wire) {
            Ok((target, kind, subject, data, extensions)) => {
                Ok(Self { target, kind, resource_id, event_id, subject, data, extensions })
            }
            Err(fault) => Err(DecodeError { fault, ids: Some(Box::new((resource_id, event_id))) }),
        }
    }

    /// The event as a `CloudEvent` from `source`.
    pub fn into_wire(self, source: &str) -> CloudEvent {
        let attribute = |attr| CloudEventAttributeValue { attr: Some(attr) };
        let text = |text: String| attribute(Attr::CeString(text));
        let mut attributes = HashMap::with_capacity(self.extensions.len() + 5);
        for (name, value) in self.extensions {
            if !RESERVED.contains(&name.as_str()) {
                attributes.insert(name, text(value));
            }
        }
        attributes.insert(DATA_SCHEMA.to_owned(), attribute(Attr::CeUri(self.target.as_str().to_owned())));
        attributes.insert(RESOURCE_ID.to_owned(), text(self.resource_id));
        attributes.insert(EVENT_ID.to_owned(), text(self.event_id));
        if let Some(subject) = self.subject {
            attributes.insert(SUBJECT.to_owned(), text(subject));
        }
        if !self.data.is_empty() {
            attributes.insert(DATA_CONTENT_TYPE.to_owned(), text(JSON.to_owned()));
        }
        CloudEvent {
            id: String::new(),
            source: source.to_owned(),
            spec_version: SPEC_VERSION.to_owned(),
            r#type: self.kind.as_str().into_owned(),
            attributes,
            data: Some(Data::BinaryData(self.data)),
        }
    }
}

type Attributes = HashMap<String, CloudEventAttributeValue>;
type Parts = (Target, Type, Option<String>, Bytes, BTreeMap<String, String>);

fn identifier(attributes: &mut Attributes, name: &'static str, words: &'static str) -> Result<String, DecodeError> {
    let value = attributes.remove(name).map(text).transpose()?.unwrap_or_default();
    if value.is_empty() {
        return Err(Fault::Missing(words).into());
    }
    Ok(bounded(value, VALUE_MAX, words)?)
}

fn parts(wire: CloudEvent) -> Result<Parts, Fault> {
    let mut attributes = wire.attributes;
    if attributes.len() > ATTRIBUTES_MAX {
        return Err(Fault::TooMany(attributes.len()));
    }
    let target = attributes.remove(DATA_SCHEMA).map(text).transpose()?.unwrap_or_default();
    let target = bounded(target, NAME_MAX, "target")?;
    let kind = bounded(wire.r#type, NAME_MAX, "type")?;
    if target.is_empty() {
        return Err(Fault::Missing("target"));
    }
    if kind.is_empty() {
        return Err(Fault::Missing("type"));
    }
    let subject = attributes.remove(SUBJECT).map(text).transpose()?;
    let subject = subject.map(|subject| bounded(subject, VALUE_MAX, "subject")).transpose()?;
    attributes.remove(DATA_CONTENT_TYPE);
    attributes.remove(TIME);
    let data = match wire.data {
        None => Bytes::new(),
        Some(Data::BinaryData(data)) => data,
        Some(Data::TextData(text)) => Bytes::from(text),
        Some(Data::ProtoData(_)) => return Err(Fault::Payload),
    };
    let mut extensions = BTreeMap::new();
    for (name, value) in attributes {
        let value = bounded(text(value)?, VALUE_MAX, "attribute")?;
        extensions.insert(bounded(name, NAME_MAX, "name of an attribute")?, value);
    }
    Ok((Target::of_name(&target), Type::of_name(&kind), subject, data, extensions))
}

fn bounded(value: String, max: usize, words: &'static str) -> Result<String, Fault> {
    if value.len() > max { Err(Fault::TooLong(words)) } else { Ok(value) }
}

/// Any attribute as text, in the form the `CloudEvents` specification gives it.
fn text(value: CloudEventAttributeValue) -> Result<String, Fault> {
    Ok(match value.attr.ok_or(Fault::Attribute)? {
        Attr::CeString(text) | Attr::CeUri(text) | Attr::CeUriRef(text) => text,
        Attr::CeBoolean(value) => value.to_string(),
        Attr::CeInteger(value) => value.to_string(),
        Attr::CeBytes(bytes) if bytes.len() > VALUE_MAX => return Err(Fault::TooLong("attribute")),
        Attr::CeBytes(bytes) => STANDARD.encode(bytes),
        Attr::CeTimestamp(time) => {
            jiff::Timestamp::new(time.seconds, time.nanos).map_err(|_| Fault::Attribute)?.to_string()
        }
    })
}

#[cfg(test)]
mod tests;
