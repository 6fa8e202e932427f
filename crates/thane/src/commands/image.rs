//! `thane image`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use thane_api::code;
use thane_node::images::{self, Images};

use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Structured, print, print_structured, tell};
use crate::settings::{self, Flags};
use crate::up::IMAGES;

/// Images that pods on this machine run from
#[derive(Debug, Subcommand)]
pub(crate) enum Image {
    Import(Import),
    List(List),
    Rm(Rm),
}

/// Where images are.
#[derive(Debug, Args)]
struct Place {
    /// The data directory of `thane up`
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Import an archive of `docker save`, an OCI archive or a directory with a root file system
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The archive, which may be compressed with gzip, or the directory
    source: PathBuf,
    /// What it is called; an archive knows itself
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// List the images
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: Place,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
}

/// Remove an image; containers that run from it need it, so delete their pods first
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Its name or id
    name: String,
    #[command(flatten)]
    place: Place,
}

impl Image {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::Import(command) => command.run(global),
            Self::List(command) => command.run(global),
            Self::Rm(command) => command.run(global),
        }
    }
}

impl Place {
    fn open(&self, global: &Global) -> Result<Images, Failure> {
        let flags: Flags = vec![("up.data", "data", self.data.as_ref().map(|data| json!(data)))];
        let data = settings::load(global, flags)?.value.up.data;
        Images::open(Path::new(&data).join(IMAGES)).map_err(|error| failed(&error))
    }
}

impl Import {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let images = self.place.open(global)?;
        for image in images.import(&self.source, self.name.as_deref()).map_err(|error| failed(&error))? {
            tell(&format!("imported {}", image.names.join(", ")));
        }
        Ok(())
    }
}

impl List {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let all = self.place.open(global)?.list().map_err(|error| failed(&error))?;
        if let Some(form) = self.output {
            return print_structured(&all, form);
        }
        let mut rows = vec![["NAME".to_owned(), "ID".to_owned(), "SIZE".to_owned()]];
        for image in &all {
            let id: String = image.id.chars().take(12).collect();
            for name in &image.names {
                rows.push([name.clone(), id.clone(), format!("{:.1} MiB", mebibytes(image.bytes))]);
            }
        }
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
        let (first, second) = (width(0), width(1));
        let lines = rows.iter().map(|[name, id, size]| format!("{name:<first$}   {id:<second$}   {size}\n"));
        print(&lines.collect::<String>())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a size for people, to one decimal")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Rm {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        self.place.open(global)?.remove(&self.name).map_err(|error| failed(&error))?;
        tell(&format!("removed {}", self.name));
        Ok(())
    }
}

fn failed(error: &images::Error) -> Failure {
    let code = if matches!(error, images::Error::File { .. }) { code::FILE_FAILED } else { code::IMAGE_UNUSABLE };
    Failure::new(code, error.to_string())
}
