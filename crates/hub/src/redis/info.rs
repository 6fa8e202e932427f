//! What Argo CD shows of agents' clusters, kept in the hub's Redis as Argo CD itself would.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use flate2::write::GzEncoder;
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use serde_json::json;
use thane_redis::client::{Client, Error, Server};
use thane_runtime::SharedClock;
use thane_runtime::net::SharedNetwork;
use tokio_util::sync::CancellationToken;

use crate::roster::{Member, Presence, Roster};

/// The version of the format of Argo CD's cache.
const FORMAT: &str = "1.8.3";
/// Argo CD forgets after ten minutes what nobody repeats.
const EXPIRY: &str = "600";
const REPEAT: Duration = Duration::from_mins(3);
/// Bytes of what Redis says to what is written.
const REPLY_MAX: usize = 16 * 1024;
/// How long to wait after it could not be written.
const AGAIN: Duration = Duration::from_secs(10);

/// How Argo CD compresses what it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// With gzip, its default.
    Gzip,
    /// Not at all.
    None,
}

pub(super) struct Info {
    pub(super) server: Server,
    pub(super) network: SharedNetwork,
    pub(super) roster: Roster,
    pub(super) compression: Compression,
    pub(super) clock: SharedClock,
    pub(super) failures: Counter,
}

impl Info {
    /// Writes what has changed at once, and everything again every few minutes.
    pub(super) async fn run(self, stop: CancellationToken) {
        let started = self.clock.now();
        let mut changes = self.roster.changes();
        let (mut client, mut written, mut has_failed) = (None, BTreeMap::new(), false);
        let mut repeat = tokio::time::interval(REPEAT);
        loop {
            changes.mark_unchanged();
            let outcome = tokio::select! {
                () = stop.cancelled() => return,
                outcome = self.write(&mut client, &mut written, started) => outcome,
            };
            let wait = match outcome {
                Ok(()) => {
                    has_failed = false;
                    None
                }
                Err(error) => {
                    self.failures.inc();
                    client = None;
                    if !std::mem::replace(&mut has_failed, true) {
                        let redis = &self.server;
                        tracing::warn!(%redis, %error, "Argo CD cannot be shown which agents are connected");
                    }
                    Some(AGAIN)
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
                news = changes.changed(), if wait.is_none() => if news.is_err() { return },
                _ = repeat.tick() => written.clear(),
            }
        }
    }

    async fn write(
        &self,
        client: &mut Option<Client>,
        written: &mut BTreeMap<String, Member>,
        started: Timestamp,
    ) -> Result<(), Error> {
        let members = self.roster.members();
        written.retain(|agent, _| members.contains_key(agent));
        for (agent, member) in members {
            if written.get(&agent) == Some(&member) || member.server.is_empty() {
                continue;
            }
            let client = match client {
                Some(client) => client,
                None => client.insert(self.server.open(&self.network, REPLY_MAX).await?),
            };
            let (key, value) = entry(&agent, &member, started, self.compression);
            client.call(&[b"SET", key.as_bytes(), &value, b"EX", EXPIRY.as_bytes()]).await?;
            written.insert(agent, member);
        }
        Ok(())
    }
}

/// The key and the value for one agent.
fn entry(agent: &str, member: &Member, started: Timestamp, compression: Compression) -> (String, Vec<u8>) {
    let (status, message, at) = match member.presence {
        Presence::Connected(since) => ("Successful", format!("agent {agent} is connected"), since),
        Presence::Gone(since) => ("Failed", format!("agent {agent} is not connected"), since),
        Presence::Unseen => ("Failed", format!("agent {agent} has not connected since the hub started"), started),
    };
    let info = json!({
        "connectionState": {"status": status, "message": message, "attemptedAt": at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()},
        "cacheInfo": {},
        "applicationsCount": member.applications,
    });
    let (key, text) = (format!("cluster|info|{}|{FORMAT}", member.server), format!("{info}\n"));
    match compression {
        Compression::None => (key, text.into_bytes()),
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            // Memory takes what it is given.
            let compressed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
            (format!("{key}.gz"), compressed.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn entries_are_those_argo_cd_reads() {
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        let server = "https://127.0.0.1:9090?agentName=one".to_owned();
        for (presence, status) in
            [(Presence::Connected(at), "Successful"), (Presence::Gone(at), "Failed"), (Presence::Unseen, "Failed")]
        {
            let mut member = Member::default();
            (member.server, member.presence, member.applications) = (server.clone(), presence, 3);
            let (key, plain) = entry("one", &member, at, Compression::None);
            assert_eq!(key, "cluster|info|https://127.0.0.1:9090?agentName=one|1.8.3");
            let (compressed_key, compressed) = entry("one", &member, at, Compression::Gzip);
            assert_eq!(compressed_key, format!("{key}.gz"));
            let mut text = Vec::new();
            GzDecoder::new(&compressed[..]).read_to_end(&mut text).unwrap();
            assert_eq!(text, plain);
            let info: serde_json::Value = serde_json::from_slice(&plain).unwrap();
            assert_eq!(info["connectionState"]["status"], status);
            assert_eq!(info["connectionState"]["attemptedAt"], "2023-11-14T22:13:20Z");
            assert_eq!(info["applicationsCount"], 3);
        }
    }
}
