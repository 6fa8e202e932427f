//! What is known of a pod's containers.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

/// A pod's containers by name.
pub(crate) type Containers = BTreeMap<String, ContainerState>;

/// What is known of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContainerState {
    /// What it does now.
    pub(crate) now: Now,
    /// How it ended before.
    pub(crate) last: Option<Ended>,
    /// How often it was started again.
    pub(crate) restarts: u32,
    /// The image it runs from, once that is known.
    pub(crate) image_id: String,
    /// How long it waits between starts.
    pub(crate) backoff: Backoff,
    /// Not tried again before this.
    pub(crate) retry_at: Option<Timestamp>,
    /// What is known is of an earlier life of the pod, whose files are gone.
    pub(crate) earlier: bool,
}

/// What a container does now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Now {
    /// It has not been started, and why.
    Waiting {
        /// In one word.
        reason: String,
        /// In words.
        message: String,
    },
    /// It runs.
    Running(Running),
    /// It has ended.
    Ended(Ended),
}

impl Default for Now {
    fn default() -> Self {
        Self::Waiting { reason: "ContainerCreating".to_owned(), message: String::new() }
    }
}

/// A container that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    /// Its id.
    pub(crate) id: String,
    /// Since when.
    pub(crate) since: Timestamp,
    /// Whether its startup probe has succeeded, or there is none.
    pub(crate) started: bool,
    /// Whether its readiness probe says so, or there is none.
    pub(crate) ready: bool,
    /// Asked to end, so it is not asked again.
    pub(crate) stopping: bool,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its id.
    pub(crate) id: String,
    /// Its exit code.
    pub(crate) code: i32,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// In one word.
    pub(crate) reason: String,
    /// Its last words.
    pub(crate) message: String,
    /// When it was started.
    pub(crate) started: Timestamp,
    /// When it ended.
    pub(crate) finished: Timestamp,
}

/// How long to wait between starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BackoffRule {
    /// After the second end.
    pub(crate) first: Duration,
    /// At most.
    pub(crate) most: Duration,
}

impl Default for BackoffRule {
    fn default() -> Self {
        Self { first: Duration::from_secs(10), most: Duration::from_mins(5) }
    }
}

/// How long a container waits before it is started again: at once the first time, then longer and longer, until it has
/// run for long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// The wait of the last start.
    delay: Duration,
    /// When that was.
    at: Option<Timestamp>,
}

impl Backoff {
    /// From when it may be started, having ended then.
    pub(crate) fn ready_at(&self, ended: Timestamp, rule: &BackoffRule) -> Timestamp {
        let long_ago = self.at.is_none_or(|at| ended.duration_since(at).unsigned_abs() > rule.most * 2);
        if long_ago { ended } else { ended.saturating_add(self.delay).unwrap_or(Timestamp::MAX) }
    }

    /// It is started now, having ended then.
    #[must_use]
    pub(crate) fn started(&self, now: Timestamp, ended: Timestamp, rule: &BackoffRule) -> Self {
        let long_ago = self.at.is_none_or(|at| ended.duration_since(at).unsigned_abs() > rule.most * 2);
        let delay = if long_ago { rule.first } else { (self.delay * 2).min(rule.most) };
        Self { delay, at: Some(now) }
    }

    /// The present wait.
    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }
}

impl ContainerState {
    /// The running container, if it runs.
    pub(crate) fn running(&self) -> Option<&Running> {
        match &self.now {
            Now::Running(running) => Some(running),
            _ => None,
        }
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&self) -> Option<&Ended> {
        match &self.now {
            Now::Ended(ended) => Some(ended),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_are_forgotten_after_a_long_run() {
        let rule = BackoffRule { first: Duration::from_secs(10), most: Duration::from_secs(25) };
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let mut backoff = Backoff::default();
        let mut waits = Vec::new();
        let mut ended = at(1000);
        for _ in 0..4 {
            let start = backoff.ready_at(ended, &rule);
            waits.push(start.duration_since(ended).as_secs());
            backoff = backoff.started(start, ended, &rule);
            ended = start.saturating_add(Duration::from_secs(1)).unwrap();
        }
        assert_eq!(waits, [0, 10, 20, 25]);
        let much_later = ended.saturating_add(Duration::from_mins(1)).unwrap();
        assert_eq!(backoff.ready_at(much_later, &rule), much_later);
    }
}
