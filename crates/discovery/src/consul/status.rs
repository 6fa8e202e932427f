//! `/v1/status/*`: who decides.

use super::call::{Call, Outcome};
use super::options::ReadOptions;
use crate::backend::Consistency;
use crate::topic::Topic;

/// Where Consul's servers talk among themselves; clients only look whether there is something.
const SERVER_PORT: u16 = 8300;

impl Call<'_> {
    /// Where the hub is known to be there: its address; otherwise nothing.
    async fn leader(&self) -> Result<Option<String>, super::Failure> {
        self.datacenter()?;
        let options = ReadOptions { consistency: Consistency::Stale, ..ReadOptions::default() };
        let known = match self.topic(&Topic::Services, &options).await {
            Ok(reading) => reading.freshness.connected,
            Err(_) => false,
        };
        Ok(known.then(|| format!("{}:{SERVER_PORT}", self.place().address)))
    }

    pub(super) async fn status_leader(&self) -> Outcome {
        let leader = self.leader().await?;
        self.json(&leader.unwrap_or_default())
    }

    pub(super) async fn status_peers(&self) -> Outcome {
        let leader = self.leader().await?;
        self.json(leader.as_slice())
    }
}
