//! Service discovery: what runs where, whether it is well, and small pieces of shared data.
//!
//! One thing is read, blocked on, cached, pushed and resumed: a [`Topic`]. Its content is a [`TopicData`] with an index
//! of its own that grows when, and only when, that content changes. The hub keeps the registry and computes topics from
//! it; an agent holds the topics somebody near it asked for, kept fresh by deltas. The Consul API, the native API and DNS
//! are pure functions of topics over a [`Backend`], which is either.
//!
//! One thing is written: a [`Command`], decided by the registry against what it holds, and durable before it is answered.

pub mod access;
pub mod agent;
pub mod backend;
pub mod command;
pub mod consul;
pub mod decode;
pub mod dns;
pub mod filter;
pub mod http;
pub mod hub;
pub mod model;
pub mod native;
pub mod registry;
pub mod topic;
pub mod wire;

pub use backend::{Backend, Caller};
pub use command::Command;
pub use topic::{Topic, TopicData};
