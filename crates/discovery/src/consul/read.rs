//! Reading a topic: at once, or when it has changed.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Consul;
use super::failure::Failure;
use super::options::ReadOptions;
use crate::backend::{Caller, Consistency, Reading};
use crate::model::Index;
use crate::topic::{Topic, TopicData};

/// How long a blocked query waits if it does not say.
const WAIT_DEFAULT: Duration = Duration::from_mins(5);
/// The longest a blocked query waits, whatever it says.
const WAIT_MAX: Duration = Duration::from_mins(10);
/// Up to this part of the wait is added at random, so that queries do not end together.
const JITTER_PART: u32 = 16;

impl Consul {
    /// The topic as the options ask for it. `found` tells an answer from none: while there is none, a blocked query goes
    /// on waiting though the index moves.
    pub(super) async fn read(
        &self,
        caller: &Caller,
        topic: &Topic,
        options: &ReadOptions,
        found: impl Fn(&TopicData) -> bool,
    ) -> Result<Reading, Failure> {
        if options.index == 0 {
            return self.once(caller, topic, options).await;
        }
        let _slot = self.blocked.try_acquire().map_err(|_| self.too_many())?;
        let deadline = Instant::now() + waiting(options.wait);
        let (mut floor, mut absent) = (options.index, false);
        loop {
            // Taken before the reading, or a change between the two is missed.
            let wake = self.backend.wake(topic);
            let reading = self.once(caller, topic, options).await?;
            let index = shown(reading.data.index);
            if !found(&reading.data) {
                if absent {
                    floor = floor.max(index);
                }
                absent = true;
            }
            if index > floor {
                return Ok(reading);
            }
            // What nobody looks at while it waits need not be kept as it is.
            drop(reading);
            if timeout_at(deadline, wake).await.is_err() {
                return self.once(caller, topic, options).await;
            }
        }
    }

    async fn once(&self, caller: &Caller, topic: &Topic, options: &ReadOptions) -> Result<Reading, Failure> {
        let reading = self.reading(caller, topic, options.consistency).await?;
        let stale = options.max_stale.is_some_and(|most| reading.freshness.last_contact > most);
        let aged =
            options.cached && options.max_age.is_some_and(|most| reading.freshness.hit.is_some_and(|age| age > most));
        if stale || aged {
            return self.reading(caller, topic, Consistency::Consistent).await;
        }
        Ok(reading)
    }

    async fn reading(&self, caller: &Caller, topic: &Topic, consistency: Consistency) -> Result<Reading, Failure> {
        match self.backend.ready(topic, consistency) {
            Some(reading) => Ok(reading),
            None => Ok(self.backend.read_for(caller, topic, consistency).await?),
        }
    }
}

/// The index as clients see it: with 0 they would not block.
pub(super) fn shown(index: Index) -> Index {
    index.max(1)
}

fn waiting(asked: Option<Duration>) -> Duration {
    let wait = asked.unwrap_or(WAIT_DEFAULT).min(WAIT_MAX);
    wait + (wait / JITTER_PART).mul_f64(rand::random::<f64>())
}
