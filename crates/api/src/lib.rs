//! Nouns of Thane: error codes with exit codes and next steps, and the kinds every server has. No I/O.

pub mod code;
pub mod kinds;

pub use code::{Code, Exit};
