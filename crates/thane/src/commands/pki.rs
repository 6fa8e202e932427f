//! `thane pki`.

mod init;
mod inspect;
mod issue;
mod renew;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use thane_api::code;
use thane_runtime::pki::store::Paths;
use thane_runtime::pki::{Details, inspect as read_details, store};
use thane_runtime::{Clock, SystemClock};

use crate::cli::Global;
use crate::failure::Failure;
use crate::fleet::objects::Objects;
use crate::output::{Structured, print_structured, tell};

/// The authority's files in the directory are called this.
const AUTHORITY: &str = "ca";

/// Make, inspect and renew certificates
#[derive(Debug, Subcommand)]
pub(crate) enum Pki {
    Init(init::Init),
    Issue(issue::Issue),
    Inspect(inspect::Inspect),
    Renew(renew::Renew),
}

impl Pki {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        let now = SystemClock::new().now();
        match self {
            Self::Init(command) if command.is_on_api() => super::block_on(global, command.run_on_api(now)),
            Self::Init(command) => command.run(now),
            Self::Issue(command) if command.is_on_api() => super::block_on(global, command.run_on_api(now)),
            Self::Issue(command) => command.run(now),
            Self::Inspect(command) => command.run(now),
            Self::Renew(command) => command.run(now),
        }
    }
}

/// Where certificates are and how results look.
#[derive(Debug, Args)]
struct Place {
    /// Directory of the files NAME.crt and NAME.key; the authority is ca
    #[arg(long, value_name = "DIR", default_value = ".thane/pki")]
    dir: PathBuf,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    pub(super) output: Option<Structured>,
}

impl Place {
    fn paths(&self, name: &str) -> Result<Paths, Failure> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            let message = format!("{name:?} cannot be a file name; use letters, digits, '-', '_', '.' and ':'");
            return Err(Failure::new(code::USAGE, message));
        }
        Ok(Paths::new(&self.dir, name))
    }

    fn free(&self, name: &str, force: bool) -> Result<Paths, Failure> {
        let paths = self.paths(name)?;
        if paths.exist() && !force {
            return Err(Failure::new(code::FILE_EXISTS, format!("{} is already there", paths.cert.display())));
        }
        store::create_directory(&self.dir)?;
        Ok(paths)
    }

    /// Tells what was written: to a person on stderr, to a program on stdout.
    fn report(&self, verb: &str, paths: &Paths, cert_pem: &str) -> Result<(), Failure> {
        let details = read_details(cert_pem)?.swap_remove(0);
        if let Some(form) = self.output {
            return print_structured(&Written { cert: &paths.cert, key: &paths.key, details: &details }, form);
        }
        let file = paths.cert.display();
        tell(&format!("{verb} {file} for {}, valid until {}", details.subject_text, details.not_after));
        Ok(())
    }
}

/// A Secret that is there can be replaced.
fn replaceable(failure: Failure) -> Failure {
    match failure.code() {
        code::SECRET_EXISTS => failure.with_hint("give --force to replace it"),
        _ => failure,
    }
}

/// Tells what was kept in a Secret.
pub(super) fn report_secret(
    form: Option<Structured>,
    verb: &str,
    objects: &Objects<'_>,
    name: &str,
    cert_pem: &str,
) -> Result<(), Failure> {
    let details = read_details(cert_pem)?.swap_remove(0);
    let secret = format!("{}/{name}", objects.namespace());
    if let Some(form) = form {
        return print_structured(&Kept { secret: &secret, details: &details }, form);
    }
    tell(&format!("{verb} Secret {secret} for {}, valid until {}", details.subject_text, details.not_after));
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Kept<'a> {
    secret: &'a str,
    details: &'a Details,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    cert: &'a Path,
    key: &'a Path,
    details: &'a Details,
}

fn days_left(details: &Details, now: Timestamp) -> String {
    details.time_left(now).map_or_else(|| "over".to_owned(), |left| format!("{} days left", left.as_secs() / 86_400))
}
