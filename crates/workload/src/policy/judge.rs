//! Asking policies from a distance. A policy may take all memory there is in one call, where no clock reaches it, so whoever
//! decides must not be the process that lives on.

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decision, Explained, Module, Policies, refuse};

/// What is asked, of which policies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// All their modules.
    pub modules: Vec<Module>,
    /// What they are asked with.
    pub input: Value,
    /// Whether it is told which lines had a part in it.
    pub explain: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// They decided, or failed to.
    Decided(Explained),
    /// They cannot be asked, and why.
    Unusable(String),
}

/// Who asks policies, apart from whoever needs their word.
pub trait Judge: std::fmt::Debug + Send + Sync {
    /// Asks. Whatever goes wrong is a refusal that says so.
    fn judge(&self, question: Question) -> BoxFuture<'_, Answer>;
}

impl Question {
    /// Asks in this process, which may not survive it.
    pub fn answer(&self) -> Answer {
        match Policies::load(&self.modules) {
            Ok(policies) if self.explain => Answer::Decided(policies.explain(&self.input)),
            Ok(policies) => Answer::Decided(Explained { decision: policies.decide(&self.input), modules: Vec::new() }),
            Err(unusable) => Answer::Unusable(unusable.to_string()),
        }
    }
}

impl Answer {
    /// The policies could not come to a decision.
    pub fn failed(why: &str) -> Self {
        Self::Decided(Explained { decision: refuse(&format!("the policy failed: {why}")), modules: Vec::new() })
    }

    /// The decision; where there was nobody to ask, a refusal.
    pub fn decision(self) -> Decision {
        match self {
            Self::Decided(explained) => explained.decision,
            Self::Unusable(why) => refuse(&why),
        }
    }
}
