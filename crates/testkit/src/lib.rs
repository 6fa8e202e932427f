//! Real peers on loopback, and the suites that hold Thane against them.

pub mod argo;
pub mod bench;
pub mod client;
pub mod corpus;
pub mod deployed;
pub mod differential;
pub mod endpoint;
pub mod fleet;
pub mod image;
pub mod peer;
pub mod scripts;
