//! `thane agents list`.

use std::collections::BTreeMap;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use thane_runtime::config::units::Span;
use thane_runtime::{Clock, SystemClock};

use super::Common;
use crate::failure::Failure;
use crate::fleet::AGENTS;
use crate::fleet::cluster::{Cluster, SELECTOR};
use crate::fleet::objects::Objects;
use crate::kubernetes::table::plain;
use crate::output::{print, print_structured, tell};

/// List agents: who is connected, in which mode, since when
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    common: Common,
    /// Labels that their cluster Secrets must have
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
}

/// One agent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) mode: Option<String>,
    pub(super) connected: Option<bool>,
    pub(super) version: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) address: Option<String>,
    pub(super) since: Option<String>,
    pub(super) fingerprint: Option<String>,
    pub(super) server: String,
    pub(super) labels: Map<String, Value>,
}

impl Row {
    /// What its Secret says, and what the hub saw of it.
    pub(super) fn new(cluster: Cluster, record: Option<&Value>) -> Self {
        let status = record.map_or(&Value::Null, |record| &record["status"]);
        let text = |key: &str| status[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Self {
            mode: text("mode"),
            connected: status["connected"].as_bool(),
            version: text("version"),
            namespace: text("namespace"),
            address: text("address"),
            since: text("since"),
            fingerprint: text("fingerprint"),
            name: cluster.agent,
            server: cluster.server,
            labels: cluster.labels,
        }
    }

    fn cells(self, now: Timestamp) -> Vec<String> {
        let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let connected = match self.connected {
            Some(true) => "yes",
            Some(false) => "no",
            None => "never",
        };
        let since = self.since.map(|since| age(&since, now));
        vec![self.name, dash(self.mode), connected.to_owned(), dash(self.version), dash(since)]
    }
}

/// How long ago, in words as short as kubectl's.
fn age(since: &str, now: Timestamp) -> String {
    let Ok(at) = since.parse::<Timestamp>() else { return since.to_owned() };
    let seconds = u64::try_from(now.duration_since(at).as_secs()).unwrap_or_default();
    let rounded = match seconds {
        0..120 => seconds,
        120..7_200 => seconds / 60 * 60,
        7_200..172_800 => seconds / 3_600 * 3_600,
        _ => seconds / 86_400 * 86_400,
    };
    Span(std::time::Duration::from_secs(rounded)).to_string()
}

impl List {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = self.common.hub.open().await?;
        let objects = Objects::new(&session);
        let mut selector = SELECTOR.to_owned();
        if let Some(more) = &self.selector {
            selector = format!("{selector},{more}");
        }
        let query: String = selector.bytes().map(encode).collect();
        let path = format!("/api/v1/namespaces/{}/secrets?labelSelector={query}", objects.namespace());
        let secrets = objects.list(&path).await?.unwrap_or_default();
        let records = objects.list(AGENTS).await?.unwrap_or_default();
        let records: BTreeMap<&str, &Value> =
            records.iter().filter_map(|record| Some((record["metadata"]["name"].as_str()?, record))).collect();
        let clusters = secrets.iter().filter_map(Cluster::read);
        let mut rows: Vec<Row> = clusters
            .map(|cluster| {
                let record = records.get(cluster.agent.as_str()).copied();
                Row::new(cluster, record)
            })
            .collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(form) = self.common.output {
            return print_structured(&rows, form);
        }
        if rows.is_empty() {
            tell("no agents; make one with `thane agents create`");
            return Ok(());
        }
        let now = SystemClock::new().now();
        let cells = rows.into_iter().map(|row| row.cells(now)).collect();
        print(&plain(&["NAME", "MODE", "CONNECTED", "VERSION", "SINCE"], cells))
    }
}

fn encode(byte: u8) -> String {
    let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if is_plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        for (seconds, expected) in [(5, "5s"), (119, "1m59s"), (601, "10m"), (10_000, "2h"), (500_000, "5d")] {
            let since = Timestamp::from_second(1_000_000 - seconds).unwrap().to_string();
            assert_eq!(age(&since, now), expected);
        }
        assert_eq!(age("yesterday", now), "yesterday");
        assert_eq!(age(&Timestamp::MAX.to_string(), now), "0s");
    }
}
