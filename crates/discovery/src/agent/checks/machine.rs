//! How a check stands, from what its runs say. Pure.

use std::time::Duration;

use crate::model::{CheckDefinition, Status};

/// Bytes of an output that are kept.
pub const OUTPUT_MAX: usize = 4096;
/// A service is not deregistered sooner than this, whatever its check says.
pub const DEREGISTER_MIN: Duration = Duration::from_mins(1);
/// A deregistration that did not happen is tried again after this.
const DEREGISTER_AGAIN: Duration = Duration::from_secs(30);
/// About how long an output that changed without the status is kept from the hub.
const OUTPUT_DELAY: Duration = Duration::from_mins(5);

/// What one run said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// How it looked.
    pub status: Status,
    /// What it said.
    pub output: String,
}

impl Observation {
    /// What a run said, cut to what is kept.
    pub fn new(status: Status, output: impl Into<String>) -> Self {
        Self { status, output: capped(output.into()) }
    }
}

/// What became of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// Only what it says; the hub hears of it later.
    Output,
    /// How it stands; the hub hears of it now.
    Status,
}

/// What time has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Nobody said anything for too long: it is critical now.
    Lapsed,
    /// The hub is to hear what the check says.
    Publish,
    /// It was critical for too long: its service goes.
    Deregister,
}

/// How a check stands.
#[derive(Debug, Clone)]
pub struct Machine {
    success_before_passing: u32,
    failures_before_warning: u32,
    failures_before_critical: u32,
    output_max: usize,
    ttl: Option<Duration>,
    deregister_after: Option<Duration>,
    status: Status,
    output: String,
    successes: u32,
    failures: u32,
    lapses_at: Option<Duration>,
    publish_at: Option<Duration>,
    deregister_at: Option<Duration>,
}

impl Machine {
    /// A check that stands as said. `is_of_service`: it has something to deregister.
    pub fn new(now: Duration, definition: &CheckDefinition, status: Status, output: &str, is_of_service: bool) -> Self {
        let critical = definition.failures_before_critical;
        let warning = definition.failures_before_warning;
        let after = (!definition.deregister_after.is_zero()).then(|| definition.deregister_after.max(DEREGISTER_MIN));
        let ttl = (!definition.ttl.is_zero()).then_some(definition.ttl);
        let mut machine = Self {
            success_before_passing: definition.success_before_passing,
            failures_before_warning: if warning == 0 { critical } else { warning },
            failures_before_critical: critical,
            output_max: output_max(definition),
            ttl,
            deregister_after: after.filter(|_| is_of_service),
            status,
            output: output.to_owned(),
            successes: 0,
            failures: 0,
            lapses_at: ttl.map(|ttl| now + ttl),
            publish_at: None,
            deregister_at: None,
        };
        machine.arm(now);
        machine
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        self.status
    }

    /// What it says.
    pub fn output(&self) -> &str {
        &self.output
    }

    /// Takes what a run said. `share`, from 0 to 1, spreads out when outputs are published.
    pub fn step(&mut self, now: Duration, observed: Observation, share: f64) -> Change {
        self.lapses_at = self.ttl.map(|ttl| now + ttl);
        let Some(status) = self.judge(observed.status) else { return Change::Nothing };
        let output = cut(observed.output, self.output_max);
        let output_differs = self.output != output;
        self.output = output;
        if status != self.status {
            self.status = status;
            self.publish_at = None;
            self.arm(now);
            return Change::Status;
        }
        if output_differs {
            self.publish_at.get_or_insert(now + OUTPUT_DELAY.mul_f64(0.5 + share.clamp(0.0, 1.0)));
            return Change::Output;
        }
        Change::Nothing
    }

    /// What the thresholds make of a run; `None`: it is too early to say.
    fn judge(&mut self, observed: Status) -> Option<Status> {
        if observed == Status::Critical {
            self.successes = 0;
            self.failures = self.failures.saturating_add(1);
            return match self.failures {
                failures if failures >= self.failures_before_critical => Some(Status::Critical),
                failures if failures >= self.failures_before_warning => Some(Status::Warning),
                _ => None,
            };
        }
        self.failures = 0;
        self.successes = self.successes.saturating_add(1);
        (self.successes >= self.success_before_passing).then_some(observed)
    }

    fn arm(&mut self, now: Duration) {
        let is_critical = self.status == Status::Critical;
        self.deregister_at = self.deregister_after.filter(|_| is_critical).map(|after| now + after);
    }

    /// What time has brought.
    pub fn tick(&mut self, now: Duration) -> Due {
        if self.lapses_at.is_some_and(|at| at <= now) {
            self.lapses_at = None;
            if self.status != Status::Critical {
                self.status = Status::Critical;
                self.publish_at = None;
                let said = std::mem::take(&mut self.output);
                self.output = if said.is_empty() {
                    "TTL expired".to_owned()
                } else {
                    cut(format!("TTL expired (last output before timeout follows): {said}"), self.output_max)
                };
                self.arm(now);
                return Due::Lapsed;
            }
        }
        if self.deregister_at.is_some_and(|at| at <= now) {
            self.deregister_at = Some(now + DEREGISTER_AGAIN);
            return Due::Deregister;
        }
        if self.publish_at.is_some_and(|at| at <= now) {
            self.publish_at = None;
            return Due::Publish;
        }
        Due::Nothing
    }

    /// When time brings something next.
    pub fn due(&self) -> Option<Duration> {
        [self.lapses_at, self.publish_at, self.deregister_at].into_iter().flatten().min()
    }
}

/// How much of an output is kept: what the check says, and never more than the agent allows.
fn output_max(definition: &CheckDefinition) -> usize {
    match usize::try_from(definition.output_max_size) {
        Ok(0) | Err(_) => OUTPUT_MAX,
        Ok(own) => own.min(OUTPUT_MAX),
    }
}

