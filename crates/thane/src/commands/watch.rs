//! `thane watch`.

use std::ops::ControlFlow;

use clap::Args;
use serde_json::json;
use thane_api::code;

use super::get::only;
use crate::failure::Failure;
use crate::kubernetes::connection::{Connection, Session};
use crate::kubernetes::stream::{self, Change, End};
use crate::kubernetes::table::{Look, Printer, Table};
use crate::kubernetes::target::{Selection, Target};
use crate::output::{print, terminal_width};

/// Follow changes of objects
///
/// Shows every change with its kind: ADDED for objects that are already there and for new ones,
/// MODIFIED and DELETED. Ends with Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    selection: Selection,
    /// One JSON object per line with type and object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Watch {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let targets = self.selection.targets(&session.catalog().await?, &session)?;
        let target = only(&targets)?;
        let mut printer = Printer::new(Look {
            namespace: self.selection.all_namespaces && target.resource.namespaced,
            terminal_width: terminal_width(),
            ..Look::default()
        });
        loop {
            let end =
                if self.json { lines(&session, target).await? } else { tables(&session, target, &mut printer).await? };
            if end == End::Enough {
                return Ok(());
            }
        }
    }
}

async fn tables(session: &Session, target: &Target, printer: &mut Printer) -> Result<End, Failure> {
    let first = target.fetch_table(session).await?;
    print(&printer.print(&first, Some(Change::Added.name())))?;
    stream::follow(session, target, first.metadata.resource_version, true, |change, value| {
        let part: Table = serde_json::from_value(value)
            .map_err(|error| Failure::new(code::REFUSED, format!("the server's table: {error}")))?;
        print(&printer.print(&part, Some(change.name()))).map(ControlFlow::Continue)
    })
    .await
}

async fn lines(session: &Session, target: &Target) -> Result<End, Failure> {
    let show = |change: Change, object: serde_json::Value| {
        print(&format!("{}\n", json!({"type": change.name(), "object": object}))).map(ControlFlow::Continue)
    };
    let answer = target.fetch(session).await?;
    let version = stream::version_of(&answer).unwrap_or_default();
    for object in super::get::items(answer) {
        let _: ControlFlow<()> = show(Change::Added, object)?;
    }
    stream::follow(session, target, version, false, show).await
}
