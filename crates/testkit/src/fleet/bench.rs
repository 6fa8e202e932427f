//! How fast changes get from one side of a managed pair to the other, measured on the two APIs.

mod observer;
mod process;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

use super::object::{application, revision, status};
use super::{Mode, Objects, Pair};
use observer::Observer;
use process::Usage;

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Changes timed one by one, each way.
    pub rounds: usize,
    /// Applications written together.
    pub together: usize,
    /// Updates of each.
    pub updates: usize,
    /// Writers at once.
    pub writers: usize,
}

impl Scale {
    /// Enough for a p99.
    pub const FULL: Self = Self { rounds: 200, together: 300, updates: 3, writers: 8 };
    /// A look.
    pub const QUICK: Self = Self { rounds: 20, together: 50, updates: 3, writers: 8 };
}

/// A delay one by one.
#[derive(Debug, Clone, Copy)]
pub struct Delay {
    /// The median.
    pub p50: Duration,
    /// What one in a hundred exceeds.
    pub p99: Duration,
}

/// Many changes: how fast the API took them, how fast they were on the other side, both from the first write on.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// How many.
    pub count: usize,
    /// From the first write to the answer of the last.
    pub written: Duration,
    /// From the first write until the other side has all of them.
    pub arrived: Duration,
}

impl Flow {
    fn value(self) -> Value {
        let rate = |time: Duration| per_second(self.count, time);
        json!({
            "count": self.count,
            "written per second": rate(self.written),
            "arrived per second": rate(self.arrived),
            "settled after ms": milliseconds(self.arrived),
        })
    }
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Figures {
    /// From sending a create to the hub to its event on the spoke.
    pub create: Delay,
    /// From sending a status to the spoke to its event on the hub.
    pub status: Delay,
    /// From sending a status to the spoke to the spoke's answer, which the delay above includes.
    pub status_answer: Delay,
    /// Creates by several writers.
    pub creates: Flow,
    /// Updates of the same; only the last of each must arrive.
    pub updates: Flow,
    /// Deletes of the same.
    pub deletes: Flow,
    /// Memory and processor time of the hub, and of the agent.
    pub usage: [Usage; 2],
}

impl Figures {
    /// All of it as JSON.
    pub fn value(&self) -> Value {
        let delay = |delay: Delay| json!({"p50 ms": milliseconds(delay.p50), "p99 ms": milliseconds(delay.p99)});
        json!({
            "create to spoke": delay(self.create),
            "status to hub": delay(self.status),
            "of that, the spoke's own answer": delay(self.status_answer),
            "creates": self.creates.value(),
            "updates": self.updates.value(),
            "deletes": self.deletes.value(),
            "hub": self.usage[0].value(),
            "agent": self.usage[1].value(),
        })
    }
}

/// Runs everything on a managed pair.
pub async fn measure(pair: &Pair, scale: Scale) -> Result<Figures> {
    ensure!(pair.options.mode == Mode::Managed, "only a managed pair is measured");
    // The first of everything is slower: connections, caches.
    one_by_one(pair, "warm", scale.rounds.min(10)).await?;
    let (create, status, status_answer) = one_by_one(pair, "alone", scale.rounds).await?;
    let names: Vec<String> = (0..scale.together).map(|number| format!("together-{number:04}")).collect();
    let (hub, spoke) = (pair.hub.applications(), pair.spoke.applications());
    let wave = Wave { names: &names, rounds: 1, last: Some("v1"), writers: scale.writers };
    let creates = wave.run(&spoke, async |name, _| hub.create(&application(name)).await.map(|_| ()));
    let creates = creates.await.context("creates")?;
    let last = mark(scale.updates);
    let wave = Wave { rounds: scale.updates, last: Some(&last), ..wave };
    let updates = wave.run(&spoke, async |name, round| hub.patch(name, &revision(&mark(round))).await.map(|_| ()));
    let updates = updates.await.context("updates")?;
    let wave = Wave { rounds: 1, last: None, ..wave };
    let deletes = wave.run(&spoke, async |name, _| hub.delete(name).await).await.context("deletes")?;
    let (hub, agent) = pair.processes();
    Ok(Figures {
        create,
        status,
        status_answer,
        creates,
        updates,
        deletes,
        usage: [Usage::of(&hub), Usage::of(&agent)],
    })
}

/// The revision that an update of this round writes.
fn mark(round: usize) -> String {
    format!("update-{round}")
}

/// Creates on the hub and statuses on the spoke, each awaited before the next.
async fn one_by_one(pair: &Pair, prefix: &str, rounds: usize) -> Result<(Delay, Delay, Delay)> {
    let (hub, spoke) = (pair.hub.applications(), pair.spoke.applications());
    let mut creates = Vec::with_capacity(rounds);
    let mut observer = Observer::of_revisions(&spoke).await?;
    for round in 0..rounds {
        let name = format!("{prefix}-{round:04}");
        out_of_step(round).await;
        let started = Instant::now();
        hub.create(&application(&name)).await?;
        let seen = observer.until(|seen| seen.name == name).await?;
        creates.push(seen.at - started);
    }
    let (mut statuses, mut answers) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    let mut observer = Observer::of_statuses(&hub).await?;
    for round in 0..rounds {
        let name = format!("{prefix}-{round:04}");
        out_of_step(round).await;
        let started = Instant::now();
        spoke.patch(&name, &status("Synced", "Healthy", "measured")).await?;
        answers.push(started.elapsed());
        let seen = observer.until(|seen| seen.name == name && seen.mark == "measured").await?;
        statuses.push(seen.at - started);
    }
    Ok((delay(creates), delay(statuses), delay(answers)))
}

/// A pause of varying length: whoever sends on a tick would otherwise be met right after one, every time.
async fn out_of_step(round: usize) {
    let milliseconds = u64::try_from(round * 37 % 101).unwrap_or_default();
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Writes to each of many Applications, in several rounds, by several writers.
#[derive(Clone, Copy)]
struct Wave<'a> {
    names: &'a [String],
    rounds: usize,
    /// The revision that each has in the end; none if they are deleted.
    last: Option<&'a str>,
    writers: usize,
}

impl Wave<'_> {
    async fn run(&self, spoke: &Objects, write: impl AsyncFn(&str, usize) -> Result<()>) -> Result<Flow> {
        let mut observer = Observer::of_revisions(spoke).await?;
        let changes = (1..=self.rounds).flat_map(|round| self.names.iter().map(move |name| (name, round)));
        let started = Instant::now();
        let writing = async {
            let writes = futures::stream::iter(changes.map(|(name, round)| write(name, round)));
            writes.buffered(self.writers).try_collect::<()>().await?;
            anyhow::Ok(started.elapsed())
        };
        let arriving = async {
            let mut missing: BTreeSet<&str> = self.names.iter().map(String::as_str).collect();
            let mut at = started;
            while !missing.is_empty() {
                let seen = observer.until(|seen| self.last.map_or(seen.gone, |last| seen.mark == last)).await;
                let seen = seen.with_context(|| format!("{} of {} are missing", missing.len(), self.names.len()))?;
                missing.remove(seen.name.as_str());
                at = seen.at;
            }
            anyhow::Ok(at - started)
        };
        let (written, arrived) = tokio::try_join!(writing, arriving)?;
        Ok(Flow { count: self.rounds * self.names.len(), written, arrived })
    }
}

fn delay(mut times: Vec<Duration>) -> Delay {
    times.sort();
    let at = |hundredths: usize| times.get((times.len() * hundredths / 100).min(times.len().saturating_sub(1)));
    Delay { p50: at(50).copied().unwrap_or_default(), p99: at(99).copied().unwrap_or_default() }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 1e2
}

fn per_second(count: usize, time: Duration) -> f64 {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    (f64::from(count) / time.as_secs_f64().max(1e-9) * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_ranked() {
        let times = |count: u64| (1..=count).rev().map(Duration::from_millis).collect();
        let cases = [(0, 0, 0), (1, 1, 1), (2, 2, 2), (100, 51, 100), (200, 101, 199)];
        for (count, p50, p99) in cases {
            let found = delay(times(count));
            assert_eq!((found.p50.as_millis(), found.p99.as_millis()), (p50, p99), "of {count}");
        }
    }

    #[test]
    fn rates_are_counted_from_the_first_write() {
        let flow = Flow { count: 300, written: Duration::from_secs(1), arrived: Duration::from_secs(3) };
        let value = flow.value();
        assert_eq!((&value["written per second"], &value["arrived per second"]), (&json!(300.0), &json!(100.0)));
    }
}
