//! What hub and agent say to each other about an agent's Redis, and the keys it is about.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Serialize;

use crate::event::{Event, Target, Type};

/// Capability: an agent answers for the further parts of a large resource tree, too.
pub const SHARDS: &str = "redis-shards";

/// What Argo CD's keys about single applications begin with.
const PREFIXES: [&str; 2] = ["app|managed-resources", "app|resources-tree"];

/// A key of Argo CD's cache that is about one application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppKey<'a> {
    prefix: &'a str,
    /// The application's namespace, unless it is that of Argo CD.
    pub namespace: Option<&'a str>,
    /// The application's name.
    pub name: &'a str,
    /// The part of a large tree, and the version of the cache's format.
    rest: &'a str,
    /// Whether it is a further part of a large tree.
    pub is_shard: bool,
}

impl<'a> AppKey<'a> {
    /// Reads a key; none if it is about anything else.
    pub fn read(key: &'a str) -> Option<Self> {
        let prefix = PREFIXES.into_iter().find(|prefix| key.starts_with(prefix))?;
        let (prefix, rest) = key.split_at_checked(prefix.len())?;
        let (app, rest) = rest.strip_prefix('|')?.split_once('|')?;
        let is_shard = match rest.matches('|').count() {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (namespace, name) = match app.split_once('_') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, app),
        };
        Some(Self { prefix, namespace, name, rest, is_shard })
    }

    /// The same about the application of that name in Argo CD's own namespace.
    pub fn without_namespace(&self) -> String {
        format!("{}|{}|{}", self.prefix, self.name, self.rest)
    }
}

/// What is asked of an agent's Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// The value of a key.
    Get(String),
    /// To be told of messages of a channel.
    Subscribe(String),
    /// To go on telling.
    Ping,
}

/// A request to an agent's Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which one it is.
    pub id: String,
    /// What subscriptions belong to.
    pub connection: String,
    /// What is asked.
    pub ask: Ask,
}

/// What an agent's Redis said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The value is this.
    Hit(Bytes),
    /// There is no such key.
    Miss,
    /// It could not be read, and why.
    Failed(String),
    /// It will be told.
    Subscribed,
    /// It cannot be told, and why.
    Refused(String),
    /// There was a message on that channel.
    Message(String),
    /// It goes on telling.
    Pong,
}

/// An answer of an agent's Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The request it answers.
    pub id: String,
    /// That request's connection.
    pub connection: String,
    /// What was said.
    pub said: Said,
}

/// A body that says nothing we know.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is not the JSON it should be.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Its bytes are not encoded as they should be.
    #[error("the value is not in base64")]
    Base64,
    /// It has none of the parts that are known.
    #[error("it asks and says nothing")]
    Empty,
}

impl Request {
    /// The event that carries it.
    pub fn event(&self) -> Event {
        let (mut body, key) = (wire::Asked::default(), String::clone);
        match &self.ask {
            Ask::Get(wanted) => body.get = Some(wire::Get { key: key(wanted) }),
            Ask::Subscribe(wanted) => body.subscribe = Some(wire::Subscribe { channel: key(wanted) }),
            Ask::Ping => body.ping = Some(wire::Empty {}),
        }
        let message = wire::Message { uuid: self.id.clone(), connection_uuid: self.connection.clone(), body };
        Event::request(Target::Redis, Type::RedisRequest, &self.id, encode(&message))
    }

    /// Reads what an event carries.
    pub fn read(data: &[u8]) -> Result<Self, Unreadable> {
        let message: wire::Message<wire::Asked> = serde_json::from_slice(data)?;
        let ask = match message.body {
            wire::Asked { get: Some(get), .. } => Ask::Get(get.key),
            wire::Asked { subscribe: Some(subscribe), .. } => Ask::Subscribe(subscribe.channel),
            wire::Asked { ping: Some(_), .. } => Ask::Ping,
            wire::Asked { .. } => return Err(Unreadable::Empty),
        };
        Ok(Self { id: message.uuid, connection: message.connection_uuid, ask })
    }
}

