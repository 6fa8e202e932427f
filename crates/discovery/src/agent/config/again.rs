//! The file, read again: some of it takes effect at once, the rest in a new process.

use std::path::Path;
use std::sync::Arc;

use super::{Config, Environment, Error, Read};
use crate::agent::options::Reloaded;

/// A file is never larger.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a file, and lets the agent read it again when it is told to.
pub fn load(path: &Path, environment: &Environment) -> Result<Read, Error> {
    let before = Config::parse(&text(path)?)?;
    let mut read = before.clone().read(environment)?;
    let (path, environment) = (path.to_owned(), environment.clone());
    read.options.again = Some(Arc::new(move || {
        let after = text(&path).and_then(|text| Config::parse(&text)).map_err(|error| error.to_string())?;
        let needs_restart = needs_restart(&before, &after);
        let again = after.read(&environment).map_err(|error| error.to_string())?;
        for warning in &again.warnings {
            tracing::warn!("{warning}");
        }
        Ok(Reloaded { adjustable: again.options.adjustable, needs_restart })
    }));
    Ok(read)
}

/// What is different and stays as it was until the agent starts again.
fn needs_restart(before: &Config, after: &Config) -> Vec<&'static str> {
    let is_other = [
        ("id", before.id != after.id),
        ("node_name", before.node_name != after.node_name),
        ("address", before.address != after.address),
        ("datacenter", before.datacenter != after.datacenter),
        ("metadata", before.metadata != after.metadata),
        ("tls", before.tls != after.tls),
        (
            "health_checks.enable_script_checks",
            before.health_checks.enable_script_checks != after.health_checks.enable_script_checks,
        ),
        ("sync.compression", before.sync.compression != after.sync.compression),
    ];
    is_other.into_iter().filter(|(_, is_other)| *is_other).map(|(name, _)| name).collect()
}

fn text(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(Error::TooLarge(path.to_owned()));
    }
    std::fs::read_to_string(path).map_err(failed)
}
