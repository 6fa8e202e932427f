//! Whether a process is ready: a set of named conditions, all of which must hold.

use std::collections::BTreeMap;
use std::fmt::Write;

use tokio::sync::watch;

/// The conditions of a process; clones share them.
#[derive(Debug, Clone)]
pub struct Readiness {
    conditions: watch::Sender<Conditions>,
}

/// Each condition's reason not to hold, none when it holds.
type Conditions = BTreeMap<&'static str, Option<String>>;

/// One named condition, held by the part it speaks for.
#[derive(Debug)]
pub struct Condition {
    name: &'static str,
    conditions: watch::Sender<Conditions>,
}

impl Readiness {
    /// No condition yet, which counts as ready.
    pub fn new() -> Self {
        Self { conditions: watch::Sender::new(Conditions::new()) }
    }

    /// Adds a condition that does not hold yet.
    pub fn condition(&self, name: &'static str) -> Condition {
        let condition = Condition { name, conditions: self.conditions.clone() };
        condition.fails("starting");
        condition
    }

    /// Whether every condition holds.
    pub fn is_ready(&self) -> bool {
        all_hold(&self.conditions.borrow())
    }

    /// Waits until every condition holds.
    pub async fn ready(&self) {
        let mut receiver = self.conditions.subscribe();
        // The sender lives in self, so waiting cannot fail.
        let _ = receiver.wait_for(all_hold).await;
    }

    /// Whether a condition holds and, if not, why; none if there is no such condition.
    pub fn of(&self, name: &str) -> Option<Result<(), String>> {
        let conditions = self.conditions.borrow();
        conditions.get(name).map(|reason| reason.clone().map_or(Ok(()), Err))
    }

    /// One line per condition, as Kubernetes' `/readyz?verbose` has it.
    pub fn report(&self) -> String {
        let mut text = String::new();
        for (name, reason) in self.conditions.borrow().iter() {
            // Writing to a string cannot fail.
            let _ = match reason {
                None => writeln!(text, "[+]{name} ok"),
                Some(reason) => writeln!(text, "[-]{name} failed: {reason}"),
            };
        }
        text
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl Condition {
    /// The condition holds from now on.
    pub fn holds(&self) {
        self.set(None);
    }

    /// The condition does not hold from now on.
    pub fn fails(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    fn set(&self, reason: Option<String>) {
        self.conditions.send_if_modified(|conditions| conditions.insert(self.name, reason.clone()) != Some(reason));
    }
}

fn all_hold(conditions: &Conditions) -> bool {
    conditions.values().all(Option::is_none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ready_is_when_every_condition_holds() {
        let readiness = Readiness::new();
        let (api, store) = (readiness.condition("api"), readiness.condition("store"));
        assert_eq!(readiness.report(), "[-]api failed: starting\n[-]store failed: starting\n");
        api.holds();
        assert!(!readiness.is_ready());
        let waiting = readiness.clone();
        let (done, ()) = tokio::join!(
            async move {
                waiting.ready().await;
                true
            },
            async { store.holds() }
        );
        assert!(done && readiness.is_ready());
        store.fails("disk is full");
        assert!(!readiness.is_ready());
        assert_eq!(readiness.report(), "[+]api ok\n[-]store failed: disk is full\n");
        assert_eq!(readiness.of("api"), Some(Ok(())));
        assert_eq!(readiness.of("store"), Some(Err("disk is full".to_owned())));
        assert_eq!(readiness.of("other"), None);
    }
}
