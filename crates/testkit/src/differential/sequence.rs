//! The script format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::Value;

/// A named list of steps that runs in a namespace of its own, `${ns}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// Unique; lowercase words and hyphens, at most 40 characters, because it names the namespace.
    pub name: String,
    /// The file it came from.
    #[serde(skip)]
    pub file: String,
    /// The steps, run in order.
    pub steps: Vec<Step>,
    /// Paths deleted at the end, whatever happened; the namespace is deleted anyway.
    #[serde(default)]
    pub cleanup: Vec<String>,
}

/// One request and what is recorded of its answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// `METHOD /path?query`.
    #[serde(rename = "do")]
    pub request: String,
    /// Who asks; the administrator if absent.
    #[serde(rename = "as")]
    pub identity: Option<Identity>,
    /// Short name of a patch type (`json`, `merge`, `strategic`, `apply`) or a whole media type.
    #[serde(rename = "type")]
    pub media: Option<String>,
    /// More request headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Sent as JSON.
    pub body: Option<Value>,
    /// Sent as it is.
    pub raw: Option<String>,
    /// Sent decoded, for what is not text.
    pub base64: Option<String>,
    /// Sent while this one waits for its answer, which alone is recorded; for steps that block.
    pub meanwhile: Option<Box<Step>>,
    /// Values of the answer for later steps: name to JSON pointer into its body, or into the record if it begins with
    /// `/headers/`.
    #[serde(default)]
    pub save: BTreeMap<String, String>,
    /// Read as a watch.
    pub watch: Option<Watch>,
    /// Repeat until this holds; only the last answer is recorded.
    pub until: Option<Until>,
    /// Pointers into the record that are compared; all if empty.
    #[serde(default)]
    pub only: Vec<String>,
    /// Pointers into the record that vary by themselves.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// Lists of which only some entries are compared, in the order of their keys.
    #[serde(default)]
    pub keep: Vec<Keep>,
    /// Differences that are known and accepted.
    #[serde(default)]
    pub differs: Vec<Accepted>,
    /// The answer is not recorded: the step only prepares.
    #[serde(default)]
    pub quiet: bool,
}

/// Who sends a step.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Identity {
    /// `admin`, `anonymous`, or a user whom the administrator impersonates.
    Name(String),
    /// More about the impersonated user, or a bearer token.
    Detail {
        /// Impersonated user.
        user: Option<String>,
        /// Impersonated groups.
        #[serde(default)]
        groups: Vec<String>,
        /// Sent as bearer token, without a client certificate.
        token: Option<String>,
        /// Shown instead of the administrator's.
        certificate: Option<Certificate>,
    },
}

/// A client certificate that no server believes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certificate {
    /// Its authority is none of the server's.
    Foreign,
    /// It is out of date besides.
    Expired,
}

/// How long a watch is read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Stop after so many events.
    pub events: usize,
    /// Or after so many seconds.
    #[serde(default = "five")]
    pub seconds: u64,
}

/// A condition on an answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// JSON pointer into the record (`/status`, `/body/…`).
    pub path: String,
    /// The value there; absent means that nothing is there.
    pub equals: Option<Value>,
    /// Give up (and record what there is) after so many seconds.
    #[serde(default = "thirty")]
    pub seconds: u64,
}

/// Part of a list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// JSON pointer of the list in the record.
    pub path: String,
    /// JSON pointer of the key in each entry.
    pub key: String,
    /// The keys of the entries that are compared; all, sorted, if empty.
    #[serde(default, rename = "in")]
    pub keys: Vec<String>,
}

/// A difference that is known, with the reason why it stays.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    /// JSON pointer into the record; it covers all below.
    pub path: String,
    /// Why.
    pub because: String,
}

fn five() -> u64 {
    5
}

fn thirty() -> u64 {
    30
}

/// Reads one script file.
pub fn parse(file: &str, text: &str) -> Result<Vec<Sequence>> {
    // `y` and `no` are words here.
    let options = serde_saphyr::options! { strict_booleans: true };
    let mut sequences: Vec<Sequence> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| anyhow!("{file}: {error}"))?;
    for sequence in &mut sequences {
        file.clone_into(&mut sequence.file);
        check(sequence).with_context(|| format!("{file}: sequence {:?}", sequence.name))?;
    }
    Ok(sequences)
}

/// Reads all script files of a folder, in the order of their names.
pub fn load_all(folder: &Path) -> Result<Vec<Sequence>> {
    let mut files: Vec<_> = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut all = Vec::new();
    let mut names = BTreeSet::new();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for sequence in parse(&name, &std::fs::read_to_string(&path)?)? {
            if !names.insert(sequence.name.clone()) {
                bail!("{name}: a second sequence is called {:?}", sequence.name);
            }
            all.push(sequence);
        }
    }
    Ok(all)
}

fn check(sequence: &Sequence) -> Result<()> {
    let name = &sequence.name;
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 40 || !name.chars().all(allowed) {
        bail!("a name has up to 40 lowercase letters, digits and hyphens");
    }
    for (index, step) in sequence.steps.iter().enumerate() {
        let bodies = [step.body.is_some(), step.raw.is_some(), step.base64.is_some()];
        if bodies.iter().filter(|given| **given).count() > 1 {
            bail!("step {}: one of body, raw and base64", index + 1);
        }
        match step.request.split_once(' ') {
            Some((_, path)) if path.starts_with('/') => {}
            _ => bail!("step {}: {:?} is not `METHOD /path`", index + 1, step.request),
        }
        if step.differs.iter().any(|accepted| accepted.because.trim().is_empty()) {
            bail!("step {}: an accepted difference needs a reason", index + 1);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_with_mistakes_are_refused() {
        let check = |text: &str, complaint: &str| {
            let error = format!("{:#}", parse("a.yaml", text).unwrap_err());
            assert!(error.contains(complaint), "{error}");
        };
        check("- {name: A, steps: []}", "lowercase");
        check("- {name: a, steps: [{do: GET}]}", "METHOD");
        check("- {name: a, steps: [{do: GET /x, boby: 1}]}", "boby");
        check("- {name: a, steps: [{do: POST /x, body: 1, raw: x}]}", "one of");
        check("- {name: a, steps: [{do: GET /x, differs: [{path: /status, because: ''}]}]}", "reason");
    }

    #[test]
    fn all_scripts_parse() {
        let all = load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sequences")).unwrap();
        assert!(all.len() >= 120, "{} sequences", all.len());
    }
}
