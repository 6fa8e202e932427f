//! Output parameters and artifacts, copied out of a root that nobody else sees.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read};
use std::path::Path;

use thane_executor::step::{PARAMETER_MAX, Places, StepPlan};
use thane_executor::tarball;

use super::super::{Doing, Result};

/// Copies what is there. What is missing may be optional, which the container beside us knows.
pub(super) fn save(plan: &StepPlan, places: &Places) -> Result<()> {
    for path in &plan.parameters {
        let to = places.parameter(path);
        absent_is_fine(parameter(Path::new(path), &to))
            .doing(|| format!("failed to copy {path} to {}", to.display()))?;
    }
    for path in &plan.artifacts {
        let to = places.artifact(path);
        let tarred = absent_is_fine(artifact(Path::new(path.trim_end_matches('/')), &to));
        tarred.doing(|| format!("failed to tarball the output {path} to {}", to.display()))?;
    }
    Ok(())
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn parameter(from: &Path, to: &Path) -> io::Result<()> {
    let found = fs::metadata(from)?;
    if !found.is_file() {
        return Err(io::Error::other("is no file"));
    }
    let source = File::open(from)?;
    parent(to)?;
    io::copy(&mut source.take(PARAMETER_MAX + 1), &mut File::create(to)?).map(drop)
}

fn parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn artifact(from: &Path, to: &Path) -> io::Result<()> {
    // Nothing is made for what is not there.
    fs::metadata(from)?;
    parent(to)?;
    let new = to.with_extension("new");
    let written = tarball::write(from, BufWriter::new(File::create(&new)?))?;
    written.into_inner().map_err(io::IntoInnerError::into_error)?;
    fs::rename(new, to)
}
