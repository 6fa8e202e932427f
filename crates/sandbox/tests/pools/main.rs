//! Pools, claims and sandboxes on a real embedded API. Who runs the pods is played: a pod is ready when the test says so.
#![expect(clippy::unwrap_used, reason = "tests say why they fail")]

mod admission;
mod bed;
mod certificates;
mod claims;
mod operator;
