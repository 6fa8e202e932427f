//! Following a Workflow to its end.

use std::collections::BTreeMap;

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;
use thane_api::code;
use thane_workload::status::{NodePhase, Phase, WorkflowStatus};

use super::{now, status, tree, value, workflows};
use crate::failure::Failure;
use crate::kubernetes::connection::{Session, check_segment};
use crate::output::{print, terminal_width};

/// Shows a Workflow until it ends; its failure is the command's.
pub(super) async fn follow(session: &Session, namespace: &str, name: &str) -> Result<(), Failure> {
    check_segment("name", name)?;
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut words = watcher(workflows(session, namespace), config).default_backoff().boxed();
    let mut screen = Screen::default();
    let mut found = false;
    while let Some(word) = words.next().await {
        let object = match word {
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => value(&object)?,
            Ok(watcher::Event::InitDone) if !found => {
                return Err(Failure::new(code::REFUSED, format!("there is no workflow {name}")));
            }
            Ok(watcher::Event::Delete(_)) => {
                return Err(Failure::new(code::TASK_FAILED, format!("workflow {name} was deleted")));
            }
            Err(watcher::Error::InitialListFailed(error)) => return Err(error.into()),
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => continue,
        };
        found = true;
        let status = status(&object)?;
        screen.show(&object, &status)?;
        if status.phase.is_completed() {
            return ended(name, &status);
        }
    }
    Ok(())
}

fn ended(name: &str, status: &WorkflowStatus) -> Result<(), Failure> {
    if status.phase == Phase::Succeeded {
        return Ok(());
    }
    Err(Failure::new(code::TASK_FAILED, format!("workflow {name} {}: {}", status.phase.word(), status.message)))
}

/// What was shown last.
#[derive(Default)]
pub(in crate::commands) struct Screen {
    lines: usize,
    line: String,
    phases: BTreeMap<String, NodePhase>,
}

impl Screen {
    fn show(&mut self, object: &Value, status: &WorkflowStatus) -> Result<(), Failure> {
        if terminal_width().is_some() {
            return self.draw(&tree::shown(object, status, now()));
        }
        self.changes(status)?;
        if status.phase.is_completed() {
            let line = format!("{} {}", status.phase.word(), status.message);
            print(&format!("{}\n", line.trim_end()))?;
        }
        Ok(())
    }

    /// Shows a Workflow below a line about whoever it belongs to, as a tree or as what has changed in it.
    pub(in crate::commands) fn show_below(&mut self, line: &str, workflow: Option<&Value>) -> Result<(), Failure> {
        // What cannot be read, since Argo keeps it elsewhere, is not shown; the line says why.
        let read = workflow.and_then(|object| Some((object, status(object).ok()?)));
        if terminal_width().is_some() {
            let tree = read.map(|(object, status)| format!("\n{}", tree::shown(object, &status, now())));
            return self.draw(&format!("{line}\n{}", tree.unwrap_or_default()));
        }
        if self.line != line {
            line.clone_into(&mut self.line);
            print(&format!("{line}\n"))?;
        }
        read.map_or(Ok(()), |(_, status)| self.changes(&status))
    }

    /// Puts a text where the last one was.
    fn draw(&mut self, text: &str) -> Result<(), Failure> {
        let back = if self.lines == 0 { String::new() } else { format!("\x1b[{}A\x1b[J", self.lines) };
        self.lines = text.lines().count();
        print(&format!("{back}{text}"))
    }

    /// One line for every step that moved on.
    fn changes(&mut self, status: &WorkflowStatus) -> Result<(), Failure> {
        let mut text = String::new();
        for node in status.nodes.iter() {
            if self.phases.insert(node.id.clone(), node.phase) != Some(node.phase) {
                let message = if node.message.is_empty() { String::new() } else { format!(": {}", node.message) };
                text.extend([format!("{} {}{message}\n", node.name, node.phase.word())]);
            }
        }
        print(&text)
    }
}
