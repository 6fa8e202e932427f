//! Data for stdout: JSON, YAML or text, and the width there is for it.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;
use thane_api::code;

use crate::failure::Failure;

/// Forms of structured output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Structured {
    Json,
    Yaml,
}

/// Writes data to stdout, whole.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::output_closed(),
        _ => Failure::new(code::FILE_FAILED, format!("write to stdout: {error}")),
    })
}

/// Writes a value to stdout as JSON or YAML.
pub(crate) fn print_structured<T: Serialize>(value: &T, form: Structured) -> Result<(), Failure> {
    print(&structured(value, form)?)
}

/// A value as JSON or YAML, ending in a newline.
pub(crate) fn structured<T: Serialize>(value: &T, form: Structured) -> Result<String, Failure> {
    let bug = |error: &dyn std::fmt::Display| Failure::new(code::BUG, format!("write {form:?}: {error}"));
    match form {
        Structured::Json => serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(|error| bug(&error)),
        Structured::Yaml => serde_saphyr::to_string(value).map_err(|error| bug(&error)),
    }
}

/// Names and values, one pair on a line.
pub(crate) fn pairs(lines: &[(&str, String)]) -> String {
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    lines.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string cannot fail.
        let _ = std::fmt::Write::write_fmt(&mut text, format_args!("{name:<width$}  {value}\n"));
        text
    })
}

/// Tells a person something that is no data.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// The terminal's width, if stdout is one.
pub(crate) fn terminal_width() -> Option<u16> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    rustix::termios::tcgetwinsize(stdout).ok().map(|size| size.ws_col).filter(|width| *width > 0)
}
