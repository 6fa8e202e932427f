//! Talking to an API server: connection, kinds it has, manifests, tables.

pub(crate) mod catalog;
pub(crate) mod connection;
pub(crate) mod manifests;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod target;
mod warnings;
