//! `thane get`.

use std::ops::ControlFlow;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use thane_api::code;

use crate::failure::Failure;
use crate::kubernetes::connection::{Connection, Session};
use crate::kubernetes::stream::{self, End};
use crate::kubernetes::table::{Look, Printer, Table};
use crate::kubernetes::target::{Selection, Target};
use crate::output::{Structured, print, print_structured, structured, tell, terminal_width};

/// Show objects
#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    selection: Selection,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Form>,
    /// Keep metadata.managedFields in JSON and YAML
    #[arg(long)]
    show_managed_fields: bool,
    /// Show changes after the list
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Forms of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// A table with all columns
    Wide,
    /// KIND/NAME only
    Name,
}

impl Form {
    fn structured(self) -> Option<Structured> {
        match self {
            Self::Json => Some(Structured::Json),
            Self::Yaml => Some(Structured::Yaml),
            Self::Wide | Self::Name => None,
        }
    }
}

impl Get {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let targets = self.selection.targets(&session.catalog().await?, &session)?;
        match self.output {
            Some(form) if form.structured().is_some() || form == Form::Name => {
                self.show_objects(&session, &targets, form).await
            }
            _ => self.show_tables(&session, &targets).await,
        }
    }

    async fn show_tables(&self, session: &Session, targets: &[Target]) -> Result<(), Failure> {
        if self.watch {
            let target = only(targets)?;
            return self.follow_table(session, target).await;
        }
        let several = targets.iter().any(|target| target.resource != targets[0].resource);
        let mut shown = 0;
        for group in by_kind(targets) {
            let mut printer = Printer::new(self.look(group[0], several));
            let mut whole = Table::default();
            for target in group {
                let table = target.fetch_table(session).await?;
                whole.column_definitions = table.column_definitions;
                whole.rows.extend(table.rows);
            }
            if whole.rows.is_empty() {
                continue;
            }
            let gap = if shown > 0 { "\n" } else { "" };
            shown += whole.rows.len();
            print(&format!("{gap}{}", printer.print(&whole, None)))?;
        }
        if shown == 0 {
            tell(&nothing(targets));
        }
        Ok(())
    }

    fn look(&self, target: &Target, several: bool) -> Look {
        Look {
            wide: self.output == Some(Form::Wide),
            namespace: self.selection.all_namespaces && target.resource.namespaced,
            prefix: several.then(|| target.resource.label()),
            terminal_width: terminal_width(),
        }
    }

    async fn follow_table(&self, session: &Session, target: &Target) -> Result<(), Failure> {
        let mut printer = Printer::new(self.look(target, false));
        loop {
            let table = target.fetch_table(session).await?;
            print(&printer.print(&table, None))?;
            let end = stream::follow(session, target, table.metadata.resource_version, true, |_, value| {
                let part: Table = serde_json::from_value(value)
                    .map_err(|error| Failure::new(code::REFUSED, format!("the server's table: {error}")))?;
                print(&printer.print(&part, None)).map(ControlFlow::Continue)
            });
            if end.await? == End::Enough {
                return Ok(());
            }
        }
    }

    async fn show_objects(&self, session: &Session, targets: &[Target], form: Form) -> Result<(), Failure> {
        if self.watch {
            return self.follow_objects(session, only(targets)?, form).await;
        }
        let mut answers = Vec::new();
        for target in targets {
            answers.push((target, self.tidy(target.fetch(session).await?)));
        }
        if form == Form::Name {
            return print(&answers.iter().flat_map(|(target, answer)| names(target, answer)).collect::<String>());
        }
        let Some(structured) = form.structured() else { return Ok(()) };
        if answers.len() == 1 {
            return print_structured(&answers[0].1, structured);
        }
        let items: Vec<Value> = answers.into_iter().flat_map(|(_, answer)| items(answer)).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items});
        print_structured(&list, structured)
    }

    /// Leaves out who set which field, as kubectl does.
    fn tidy(&self, mut answer: Value) -> Value {
        let strip = |object: &mut Value| {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        };
        if !self.show_managed_fields {
            match answer.get_mut("items").and_then(Value::as_array_mut) {
                Some(items) => items.iter_mut().for_each(strip),
                None => strip(&mut answer),
            }
        }
        answer
    }

    async fn follow_objects(&self, session: &Session, target: &Target, form: Form) -> Result<(), Failure> {
        let show = |object: &Value| match form.structured() {
            Some(Structured::Yaml) => print(&format!("---\n{}", structured(object, Structured::Yaml)?)),
            Some(other) => print_structured(object, other),
            None => print(&names(target, object).concat()),
        };
        loop {
            let answer = target.fetch(session).await?;
            let version = stream::version_of(&answer).unwrap_or_default();
            for object in items(answer) {
                show(&self.tidy(object))?;
            }
            let end = stream::follow(session, target, version, false, |_, object| {
                show(&self.tidy(object)).map(ControlFlow::Continue)
            });
            if end.await? == End::Enough {
                return Ok(());
            }
        }
    }
}

/// The one thing to watch.
pub(super) fn only(targets: &[Target]) -> Result<&Target, Failure> {
    match targets {
        [target] => Ok(target),
        _ => Err(Failure::new(code::USAGE, "one kind, or one object, can be watched at a time")),
    }
}

/// Neighbours of the same kind together, so that they share a table.
fn by_kind(targets: &[Target]) -> Vec<Vec<&Target>> {
    let mut groups: Vec<Vec<&Target>> = Vec::new();
    for target in targets {
        match groups.last_mut().filter(|group| group[0].resource == target.resource) {
            Some(group) => group.push(target),
            None => groups.push(vec![target]),
        }
    }
    groups
}

/// The objects of a list, or the one object; items get the kind that lists leave out.
pub(super) fn items(mut answer: Value) -> Vec<Value> {
    let kind = answer["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    let api_version = answer["apiVersion"].clone();
    match (kind, answer.get_mut("items").map(Value::take)) {
        (Some(kind), Some(Value::Array(mut items))) => {
            for item in items.iter_mut().filter(|item| item.get("kind").is_none()) {
                item["apiVersion"] = api_version.clone();
                item["kind"] = json!(kind);
            }
            items
        }
        _ => vec![answer],
    }
}

fn names(target: &Target, answer: &Value) -> Vec<String> {
    let line = |object: &Value| {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        format!("{}/{name}\n", target.resource.label())
    };
    match answer.get("items").and_then(Value::as_array) {
        Some(items) => items.iter().map(line).collect(),
        None => vec![line(answer)],
    }
}

fn nothing(targets: &[Target]) -> String {
    match targets.first().and_then(|target| target.namespace.as_deref()) {
        Some(namespace) => format!("no resources found in namespace {namespace}"),
        None => "no resources found".to_owned(),
    }
}
