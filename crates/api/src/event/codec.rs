//! Events on a gRPC stream: a frame that is no event is an item like any other, so that it does not end the stream.

use std::sync::Arc;

use bytes::Buf;
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::{DecodeError, Event, Fault};
use crate::wire::events;

/// Bytes that an idle stream holds in each direction; more is taken when events come.
const BUFFER: usize = 2 * 1024;
/// Events that are ready are sent together up to so many bytes.
const BATCH: usize = 32 * 1024;

/// Encodes and decodes the stream of events.
#[derive(Debug, Clone)]
pub struct Codec {
    source: Arc<str>,
}

impl Codec {
    /// A codec for events that come from `source`.
    pub fn new(source: impl Into<Arc<str>>) -> Self {
        Self { source: source.into() }
    }
}

impl tonic::codec::Codec for Codec {
    type Encode = Event;
    type Decode = Result<Event, DecodeError>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for Codec {
    type Item = Event;
    type Error = Status;

    fn encode(&mut self, event: Event, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let message = events::Event { event: Some(event.into_wire(&self.source)) };
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, BATCH)
    }
}

impl Decoder for Codec {
    type Item = Result<Event, DecodeError>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        // What a message leaves unread would be taken for the beginning of the next one.
        let frame = buffer.copy_to_bytes(buffer.remaining());
        Ok(Some(decode(frame)))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, BATCH)
    }
}

fn decode(frame: bytes::Bytes) -> Result<Event, DecodeError> {
    let message = events::Event::decode(frame).map_err(|error| Fault::Frame(error.to_string()))?;
    Event::from_wire(message.event.ok_or(Fault::Absent)?)
}