/// The beginning of an output, cut between letters.
pub fn capped(output: String) -> String {
    cut(output, OUTPUT_MAX)
}

fn cut(mut output: String, most: usize) -> String {
    if output.len() > most {
        let end = (0..=most).rev().find(|end| output.is_char_boundary(*end)).unwrap_or(0);
        output.truncate(end);
    }
    output
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn seen(status: Status) -> Observation {
        Observation::new(status, "same")
    }

    fn run(definition: &CheckDefinition, start: Status, runs: &str) -> String {
        let mut machine = Machine::new(at(0), definition, start, "same", true);
        let letters = |status| match status {
            Status::Passing => 'p',
            Status::Warning => 'w',
            Status::Critical => 'c',
        };
        let statuses = runs.chars().map(|run| match run {
            'p' => Status::Passing,
            'w' => Status::Warning,
            _ => Status::Critical,
        });
        statuses
            .map(|status| {
                machine.step(at(1), seen(status), 0.5);
                letters(machine.status())
            })
            .collect()
    }

    #[test]
    fn thresholds_decide_when_runs_count() {
        let rules = |success, warning, critical| CheckDefinition {
            success_before_passing: success,
            failures_before_warning: warning,
            failures_before_critical: critical,
            ..CheckDefinition::default()
        };
        for (definition, start, runs, expected) in [
            (rules(0, 0, 0), Status::Critical, "pwcp", "pwcp"),
            (rules(3, 0, 0), Status::Critical, "pppcppp", "ccpcccp"),
            (rules(0, 0, 3), Status::Passing, "ccpccc", "pppppc"),
            (rules(0, 2, 4), Status::Passing, "cccccp", "pwwccp"),
            (rules(2, 0, 2), Status::Passing, "cpcpccpp", "pppppccp"),
        ] {
            assert_eq!(run(&definition, start, runs), expected, "{definition:?} {runs}");
        }
    }

    #[test]
    fn silence_is_critical_and_keeps_the_last_words() {
        let definition = CheckDefinition { ttl: at(10), ..CheckDefinition::default() };
        let mut machine = Machine::new(at(0), &definition, Status::Passing, "", false);
        assert_eq!(machine.step(at(5), Observation::new(Status::Passing, "all is well"), 0.5), Change::Output);
        assert_eq!((machine.due(), machine.tick(at(14))), (Some(at(15)), Due::Nothing));
        assert_eq!(machine.tick(at(15)), Due::Lapsed);
        assert_eq!(machine.output(), "TTL expired (last output before timeout follows): all is well");
        assert_eq!((machine.status(), machine.tick(at(16))), (Status::Critical, Due::Nothing));
        assert_eq!(machine.step(at(20), Observation::new(Status::Warning, "back"), 0.5), Change::Status);
    }

    #[test]
    fn output_alone_is_told_later_and_a_status_at_once() {
        let mut machine = Machine::new(at(0), &CheckDefinition::default(), Status::Passing, "", false);
        assert_eq!(machine.step(at(1), Observation::new(Status::Passing, "1"), 0.0), Change::Output);
        assert_eq!(machine.step(at(2), Observation::new(Status::Passing, "2"), 1.0), Change::Output);
        assert_eq!(machine.step(at(3), Observation::new(Status::Passing, "2"), 1.0), Change::Nothing);
        assert_eq!(machine.due(), Some(at(151)), "the first change set the time");
        assert_eq!((machine.tick(at(151)), machine.tick(at(152))), (Due::Publish, Due::Nothing));
        machine.step(at(160), Observation::new(Status::Passing, "3"), 0.0);
        assert_eq!(machine.step(at(161), Observation::new(Status::Critical, "3"), 0.0), Change::Status);
        assert_eq!(machine.due(), None, "the status carried the output along");
    }

    #[test]
    fn a_check_may_keep_less_than_the_agent_allows() {
        for (own, expected) in [(0, OUTPUT_MAX), (5, 5), (100_000, OUTPUT_MAX)] {
            let definition = CheckDefinition { output_max_size: own, ..CheckDefinition::default() };
            let mut machine = Machine::new(at(0), &definition, Status::Passing, "", false);
            machine.step(at(1), Observation::new(Status::Passing, "x".repeat(10_000)), 0.5);
            assert_eq!(machine.output().len(), expected);
        }
    }

    #[test]
    fn critical_for_too_long_deregisters_but_never_within_a_minute() {
        let definition = CheckDefinition { deregister_after: at(5), ..CheckDefinition::default() };
        let mut machine = Machine::new(at(0), &definition, Status::Passing, "", true);
        machine.step(at(10), seen(Status::Critical), 0.5);
        assert_eq!(machine.tick(at(69)), Due::Nothing);
        machine.step(at(69), seen(Status::Passing), 0.5);
        assert_eq!(machine.tick(at(200)), Due::Nothing, "it recovered");
        machine.step(at(200), seen(Status::Critical), 0.5);
        machine.step(at(230), seen(Status::Critical), 0.5);
        assert_eq!(machine.tick(at(260)), Due::Deregister);
        assert_eq!((machine.tick(at(261)), machine.tick(at(290))), (Due::Nothing, Due::Deregister));
        let mut of_node = Machine::new(at(0), &definition, Status::Critical, "", false);
        assert_eq!(of_node.tick(at(1000)), Due::Nothing);
    }

    proptest! {
        #[test]
        fn an_output_is_cut_between_letters(text in "\\PC*", times in 0_usize..200) {
            let output = capped(text.repeat(times));
            prop_assert!(output.len() <= OUTPUT_MAX);
            prop_assert!(text.repeat(times).starts_with(&output));
        }
    }
}
