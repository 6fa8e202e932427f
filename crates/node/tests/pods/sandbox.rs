//! Sandboxes: steps, files and what comes back, through the sidecar that answers at the pod's address.

mod client;
mod files;
mod snapshots;
mod steps;
