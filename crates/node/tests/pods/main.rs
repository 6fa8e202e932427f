//! Pods on a real embedded API, run on this machine. As anybody but root they are skipped, loudly.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests say why they fail or are skipped")]

mod access;
mod adoption;
mod bed;
mod escape;
mod forward;
mod images;
mod life;
mod placement;
mod probes;
mod sandbox;
mod steps;
mod terminal;
mod volumes;
