//! `thane pki inspect`.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use thane_runtime::pki::{Details, Trust, inspect, store};

use super::days_left;
use crate::failure::Failure;
use crate::output::{Structured, print, print_structured};

/// Show what a certificate says, and whether it is still good
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// PEM file with one or more certificates
    file: PathBuf,
    /// Also verify the first certificate against this authority
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
}

impl Inspect {
    pub(super) fn run(&self, now: Timestamp) -> Result<(), Failure> {
        let pem = store::read(&self.file)?;
        let certificates = inspect(&pem).map_err(|source| store::Error::Pki { path: self.file.clone(), source })?;
        match self.output {
            Some(form) => print_structured(&certificates, form)?,
            None => print(&certificates.iter().map(|details| text(details, now)).collect::<Vec<_>>().join("\n"))?,
        }
        if let Some(ca) = &self.ca {
            Trust::from_pem(&store::read(ca)?)?.verify(&pem, now)?;
        }
        Ok(())
    }
}

fn text(details: &Details, now: Timestamp) -> String {
    let names = if details.names.is_empty() { "-".to_owned() } else { details.names.join(", ") };
    let rows = [
        ("subject", details.subject_text.clone()),
        ("issuer", details.issuer_text.clone()),
        ("names", names),
        ("not before", details.not_before.to_string()),
        ("not after", format!("{} ({})", details.not_after, days_left(details, now))),
        ("authority", if details.authority { "yes" } else { "no" }.to_owned()),
        ("usages", details.usages.join(", ")),
        ("serial", details.serial.clone()),
        ("sha256", details.fingerprint.clone()),
    ];
    rows.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<12}{value}");
        text
    })
}
