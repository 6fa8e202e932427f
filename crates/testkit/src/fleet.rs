//! A hub and an agent, each Go's or ours, each on a Kubernetes API that is the real one or ours.
//!
//! What a test sees of them is what users see: objects on the two APIs, which it writes and waits for through [`Side`].

pub(crate) mod api;
pub mod bench;
mod live;
mod lone;
pub mod object;
mod pair;
mod program;
mod role;
mod secrets;
mod side;

pub use api::ApiKind;
pub use live::LivePair;
pub use lone::LoneHub;
pub use pair::{Options, Pair};
pub use program::{Mode, Program, Programs};
pub use role::Stop;
pub use side::{Objects, PATIENCE, Side};
