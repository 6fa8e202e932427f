//! Nouns of Thane: error codes with exit codes and next steps. No I/O.

pub mod code;

pub use code::{Code, Exit};
