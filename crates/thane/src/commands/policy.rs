//! `thane policy`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use k8s_openapi::api::core::v1::ConfigMap;
use thane_api::code;
use thane_workload::policy::{Answer, Explained, Judge as _, Module, Question};

use super::rows::Form;
use crate::failure::Failure;
use crate::judge::Apart;
use crate::kubernetes::manifests;
use crate::output::{Structured, print, print_structured};

/// Policies that let workloads start and open their gates
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    Test(Test),
    Explain(Explain),
}

/// Print what policies decide on an input
#[derive(Debug, Args)]
pub(crate) struct Test {
    #[command(flatten)]
    asked: Asked,
}

/// Print what policies decide on an input, and which of their lines had a part in it
#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    asked: Asked,
}

#[derive(Debug, Args)]
struct Asked {
    /// File with the input as JSON: stage, workload, gate, insights, confidence, threshold, now
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Files of Rego, or with `ConfigMaps` that have it
    #[arg(value_name = "POLICY", required = true)]
    policies: Vec<PathBuf>,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
}

impl Policy {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Test(command) => command.run().await,
            Self::Explain(command) => command.run().await,
        }
    }
}

impl Test {
    async fn run(&self) -> Result<(), Failure> {
        let decision = self.asked.ask(false).await?.decision;
        match structured(self.asked.output) {
            Some(form) => print_structured(&serde_json::json!(decision), form),
            None => print(&said(decision.allow, &decision.reason)),
        }
    }
}

impl Explain {
    async fn run(&self) -> Result<(), Failure> {
        let explained = self.asked.ask(true).await?;
        if let Some(form) = structured(self.asked.output) {
            return print_structured(&serde_json::json!(explained), form);
        }
        let mut text = said(explained.decision.allow, &explained.decision.reason);
        for module in explained.modules {
            let lines = |lines: &[u32]| lines.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            text.extend([format!("\n{}\n  lines looked at: {}\n", module.path, lines(&module.reached))]);
            if !module.not_reached.is_empty() {
                text.extend([format!("  lines never reached: {}\n", lines(&module.not_reached))]);
            }
        }
        print(&text)
    }
}

fn said(allow: bool, reason: &str) -> String {
    format!("{}: {reason}\n", if allow { "allow" } else { "deny" })
}

fn structured(form: Option<Form>) -> Option<Structured> {
    match form {
        Some(Form::Json) => Some(Structured::Json),
        Some(Form::Yaml) => Some(Structured::Yaml),
        Some(Form::Wide) | None => None,
    }
}

impl Asked {
    /// Asks the way the operator does.
    async fn ask(&self, explain: bool) -> Result<Explained, Failure> {
        let text = file(&self.input)?;
        let input = serde_json::from_str(&text)
            .map_err(|error| Failure::new(code::POLICY_UNUSABLE, format!("{}: {error}", self.input.display())))?;
        let mut modules = Vec::new();
        for path in &self.policies {
            modules.extend(read(path)?);
        }
        match Apart.judge(Question { modules, input, explain }).await {
            Answer::Decided(explained) => Ok(explained),
            Answer::Unusable(why) => Err(Failure::new(code::POLICY_UNUSABLE, why)),
        }
    }
}

/// The modules of a file: Rego itself, or what `ConfigMaps` in it have.
fn read(path: &Path) -> Result<Vec<Module>, Failure> {
    let text = file(path)?;
    if path.extension().is_some_and(|extension| extension == "rego") {
        return Ok(vec![Module { path: path.display().to_string(), source: text }]);
    }
    let mut modules = Vec::new();
    for manifest in manifests::parse(&path.display().to_string(), &text)? {
        if manifest.kind == "ConfigMap" {
            let map: ConfigMap = serde_json::from_value(manifest.object)
                .map_err(|error| Failure::new(code::POLICY_UNUSABLE, format!("{}: {error}", path.display())))?;
            modules.extend(thane_workload::policy::kept::modules(&map));
        }
    }
    Ok(modules)
}

fn file(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::new(code::FILE_FAILED, format!("read {}: {error}", path.display())))
}
