//! Process plumbing: configuration, telemetry, tasks, clock, network seams, PKI and TLS.

pub mod clock;
pub mod files;
pub mod net;
pub mod pki;
pub mod shutdown;
pub mod tasks;
pub mod tls;

pub use clock::{Clock, ManualClock, SharedClock, SystemClock};
pub use tasks::Tasks;
