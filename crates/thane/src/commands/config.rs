//! `thane config`.

use clap::{Args, Subcommand};
use serde_json::Value;
use thane_runtime::config::Row;

use crate::cli::Global;
use crate::failure::Failure;
use crate::kubernetes::table::plain;
use crate::output::{Structured, print, print_structured, tell};
use crate::settings::{self, Flags};

/// Show configuration
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show every value in force
    Show(Show),
}

/// Show every value in force
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Also show where each value comes from, and the variable that sets it
    #[arg(long)]
    origin: bool,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
}

impl Config {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::Show(show) => show.run(global),
        }
    }
}

impl Show {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let loaded = settings::load(global, Flags::new())?;
        for name in &loaded.unknown_variables {
            tell(&format!("warning: {name} sets nothing"));
        }
        match self.output {
            Some(form) if self.origin => print_structured(&loaded.rows(), form),
            Some(form) => print_structured(&loaded.tree(), form),
            None => print(&self.text(&loaded.rows())),
        }
    }

    fn text(&self, rows: &[Row]) -> String {
        let header: &[&str] = if self.origin { &["KEY", "VALUE", "ORIGIN", "VARIABLE"] } else { &["KEY", "VALUE"] };
        let cells = rows.iter().map(|row| {
            let mut cells = vec![row.key.clone(), shown(&row.value)];
            if self.origin {
                cells.extend([row.origin.clone(), row.variable.clone()]);
            }
            cells
        });
        plain(header, cells.collect())
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
