//! What can be wrong between a hub and an agent, and what to do about it.

mod certificates;
mod dial;
mod pair;
mod side;

use std::fmt::Write;

use owo_colors::OwoColorize;
use serde::Serialize;
use thane_runtime::{Clock, SystemClock};

use crate::failure::Failure;
use crate::kubernetes::connection::{AgentConnection, HubConnection};
use certificates::Credentials;
use side::Side;

/// Where an agent calls the hub.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// How one thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Ok,
    /// Worth knowing, and not wrong.
    Note,
    Wrong,
    /// Could not be looked at.
    Skipped,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    /// Whose it is: the hub's, the agent's or both's.
    pub(crate) of: &'static str,
    /// What was looked at, in a word that stays the same.
    pub(crate) check: &'static str,
    pub(crate) state: State,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// Everything that was found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// How many are wrong.
    pub(crate) wrong: usize,
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, of: &'static str, check: &'static str, state: State, message: impl Into<String>) {
        self.findings.push(Finding { of, check, state, message: message.into(), next: None });
    }

    fn ok(&mut self, of: &'static str, check: &'static str, message: impl Into<String>) {
        self.add(of, check, State::Ok, message);
    }

    fn wrong(&mut self, of: &'static str, check: &'static str, message: impl Into<String>, next: impl Into<String>) {
        self.wrong += 1;
        let (message, next) = (message.into(), Some(next.into()));
        self.findings.push(Finding { of, check, state: State::Wrong, message, next });
    }

    /// Something that could not be looked at because the API said no.
    fn failed(&mut self, of: &'static str, check: &'static str, failure: &Failure) {
        self.wrong(of, check, failure.message(), failure.hint());
    }

    /// For people: a line for each, and the next step under what is wrong.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let mark = match finding.state {
                State::Ok => "ok     ".green().to_string(),
                State::Note => "note   ".yellow().to_string(),
                State::Wrong => "wrong  ".red().bold().to_string(),
                State::Skipped => "skipped".dimmed().to_string(),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{mark}  {:<6} {}", finding.of, finding.message);
            if let Some(next) = &finding.next {
                let _ = writeln!(text, "                 {} {next}", "next:".cyan().bold());
            }
        }
        let summary = match self.wrong {
            0 => "nothing is wrong".to_owned(),
            1 => "one thing is wrong".to_owned(),
            many => format!("{many} things are wrong"),
        };
        let _ = writeln!(text, "\n{summary}");
        if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
            text
        } else {
            anstream::adapter::strip_str(&text).to_string()
        }
    }
}

/// Looks at everything that can be reached.
pub(crate) async fn examine(hub: &HubConnection, agent: &AgentConnection, address: Option<&Address>) -> Report {
    let mut report = Report::default();
    let now = SystemClock::new().now();
    let hubs = Side::open("hub", hub.open().await.map(Some), &mut report).await;
    let agents = Side::open("agent", hub.open_agent(agent).await, &mut report).await;
    side::compare_clocks(hubs.as_ref(), agents.as_ref(), &mut report);
    let mut credentials = Credentials::default();
    if let Some(side) = &hubs {
        side.examine(&mut report).await;
        credentials.examine_hub(side, address, now, &mut report).await;
    }
    if let Some(side) = &agents {
        side.examine(&mut report).await;
        credentials.examine_agent(side, address, now, &mut report).await;
    }
    if let Some(side) = &hubs {
        pair::examine(side, &credentials, &mut report).await;
    }
    let namespace = agents.as_ref().map(|side| side.objects().namespace().to_owned()).unwrap_or_default();
    dial::examine(address, namespace, &credentials, &mut report).await;
    report
}
