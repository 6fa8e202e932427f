//! Names for services and nodes over DNS, as Consul answers them.
//!
//! What is asked is turned into the one topic that knows (`lookup`), the answer is a pure function of that topic's
//! content (`answer`), and bytes are read and written by `wire`. Only `serve` touches sockets.
//!
//! Where Consul's answers are harmful to caches ours differ: the zone itself and names that others are under exist
//! (no NXDOMAIN), every empty answer carries the SOA, and what does not fit says so by the TC bit.

mod answer;
mod lookup;
mod metrics;
mod name;
mod record;
mod serve;
mod wire;
mod write;

#[cfg(test)]
mod tests;

pub use metrics::Metrics;
pub use serve::{Edge, serve};

/// How names are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The zones answered for, without the dot at the end; the first is used in names we make.
    pub zones: Vec<String>,
    /// Seconds that services may be cached.
    pub service_ttl: u32,
    /// Seconds that nodes may be cached.
    pub node_ttl: u32,
    /// Leaves instances out that warn.
    pub only_passing: bool,
    /// Answers over UDP to those who do not speak EDNS.
    pub udp_answers_max: usize,
    /// Says by the TC bit that there would be more, also where only `udp_answers_max` cut the answer.
    pub truncate: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            zones: vec![String::from("consul")],
            service_ttl: 0,
            node_ttl: 0,
            only_passing: false,
            udp_answers_max: 3,
            truncate: false,
        }
    }
}
