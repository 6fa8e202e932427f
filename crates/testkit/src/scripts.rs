//! Scripted kubectl sessions, run against two servers, what they print compared.
//!
//! The scripts are in `kubectl/*.yaml`: each runs in a namespace of its own, `$NS`, which is also kubectl's default, in an
//! empty folder; each step is a line or more of shell.

mod lines;
mod run;
mod text;

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;

pub use run::{Session, Told};

/// A session.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Names the namespace.
    pub name: String,
    /// What is run, in order.
    pub steps: Vec<Step>,
}

/// One piece of shell.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Written")]
pub struct Step {
    /// The shell's input.
    pub run: String,
    /// Why what is printed is not compared; what it must contain is still checked.
    pub differs: Option<String>,
    /// Texts our server's output must contain.
    pub contains: Vec<String>,
    /// It prepares or cleans up: nothing is compared.
    pub quiet: bool,
}

/// A step as scripts write it: most are just the command.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Written {
    Command(String),
    Detail {
        run: String,
        differs: Option<String>,
        #[serde(default)]
        contains: Vec<String>,
        #[serde(default)]
        quiet: bool,
    },
}

impl From<Written> for Step {
    fn from(written: Written) -> Self {
        match written {
            Written::Command(run) => Self { run, differs: None, contains: Vec::new(), quiet: false },
            Written::Detail { run, differs, contains, quiet } => Self { run, differs, contains, quiet },
        }
    }
}

/// Reads all script files of a folder, in the order of their names.
pub fn load_all(folder: &Path) -> Result<Vec<Script>> {
    let mut files: Vec<_> = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut all: Vec<Script> = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path)?;
        let options = serde_saphyr::options! { strict_booleans: true };
        let scripts: Vec<Script> = serde_saphyr::from_str_with_options(&text, options)
            .map_err(|error| anyhow!("{}: {error}", path.display()))?;
        all.extend(scripts);
    }
    for (index, script) in all.iter().enumerate() {
        if all[..index].iter().any(|earlier| earlier.name == script.name) {
            bail!("a second script is called {:?}", script.name);
        }
        let reasons = script.steps.iter().filter_map(|step| step.differs.as_deref());
        if reasons.into_iter().any(|reason| reason.trim().is_empty()) {
            return Err(anyhow!("an accepted difference needs a reason")).context(script.name.clone());
        }
    }
    Ok(all)
}

/// What differs between two runs of a script, and what our server's output lacks.
pub fn differences(script: &Script, expected: &[Told], found: &[Told]) -> Vec<String> {
    let mut out = Vec::new();
    for ((step, expected), found) in script.steps.iter().zip(expected).zip(found) {
        let title = format!("{}: {}", script.name, step.run.trim());
        if !step.quiet && step.differs.is_none() && expected != found {
            out.push(format!("{title}\n{}", lines::differing(&expected.to_string(), &found.to_string())));
        }
        for text in step.contains.iter().filter(|text| !found.output.contains(text.as_str())) {
            out.push(format!("{title}\n--- lacks {text:?}\n--- found {found}"));
        }
    }
    out
}
