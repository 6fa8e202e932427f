//! What hub and agent share around the protocol: watches of the API, writes to it, and the loop of one connection.

mod drive;
mod metrics;
mod objects;
mod passing;
mod rights;
pub mod tunnel;
mod watch;

pub use drive::{Command, Driver, Snapshot, Stream, Tell, Troubled};
pub use metrics::{Figures, LinkMetrics, Role};
pub use objects::{Objects, collection, slim};
pub use passing::{Line, Passage, Passing, Takers, Unsent};
pub use rights::explain;
pub use watch::{Observed, Source, follow};
