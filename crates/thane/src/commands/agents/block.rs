//! `thane agents block` and `thane agents unblock`.

use clap::Args;
use serde_json::{Map, Value, json};
use thane_api::code;
use thane_runtime::{Clock, SystemClock};

use super::{Common, cluster, fingerprint, record};
use crate::failure::Failure;
use crate::fleet::BLOCKLIST;
use crate::fleet::objects::Objects;

/// Stop believing an agent's certificates, at once
///
/// The one it last connected with, and the one Argo CD shows in its name.
#[derive(Debug, Args)]
pub(crate) struct Block {
    /// The agent's name
    name: String,
    /// SHA-256 of another certificate to block instead, in hexadecimal; may be repeated
    #[arg(long = "fingerprint", value_name = "SHA256")]
    fingerprints: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Believe an agent's certificates again
#[derive(Debug, Args)]
pub(crate) struct Unblock {
    /// The agent's name
    name: String,
    /// SHA-256 of one certificate alone, in hexadecimal; may be repeated
    #[arg(long = "fingerprint", value_name = "SHA256")]
    fingerprints: Vec<String>,
    #[command(flatten)]
    common: Common,
}

impl Block {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = self.common.hub.open().await?;
        let objects = Objects::new(&session);
        let fingerprints = if self.fingerprints.is_empty() {
            known(&objects, &self.name).await?
        } else {
            self.fingerprints.iter().map(|text| normal(text)).collect::<Result<_, _>>()?
        };
        if fingerprints.is_empty() {
            let message = format!("no certificate of agent {} is known here", self.name);
            return Err(Failure::new(code::AGENT_UNKNOWN, message).with_hint("name one with --fingerprint"));
        }
        let note = format!("{}, blocked at {}", self.name, SystemClock::new().now());
        add(&objects, &note, &fingerprints).await?;
        let report = json!({"agent": self.name, "blocked": fingerprints});
        self.common.report(&report, &format!("blocked {} certificates of agent {}", fingerprints.len(), self.name))
    }
}

impl Unblock {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = self.common.hub.open().await?;
        let objects = Objects::new(&session);
        let path = objects.path("configmaps", BLOCKLIST);
        let list = objects.get(&path).await?.unwrap_or_default();
        let given: Vec<String> = self.fingerprints.iter().map(|text| normal(text)).collect::<Result<_, _>>()?;
        let own = if given.is_empty() { known(&objects, &self.name).await.unwrap_or_default() } else { Vec::new() };
        let is_meant = |mark: &str, note: &Value| {
            if given.is_empty() {
                own.iter().any(|own| own == mark) || note.as_str().is_some_and(|note| is_about(note, &self.name))
            } else {
                given.iter().any(|given| given == mark)
            }
        };
        let data = list["data"].as_object().cloned().unwrap_or_default();
        let marks: Vec<String> =
            data.iter().filter(|(mark, note)| is_meant(mark, note)).map(|(mark, _)| mark.clone()).collect();
        if !marks.is_empty() {
            let gone: Map<String, Value> = marks.iter().map(|mark| (mark.clone(), Value::Null)).collect();
            objects.merge(&path, &json!({"data": gone})).await?;
        }
        let report = json!({"agent": self.name, "unblocked": marks});
        self.common.report(&report, &format!("unblocked {} certificates of agent {}", marks.len(), self.name))
    }
}

/// Certificates of an agent that the hub knows.
async fn known(objects: &Objects<'_>, agent: &str) -> Result<Vec<String>, Failure> {
    let (_, cluster) = cluster(objects, agent).await?;
    let seen = record(objects, agent).await?;
    let own = seen.as_ref().and_then(|seen| seen["status"]["fingerprint"].as_str()).map(str::to_owned);
    let mut all: Vec<String> = own.into_iter().chain(cluster.certificate.as_ref().ok().map(fingerprint)).collect();
    all.dedup();
    Ok(all)
}

/// Puts certificates on the list, with a note whose they are.
pub(super) async fn add(objects: &Objects<'_>, note: &str, fingerprints: &[String]) -> Result<(), Failure> {
    let data: Map<String, Value> = fingerprints.iter().map(|mark| (mark.clone(), note.into())).collect();
    let path = objects.path("configmaps", BLOCKLIST);
    if objects.get(&path).await?.is_some() {
        return objects.merge(&path, &json!({"data": data})).await.map(|_| ());
    }
    let metadata = json!({"name": BLOCKLIST, "namespace": objects.namespace()});
    let list = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    objects.create(&format!("/api/v1/namespaces/{}/configmaps", objects.namespace()), &list).await.map(|_| ())
}

/// Certificates that others took the place of are not believed again.
fn is_about(note: &str, agent: &str) -> bool {
    note.strip_prefix(agent).is_some_and(|rest| rest.starts_with(", blocked"))
}

/// A fingerprint as the list has it, however it was written.
fn normal(text: &str) -> Result<String, Failure> {
    let plain: String = text.chars().filter(|c| *c != ':').map(|c| c.to_ascii_uppercase()).collect();
    if plain.len() == 64 && plain.chars().all(|c| c.is_ascii_hexdigit()) {
        return Ok(plain);
    }
    Err(Failure::new(code::USAGE, format!("{text:?} is not a SHA-256 in hexadecimal")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_written_one_way() {
        let expected = "AB".repeat(32);
        for text in ["ab".repeat(32), "AB:".repeat(31) + "ab"] {
            assert_eq!(normal(&text).unwrap(), expected);
        }
        for bad in ["", "ab", &"xy".repeat(32)] {
            assert!(normal(bad).is_err(), "{bad}");
        }
        assert!(is_about("blue, blocked at x", "blue") && !is_about("blue-2, blocked", "blue"));
        assert!(!is_about("blue, replaced at x", "blue"));
    }
}
