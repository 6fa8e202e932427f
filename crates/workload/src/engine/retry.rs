//! Whether and when a template is tried again.

use jiff::{SignedDuration, Timestamp};

use super::nodes::attempts;
use super::scope::{Values, decided};
use super::{Operation, duration};
use crate::spec::{Backoff, RetryStrategy, Template, integer};
use crate::status::{NodePhase, NodeStatus};
use crate::steps::names::pod_name;

/// What a retry node does next.
pub(super) enum Retry {
    /// It has ended, or waits.
    Wait,
    /// It goes on with its attempt, or with another one.
    Go {
        /// When that has to be over.
        deadline: Option<Timestamp>,
    },
}

/// Which ends are tried again.
pub(super) fn policy(strategy: &RetryStrategy) -> &str {
    match strategy.retry_policy.as_str() {
        "" if strategy.expression.is_empty() => "OnFailure",
        "" => "Always",
        other => other,
    }
}

impl Operation<'_> {
    /// A template's own strategy, or the Workflow's for those that call no others.
    pub(super) fn retry_strategy(&self, template: &Template) -> Option<RetryStrategy> {
        let default = self.spec.retry_strategy.as_ref().filter(|_| template.is_leaf());
        template.retry_strategy.as_ref().or(default).cloned()
    }

    /// Looks at the last attempt and decides.
    pub(super) fn next_attempt(&mut self, name: &str, strategy: &RetryStrategy) -> Result<Retry, String> {
        let Some(node) = self.node(name) else { return Ok(Retry::Wait) };
        if node.is_ended() {
            return Ok(Retry::Wait);
        }
        let all = attempts(&self.status.nodes, node);
        let Some(last) = all.last().copied().cloned() else { return Ok(Retry::Go { deadline: None }) };
        let (count, first) = (all.len(), all.first().and_then(|first| first.started_at.time()));
        if !last.is_ended() {
            return Ok(Retry::Go { deadline: None });
        }
        if !last.phase.is_failure() {
            let id = self.id(name);
            if let Some(node) = self.status.nodes.get_mut(&id) {
                node.outputs.clone_from(&last.outputs);
            }
            self.mark(name, NodePhase::Succeeded, None);
            return Ok(Retry::Wait);
        }
        if let Some(message) = self.gives_up() {
            return Ok(self.settle(name, &last, &message));
        }
        let mut deadline = None;
        if let Some(backoff) = &strategy.backoff {
            match self.back_off(name, backoff, strategy, &last, (count, first))? {
                Retry::Wait => return Ok(Retry::Wait),
                Retry::Go { deadline: until } => deadline = until,
            }
        }
        self.judge(name, strategy, &last, count).map(|goes| if goes { Retry::Go { deadline } } else { Retry::Wait })
    }

    /// Why nothing is tried again any more.
    fn gives_up(&self) -> Option<String> {
        if !self.spec.shutdown.is_empty() {
            return Some(format!("Stopped with strategy '{}'", self.spec.shutdown));
        }
        let deadline = self.deadline.filter(|_| self.is_past_deadline())?;
        Some(format!("retry exceeded workflow deadline {}", deadline.strftime("%Y-%m-%d %H:%M:%S +0000 UTC")))
    }

    /// Ends the retry node as its last attempt ended.
    fn settle(&mut self, name: &str, last: &NodeStatus, message: &str) -> Retry {
        let id = self.id(name);
        if let Some(node) = self.status.nodes.get_mut(&id) {
            node.outputs.clone_from(&last.outputs);
        }
        self.mark(name, last.phase, Some(message));
        Retry::Wait
    }

    fn back_off(
        &mut self,
        name: &str,
        backoff: &Backoff,
        strategy: &RetryStrategy,
        last: &NodeStatus,
        (count, first): (usize, Option<Timestamp>),
    ) -> Result<Retry, String> {
        let mut until = None;
        if !backoff.max_duration.is_empty() {
            let longest = duration::parsed(&backoff.max_duration)?;
            until = first.and_then(|first| first.checked_add(longest).ok());
            if until.is_some_and(|until| self.now > until) {
                return Ok(self.settle(name, last, "Max duration limit exceeded"));
            }
        }
        if backoff.duration.is_empty() {
            return Err("no base duration specified for retryStrategy".to_owned());
        }
        let wait = wait(backoff, count)?;
        let ready = last.finished_at.time().and_then(|end| end.checked_add(wait).ok());
        if let (Some(ready), Some(until)) = (ready, until)
            && ready > until
        {
            return Ok(self.settle(name, last, "Backoff would exceed max duration limit"));
        }
        let limit = strategy.limit.as_ref().and_then(integer);
        let within = limit.is_some_and(|limit| i64::try_from(count).is_ok_and(|count| count <= limit));
        if let Some(ready) = ready.filter(|ready| self.now < *ready && within) {
            self.wake(ready);
            let phase = self.node(name).map_or(NodePhase::Running, |node| node.phase);
            self.mark(name, phase, Some(&format!("Backoff for {}", duration::spoken(wait))));
            return Ok(Retry::Wait);
        }
        let phase = self.node(name).map_or(NodePhase::Running, |node| node.phase);
        self.mark(name, phase, Some(""));
        Ok(Retry::Go { deadline: until })
    }

    /// Whether policy, limit and expression allow another attempt; if not, the node has ended.
    fn judge(&mut self, name: &str, strategy: &RetryStrategy, last: &NodeStatus, count: usize) -> Result<bool, String> {
        let (failed, errored) = match policy(strategy) {
            "Always" => (true, true),
            "OnError" => (false, true),
            "OnFailure" => (true, false),
            "OnTransientError" => {
                let transient = is_transient(&last.message);
                (transient, transient)
            }
            other => return Err(format!("{other} is not a valid RetryPolicy")),
        };
        if last.phase == NodePhase::Failed && !failed || last.phase == NodePhase::Error && !errored {
            let message = last.message.clone();
            self.settle(name, last, &message);
            return Ok(false);
        }
        let limit = strategy.limit.as_ref().and_then(integer);
        if limit.is_some_and(|limit| i64::try_from(count).map_or(true, |count| count > limit)) {
            self.settle(name, last, "No more retries left");
            return Ok(false);
        }
        if !strategy.expression.is_empty() {
            let mut values = Values::default();
            last_values(&mut values, Some(last), "-1");
            values.text("retries", count.saturating_sub(1).to_string());
            if !decided(&strategy.expression, &values.whole())? {
                self.settle(name, last, "retryStrategy.expression evaluated to false");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What an attempt's template sees of itself and of the attempt before.
    pub(super) fn attempt_values(&self, name: &str, attempt: &str, number: usize, template: &Template) -> Values {
        let mut values = Values::default();
        if template.is_pod() {
            values.text("pod.name", pod_name(&self.identity.name, &template.name, attempt));
        }
        values.text("retries", number.to_string());
        let node = self.node(name);
        let before = node.map(|node| attempts(&self.status.nodes, node)).unwrap_or_default();
        let before = before.into_iter().rev().find(|one| one.name != attempt);
        last_values(&mut values, before, "0");
        values
    }
}

fn last_values(values: &mut Values, last: Option<&NodeStatus>, unknown: &str) {
    let code = last.and_then(|last| last.outputs.as_ref()?.exit_code.clone());
    values.text("lastRetry.exitCode", code.unwrap_or_else(|| unknown.to_owned()));
    values.text("lastRetry.status", last.map_or("", |last| last.phase.word()));
    values.text("lastRetry.duration", last.map_or(0, NodeStatus::seconds).to_string());
    values.text("lastRetry.message", last.map_or("", |last| &last.message));
}

/// How long to wait after so many attempts.
fn wait(backoff: &Backoff, count: usize) -> Result<SignedDuration, String> {
    let mut wait = duration::parsed(&backoff.duration)?;
    let factor = backoff.factor.as_ref().and_then(integer).filter(|factor| *factor > 0);
    if let Some(factor) = factor {
        let factor = i32::try_from(factor).unwrap_or(i32::MAX);
        for _ in 1..count {
            match wait.checked_mul(factor) {
                Some(longer) => wait = longer,
                None => {
                    wait = SignedDuration::MAX;
                    break;
                }
            }
        }
    }
    if !backoff.cap.is_empty() {
        wait = wait.min(duration::parsed(&backoff.cap)?);
    }
    Ok(wait)
}

/// Whether a message is of a kind that passes by itself.
fn is_transient(message: &str) -> bool {
    [
        "exceeded quota",
        "Timeout",
        "timed out",
        "connection refused",
        "connection reset",
        "TLS handshake timeout",
        "i/o timeout",
        "too many requests",
    ]
    .iter()
    .any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_cap() {
        let backoff: Backoff =
            serde_json::from_value(serde_json::json!({"duration": "2", "factor": "3", "cap": "10s"}))
                .expect("a backoff");
        let waits: Vec<i64> = (1..5).map(|count| wait(&backoff, count).expect("a wait").as_secs()).collect();
        assert_eq!(waits, [2, 6, 10, 10]);
        let long: Backoff =
            serde_json::from_value(serde_json::json!({"duration": "1h", "factor": 1000})).expect("a backoff");
        assert_eq!(wait(&long, 500), Ok(SignedDuration::MAX));
    }
}
