//! Logs: for people on a terminal, as JSON otherwise; levels per subsystem, changeable while running.

#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

/// Parts of Thane that have a level of their own; the crate of each is `thane_NAME`.
const SUBSYSTEMS: [&str; 15] = [
    "agent",
    "api",
    "apiserver",
    "discovery",
    "executor",
    "hub",
    "kv",
    "link",
    "node",
    "redis",
    "runtime",
    "sandbox",
    "sync",
    "testkit",
    "workload",
];
/// Who asked for what: told whatever the level of the rest, unless that is `off` or this has a level of its own.
const AUDIT: &str = "thane::audit";
/// A level text is never longer; it comes over the network too.
const LEVELS_BYTES_MAX: usize = 4096;

/// How logs look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// For people.
    #[serde(alias = "text")]
    Human,
    /// One JSON object per line.
    Json,
}

/// The `log` section of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct LogConfig {
    /// A level, and levels of subsystems: `info,kv=debug,apiserver=trace`.
    pub level: String,
    /// How logs look.
    pub format: Format,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: Format::Auto }
    }
}

/// Why logging could not be set up or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not a list of levels.
    #[error("log level {text:?}: {reason}")]
    Levels {
        /// What was given.
        text: String,
        /// Why it is not one.
        reason: String,
    },
    /// Somebody set up logging before.
    #[error("logging is already set up")]
    Already,
    /// The process is ending.
    #[error("logging is gone")]
    Gone,
}

/// Changes levels while the process runs; clones change the same logs.
#[derive(Clone)]
pub struct LogLevels {
    filter: reload::Handle<Targets, Registry>,
    text: Arc<Mutex<String>>,
}

impl LogLevels {
    /// The levels in force, as they were given.
    pub fn current(&self) -> String {
        self.text.lock().clone()
    }

    /// Puts other levels in force; on an error nothing changes.
    pub fn change(&self, text: &str) -> Result<(), Error> {
        let filter = parse(text)?;
        let mut current = self.text.lock();
        self.filter.reload(filter).map_err(|_| Error::Gone)?;
        text.trim().clone_into(&mut current);
        Ok(())
    }
}

/// Sends this process's logs to stderr from now on.
pub fn init(config: &LogConfig) -> Result<LogLevels, Error> {
    let terminal = std::io::stderr().is_terminal();
    let (subscriber, levels) = subscriber(config, terminal, std::io::stderr)?;
    subscriber.try_init().map_err(|_| Error::Already)?;
    Ok(levels)
}

/// A subscriber that writes to `writer`, for tests and for processes that share one.
pub fn subscriber<W>(
    config: &LogConfig,
    terminal: bool,
    writer: W,
) -> Result<(impl Subscriber + Send + Sync + use<W>, LogLevels), Error>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(parse(&config.level)?);
    let json = config.format == Format::Json || (config.format == Format::Auto && !terminal);
    let output = tracing_subscriber::fmt::layer().with_writer(writer);
    let output = if json {
        output.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
    } else {
        output.with_ansi(terminal).boxed()
    };
    let levels = LogLevels { filter: handle, text: Arc::new(Mutex::new(config.level.trim().to_owned())) };
    Ok((tracing_subscriber::registry().with(filter).with(output), levels))
}

/// Reads `LEVEL` and `TARGET=LEVEL`, separated by commas; names of subsystems stand for their crates.
fn parse(text: &str) -> Result<Targets, Error> {
    if text.len() > LEVELS_BYTES_MAX {
        return Err(Error::Levels { text: "…".to_owned(), reason: "too long".to_owned() });
    }
    let is_off = text.split(',').map(str::trim).rfind(|part| !part.contains('=')) == Some("off");
    let audited = if is_off { LevelFilter::OFF } else { LevelFilter::INFO };
    let first = Targets::new().with_target(AUDIT, audited);
    text.split(',').map(str::trim).try_fold(first, |targets, part| match part.split_once('=') {
        None => Ok(targets.with_default(level(text, part)?)),
        Some((target, level_text)) => Ok(targets.with_target(target_name(text, target)?, level(text, level_text)?)),
    })
}

fn level(text: &str, part: &str) -> Result<LevelFilter, Error> {
    match part {
        "off" => Ok(LevelFilter::OFF),
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        "trace" => Ok(LevelFilter::TRACE),
        other => {
            let reason = format!("{other:?} is not one of off, error, warn, info, debug, trace");
            Err(Error::Levels { text: text.trim().to_owned(), reason })
        }
    }
}

fn target_name(text: &str, target: &str) -> Result<String, Error> {
    if SUBSYSTEMS.contains(&target) {
        return Ok(format!("thane_{target}"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if target.is_empty() || !target.chars().all(plain) {
        let reason = format!("{target:?} is not the name of a part");
        return Err(Error::Levels { text: text.trim().to_owned(), reason });
    }
    Ok(target.to_owned())
}
