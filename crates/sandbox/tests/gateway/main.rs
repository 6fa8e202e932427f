//! The gateway on an embedded API, with sidecars that only pretend to run anything.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

mod bed;
mod execute;
mod fake;
mod files;
mod keys;
mod life;
mod pools;
mod restore;
mod shell;
