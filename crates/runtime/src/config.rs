//! Layered configuration: defaults, YAML file, environment, flags. Every value knows where it came from.

mod environment;
mod file;
mod leaves;
#[cfg(test)]
mod tests;
pub mod units;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use environment::{
    API_KEY_VARIABLE, DISCOVERY_TOKEN_VARIABLE, DISCOVERY_VARIABLE, FILE_VARIABLE, GATEWAY_VARIABLE, variable_name,
};
use leaves::Leaves;

/// A configuration file is never larger.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// A line of a file.
    File {
        /// Which file.
        path: PathBuf,
        /// Which line, counted from one.
        line: u64,
    },
    /// An environment variable.
    Environment(String),
    /// A command-line flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// Why configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not YAML, or not a mapping.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// A value is not one this program knows.
    #[error("{origin}: {key}: {message}")]
    Value {
        /// Where the value came from.
        origin: Origin,
        /// The value's path, joined by dots.
        key: String,
        /// Why.
        message: String,
    },
    /// The defaults themselves cannot be written down.
    #[error("built-in configuration: {0}")]
    Defaults(String),
}

/// One value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The value's path, joined by dots.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Where it came from.
    pub origin: String,
    /// The environment variable that sets it.
    pub variable: String,
}

/// Layers put over one another, later ones on top.
#[derive(Debug, Clone)]
pub struct Layers {
    leaves: Leaves,
    known: Leaves,
    unknown_variables: Vec<String>,
}

/// Configuration in use.
#[derive(Debug, Clone)]
pub struct Loaded<T> {
    /// The typed configuration.
    pub value: T,
    /// Variables that begin like ours and set nothing; worth a warning.
    pub unknown_variables: Vec<String>,
    leaves: Leaves,
}

impl Layers {
    /// Starts from the built-in defaults, which also say what values there are.
    pub fn from_defaults<T: Serialize>(defaults: &T) -> Result<Self, Error> {
        let tree = serde_json::to_value(defaults).map_err(|error| Error::Defaults(error.to_string()))?;
        let leaves = Leaves::from_tree(tree, &Origin::Default);
        Ok(Self { known: leaves.clone(), leaves, unknown_variables: Vec::new() })
    }

    /// Puts a YAML text over what is there; `path` names it in messages.
    pub fn with_file(mut self, path: &Path, text: &str) -> Result<Self, Error> {
        self.leaves.put_over(file::parse(path, text)?);
        Ok(self)
    }

    /// Puts `THANE_…` variables over what is there; empty ones count as unset.
    #[must_use]
    pub fn with_environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let found = environment::select(&self.known, variables);
        self.leaves.put_over(found.leaves);
        self.unknown_variables.extend(found.unknown);
        self
    }

    /// Puts a flag's value over what is there; a flag that was not given changes nothing.
    #[must_use]
    pub fn with_flag(mut self, key: &str, flag: &str, value: Option<Value>) -> Self {
        if let Some(value) = value {
            self.put(key, value, Origin::Flag(flag.to_owned()));
        }
        self
    }

    /// Puts the value of a variable that is not one of ours over what is there.
    #[must_use]
    pub fn with_variable(mut self, key: &str, name: &str, value: Value) -> Self {
        self.put(key, value, Origin::Environment(name.to_owned()));
        self
    }

    fn put(&mut self, key: &str, value: Value, origin: Origin) {
        self.leaves.put(key.split('.').map(str::to_owned).collect(), value, origin);
    }

    /// Reads the layers as typed configuration.
    pub fn load<T: DeserializeOwned>(self) -> Result<Loaded<T>, Error> {
        let value = serde_path_to_error::deserialize(self.leaves.to_tree()).map_err(|error| {
            let key = error.path().to_string();
            let origin = self.leaves.origin_near(&key).cloned().unwrap_or(Origin::Default);
            Error::Value { origin, key, message: error.into_inner().to_string() }
        })?;
        Ok(Loaded { value, unknown_variables: self.unknown_variables, leaves: self.leaves })
    }
}

impl<T> Loaded<T> {
    /// Every value with its origin, in order of path.
    pub fn rows(&self) -> Vec<Row> {
        self.leaves
            .iter()
            .map(|(path, leaf)| Row {
                key: path.join("."),
                value: leaf.value.clone(),
                origin: leaf.origin.to_string(),
                variable: variable_name(path),
            })
            .collect()
    }

    /// The whole configuration as one tree.
    pub fn tree(&self) -> Value {
        self.leaves.to_tree()
    }
}

/// Reads a configuration file for [`Layers::with_file`].
pub fn read_file(path: &Path) -> Result<String, Error> {
    let read = |source| Error::Read { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(read)?.len();
    if size > FILE_BYTES_MAX {
        return Err(read(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "larger than 1 MiB")));
    }
    std::fs::read_to_string(path).map_err(read)
}
