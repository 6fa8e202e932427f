//! Rego that decides whether a workload may start and whether its gates open. Deciding is a pure function of the
//! modules and the input; whatever goes wrong is a refusal that says so.

mod judge;
pub mod kept;
mod refused;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::time::Duration;

pub use judge::{Answer, Judge, Question};
use regorus::{Engine, Value};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What is asked of every set of policies.
pub const QUERY: &str = "data.agentworkload.policies.decision";
/// How long a decision may take.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// The largest module that is read.
pub const MODULE_BYTES: usize = 1 << 20;
/// The clock is looked at once in so many pieces of work.
const PACE: NonZeroU32 = NonZeroU32::new(64).expect("it is not zero");

/// One file of Rego, and what to call it when it is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Where it came from: a file, or a `ConfigMap` and its key.
    pub path: String,
    /// Its text.
    pub source: String,
}

/// Why policies cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unusable {
    /// There are none.
    #[error("there is no policy: label a ConfigMap with thane.dev/policy and give it a key that ends in .rego")]
    None,
    /// One is not Rego, neither of version 1 nor of version 0.
    #[error("{path} is not Rego: {why}")]
    Invalid {
        /// Which.
        path: String,
        /// What its reader says.
        why: String,
    },
    /// One calls what it may not.
    #[error("{path}, line {line}: http.send is not allowed in a policy, since it would answer nothing here")]
    Calls {
        /// Which.
        path: String,
        /// Where in it.
        line: usize,
    },
    /// One is too large to be read.
    #[error("{path} has {bytes} bytes, the most is {MODULE_BYTES}")]
    Large {
        /// Which.
        path: String,
        /// How much it has.
        bytes: usize,
    },
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether it may be.
    pub allow: bool,
    /// Why, in the policy's words or, when it said nothing, in ours.
    pub reason: String,
}

/// A decision, and which lines had a part in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// What was decided.
    pub decision: Decision,
    /// The modules that were read.
    pub modules: Vec<ExplainedModule>,
}

/// A module, and which of its lines were looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedModule {
    /// Where it came from.
    pub path: String,
    /// Lines that held as far as they were looked at.
    pub reached: Vec<u32>,
    /// Lines that were never looked at, since something before them did not hold.
    pub not_reached: Vec<u32>,
}

/// A set of policies that can be asked.
#[derive(Debug, Clone)]
pub struct Policies {
    engine: Engine,
    coverage: bool,
}

impl Policies {
    /// Reads modules. Each may be of either version of the language.
    pub fn load(modules: &[Module]) -> Result<Self, Unusable> {
        if modules.is_empty() {
            return Err(Unusable::None);
        }
        let mut engine = Engine::new();
        engine.set_execution_timer_config(regorus::utils::limits::ExecutionTimerConfig {
            limit: PATIENCE,
            check_interval: PACE,
        });
        for module in modules {
            add(&mut engine, module)?;
        }
        Ok(Self { engine, coverage: false })
    }

    /// Decides. Undefined, an error and too long are all a refusal.
    pub fn decide(&self, input: &serde_json::Value) -> Decision {
        self.ask(input).0
    }

    /// Decides, and says which lines had a part in it.
    pub fn explain(&self, input: &serde_json::Value) -> Explained {
        let mut covered = self.clone();
        covered.coverage = true;
        let (decision, engine) = covered.ask(input);
        let report = engine.get_coverage_report().map(|report| report.files).unwrap_or_default();
        let modules = report.into_iter().map(|file| ExplainedModule {
            path: file.path,
            reached: file.covered.into_iter().collect(),
            not_reached: file.not_covered.into_iter().collect(),
        });
        Explained { decision, modules: modules.collect() }
    }

    fn ask(&self, input: &serde_json::Value) -> (Decision, Engine) {
        let mut engine = self.engine.clone();
        engine.set_enable_coverage(self.coverage);
        engine.set_input(Value::from(input.clone()));
        let decision = match engine.eval_rule(QUERY.to_owned()) {
            Ok(value) => read(&value),
            Err(error) => refuse(&format!("the policy failed: {}", one_line(&error))),
        };
        (decision, engine)
    }
}

/// What a policy's answer means.
fn read(value: &Value) -> Decision {
    if matches!(value, Value::Undefined) {
        return refuse(&format!("{QUERY} is undefined"));
    }
    let Ok(object) = value.as_object() else {
        return refuse(&format!("{QUERY} is no object with allow and reason"));
    };
    let field = |name: &str| object.get(&Value::from(name));
    let reason = field("reason").and_then(|reason| reason.as_string().ok()).map(ToString::to_string);
    match field("allow") {
        Some(Value::Bool(allow)) => {
            let default = if *allow { "allowed by the policy" } else { "denied by the policy" };
            Decision { allow: *allow, reason: reason.unwrap_or_else(|| default.to_owned()) }
        }
        Some(_) => refuse(&format!("{QUERY}: allow is neither true nor false")),
        None => refuse(&format!("{QUERY} has no allow")),
    }
}

fn refuse(why: &str) -> Decision {
    Decision { allow: false, reason: why.to_owned() }
}

fn add(engine: &mut Engine, module: &Module) -> Result<(), Unusable> {
    let path = || module.path.clone();
    if module.source.len() > MODULE_BYTES {
        return Err(Unusable::Large { path: path(), bytes: module.source.len() });
    }
    if let Some(line) = refused::http_call(&module.source) {
        return Err(Unusable::Calls { path: path(), line });
    }
    // Version 1 refuses what only version 0 knows, so whatever it takes is meant for it.
    engine.set_rego_v0(false);
    let Err(error) = engine.add_policy(path(), module.source.clone()) else { return Ok(()) };
    engine.set_rego_v0(true);
    let done = engine.add_policy(path(), module.source.clone());
    done.map(drop).map_err(|_| Unusable::Invalid { path: path(), why: one_line(&error) })
}

/// An error of the engine without its drawing of the source.
fn one_line(error: &anyhow::Error) -> String {
    let text = error.to_string();
    let told = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('|'));
    let told: Vec<&str> = told.filter(|line| !line.contains(" | ") && *line != "^").take(4).collect();
    told.join(" ")
}
