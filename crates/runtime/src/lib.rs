//! Process plumbing: configuration, telemetry, tasks, clock, network seams, PKI and TLS.

pub mod admin;
pub mod admission;
pub mod clock;
pub mod config;
pub mod dial;
pub mod files;
pub mod metrics;
pub mod net;
pub mod open_files;
pub mod pki;
pub mod pods;
pub mod readiness;
pub mod rooms;
pub mod shutdown;
pub mod tasks;
pub mod telemetry;
pub mod tls;

pub use clock::{Clock, ManualClock, SharedClock, SystemClock};
pub use tasks::Tasks;
