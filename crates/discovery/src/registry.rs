//! The registry, without a disk or a clock: what it holds, what a command does to it, and what its topics say.
//!
//! [`Tables`] hold everything. [`decide`] answers what a command would change, without changing it; [`Tables::apply`]
//! changes it and says which rows of which topics that touched. Whoever keeps the tables stores what was written.

mod apply;
mod deadlines;
mod decide;
mod draft;
mod id;
mod record;
mod tables;
#[cfg(test)]
mod tests;
mod thing;
mod tombs;
mod touch;
mod view;

pub use apply::Applied;
pub use deadlines::{Deadlines, Due};
pub use decide::{
    LOCK_DELAY_MAX, SERF_HEALTH, SESSION_TTL_MAX, SESSION_TTL_MIN, VALUE_BYTES_MAX, decide, due, seen, serf_health,
};
pub use draft::{Asker, Changes};
pub use id::Id;
pub use record::{Damaged, State};
pub use tables::Tables;
pub use thing::{AgentRecord, Delay, NameRow, Thing};
pub use tombs::TombKey;
pub use touch::Touch;
pub use view::Answers;
