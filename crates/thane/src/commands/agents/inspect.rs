//! `thane agents inspect`.

use std::fmt::Write;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use thane_runtime::pki::Details;
use thane_runtime::{Clock, SystemClock};

use super::list::Row;
use super::{Common, cluster, fingerprint, record};
use crate::failure::Failure;
use crate::fleet::BLOCKLIST;
use crate::fleet::objects::Objects;
use crate::fleet::troubles::{Trouble, Troubles};
use crate::output::{print, print_structured};

/// Show all that is known about an agent
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The agent's name
    name: String,
    #[command(flatten)]
    common: Common,
}

impl Inspect {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let session = self.common.hub.open().await?;
        let objects = Objects::new(&session);
        let (_, found) = cluster(&objects, &self.name).await?;
        let certificate = found.certificate.clone();
        let record = record(&objects, &self.name).await?;
        let row = Row::new(found, record.as_ref());
        let has_namespace = objects.get(&format!("/api/v1/namespaces/{}", self.name)).await?.is_some();
        let blocklist = objects.get(&objects.path("configmaps", BLOCKLIST)).await?;
        let is_listed = |mark: &str| blocklist.as_ref().is_some_and(|list| list["data"].get(mark).is_some());
        let is_blocked = row.fingerprint.as_deref().is_some_and(is_listed)
            || certificate.as_ref().is_ok_and(|details| is_listed(&fingerprint(details)));
        if let Some(form) = self.common.output {
            let mut value = serde_json::to_value(&row).unwrap_or_default();
            value["hasNamespace"] = json!(has_namespace);
            value["blocked"] = json!(is_blocked);
            value["troubles"] = record.as_ref().map(|record| record["status"]["troubles"].clone()).unwrap_or_default();
            value["certificate"] = match &certificate {
                Ok(details) => serde_json::to_value(details).unwrap_or_default(),
                Err(why) => json!({"unusable": why}),
            };
            return print_structured(&value, form);
        }
        let text = text(&row, &certificate, has_namespace, is_blocked, SystemClock::new().now());
        print(&format!("{text}{}", in_trouble(&record.map(|record| Troubles::read(&record)).unwrap_or_default())))
    }
}

/// What cannot be done before somebody puts it right, with what to do.
fn in_trouble(troubles: &Troubles) -> String {
    let mut text = String::new();
    for Trouble { of, message, next } in &troubles.named {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "In trouble, on the {of}'s side: {message}\n  next: {next}");
    }
    if troubles.unnamed > 0 {
        let _ = writeln!(text, "In trouble: {} more", troubles.unnamed);
    }
    text
}

fn text(
    row: &Row,
    certificate: &Result<Details, String>,
    has_namespace: bool,
    is_blocked: bool,
    now: Timestamp,
) -> String {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let connected = match row.connected {
        Some(true) => format!("yes, since {}, from {}", or_dash(&row.since), or_dash(&row.address)),
        Some(false) => format!("no, since {}", or_dash(&row.since)),
        None => "never".to_owned(),
    };
    let mut lines = vec![
        ("Agent", row.name.clone()),
        ("Connected", connected),
        ("Mode", or_dash(&row.mode)),
        ("Version", or_dash(&row.version)),
        ("Namespace", or_dash(&row.namespace)),
        ("Certificate", or_dash(&row.fingerprint)),
        ("Blocked", if is_blocked { "yes" } else { "no" }.to_owned()),
        ("On the hub", if has_namespace { "has its namespace" } else { "has no namespace of its own" }.to_owned()),
        ("Server", row.server.clone()),
    ];
    match certificate {
        Ok(details) => {
            lines.push(("Argo CD's", fingerprint(details)));
            let left = details
                .time_left(now)
                .map_or("over".to_owned(), |left| format!("{} days left", left.as_secs() / 86_400));
            lines.push(("Valid until", format!("{}, {left}", details.not_after)));
        }
        Err(why) => lines.push(("Argo CD's", format!("unusable: {why}"))),
    }
    for (name, value) in &row.labels {
        lines.push(("Label", format!("{name}={}", value.as_str().unwrap_or_default())));
    }
    crate::output::pairs(&lines)
}
