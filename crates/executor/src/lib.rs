//! The first process of a container, as others see it: what it is told to be, how it is talked to, what it leaves on disk.

#[cfg(feature = "client")]
pub mod client;
pub mod exit;
pub mod frame;
pub mod log;
pub mod message;
pub mod plan;
pub mod step;
pub mod tarball;
