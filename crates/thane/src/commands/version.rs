//! `thane version`.

use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Structured, print, print_structured};

/// Show the version
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
}

impl Version {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let version = env!("CARGO_PKG_VERSION");
        match self.output {
            None => print(&format!("thane {version}\n")),
            Some(form) => print_structured(&json!({ "name": "thane", "version": version }), form),
        }
    }
}