impl Response {
    /// The event that carries it, with an id of its own.
    pub fn event(&self, id: String) -> Event {
        let mut body = wire::Answered::default();
        let get = |bytes: Option<String>, cache_hit, error: &str| {
            Some(wire::Got { bytes, cache_hit, error: error.to_owned() })
        };
        match &self.said {
            Said::Hit(value) => body.get = get(Some(BASE64_STANDARD.encode(value)), true, ""),
            Said::Miss => body.get = get(None, false, ""),
            Said::Failed(why) => body.get = get(None, false, why),
            Said::Subscribed => body.subscribe_response = Some(wire::Subscribed::default()),
            Said::Refused(why) => body.subscribe_response = Some(wire::Subscribed { error: why.clone() }),
            Said::Message(channel) => {
                body.push_from_subscribe = Some(wire::Pushed { channel_name: channel.clone() });
            }
            Said::Pong => body.pong = Some(wire::Empty {}),
        }
        let message = wire::Message { uuid: self.id.clone(), connection_uuid: self.connection.clone(), body };
        Event::answer(Target::Redis, Type::RedisResponse, id, &self.id, encode(&message))
    }

    /// Reads what an event carries.
    pub fn read(data: &[u8]) -> Result<Self, Unreadable> {
        let message: wire::Message<wire::Answered> = serde_json::from_slice(data)?;
        let said = match message.body {
            wire::Answered { get: Some(got), .. } => got.read()?,
            wire::Answered { subscribe_response: Some(done), .. } if done.error.is_empty() => Said::Subscribed,
            wire::Answered { subscribe_response: Some(done), .. } => Said::Refused(done.error),
            wire::Answered { push_from_subscribe: Some(pushed), .. } => Said::Message(pushed.channel_name),
            wire::Answered { pong: Some(_), .. } => Said::Pong,
            wire::Answered { .. } => return Err(Unreadable::Empty),
        };
        Ok(Self { id: message.uuid, connection: message.connection_uuid, said })
    }
}

fn encode(message: &impl Serialize) -> Bytes {
    // Texts and numbers alone: there is nothing in it that JSON does not have.
    serde_json::to_vec(message).unwrap_or_default().into()
}

/// The bodies as they are on the wire.
mod wire {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde::{Deserialize, Serialize};

    use super::{Said, Unreadable};

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Message<B> {
        pub(super) uuid: String,
        pub(super) connection_uuid: String,
        pub(super) body: B,
    }

    #[derive(Debug, Default, Serialize, Deserialize)]
    pub(super) struct Asked {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(super) get: Option<Get>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(super) subscribe: Option<Subscribe>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(super) ping: Option<Empty>,
    }

    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct Get {
        pub(super) key: String,
    }

    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct Subscribe {
        pub(super) channel: String,
    }

    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct Empty {}

    #[derive(Debug, Default, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Answered {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(super) get: Option<Got>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(super) subscribe_response: Option<Subscribed>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(super) push_from_subscribe: Option<Pushed>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(super) pong: Option<Empty>,
    }

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Got {
        pub(super) bytes: Option<String>,
        #[serde(default)]
        pub(super) cache_hit: bool,
        #[serde(default)]
        pub(super) error: String,
    }

    impl Got {
        pub(super) fn read(self) -> Result<Said, Unreadable> {
            if !self.error.is_empty() {
                return Ok(Said::Failed(self.error));
            }
            if !self.cache_hit {
                return Ok(Said::Miss);
            }
            let value = BASE64_STANDARD.decode(self.bytes.unwrap_or_default()).map_err(|_| Unreadable::Base64)?;
            Ok(Said::Hit(value.into()))
        }
    }

    #[derive(Debug, Default, Serialize, Deserialize)]
    pub(super) struct Subscribed {
        #[serde(default)]
        pub(super) error: String,
    }

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Pushed {
        pub(super) channel_name: String,
    }
}

#[cfg(test)]
mod tests;
