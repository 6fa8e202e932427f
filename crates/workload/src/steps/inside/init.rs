//! `thane step init`: brings the wrapper, the plan, the script and the input artifacts.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use thane_executor::step::{Places, StepPlan};

use super::super::artifacts::{self, archive};
use super::super::location;
use super::super::names::EXECUTOR;
use super::super::pod::{list, overlapping, text};
use super::{Failure, Layout, Result, Told};

/// The template, for `wait`.
pub(super) const TEMPLATE: &str = "template";

/// Prepares a step. The wrapper is written by whoever has it.
pub async fn init(told: &Told, layout: &Layout, install: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
    let template = told.template(layout)?;
    let places = Places::new(&layout.run);
    let program = layout.run.join(EXECUTOR);
    install(&program).map_err(|error| Failure::at(&program, &error))?;
    let containers = layout.run.join("ctr");
    fs::create_dir_all(&containers).map_err(|error| Failure::at(&containers, &error))?;
    let _ = fs::set_permissions(&containers, PermissionsExt::from_mode(0o777));
    write(&layout.run.join(TEMPLATE), template.to_string().as_bytes(), 0o444)?;
    let plan = plan(&template, told.wants_result);
    let words = serde_json::to_vec(&plan).map_err(|error| Failure(format!("the plan: {error}")))?;
    write(&places.plan(), &words, 0o444)?;
    if template["script"].is_object() {
        write(&layout.script, text(&template["script"], "source").as_bytes(), 0o755)?;
    }
    for artifact in list(&template["inputs"]["artifacts"]) {
        load(artifact, &template, layout).await?;
    }
    Ok(())
}

fn write(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let written = fs::write(path, content).and_then(|()| fs::set_permissions(path, PermissionsExt::from_mode(mode)));
    written.map_err(|error| Failure::at(path, &error))
}

/// What the wrapper does; what is on a volume is taken by `wait` itself.
fn plan(template: &Value, wants_result: bool) -> StepPlan {
    let own = |path: &&str| !path.is_empty() && overlapping(template, path).is_none();
    let paths = |side: &str, of: fn(&Value) -> &Value| -> Vec<String> {
        let all = list(&template["outputs"][side]).iter();
        all.filter_map(|one| of(one).as_str()).filter(own).map(str::to_owned).collect()
    };
    StepPlan {
        result: wants_result,
        logs: template["archiveLocation"]["archiveLogs"] == true,
        parameters: paths("parameters", |one| &one["valueFrom"]["path"]),
        artifacts: paths("artifacts", |one| &one["path"]),
        sidecars: list(&template["sidecars"]).iter().map(|one| text(one, "name").to_owned()).collect(),
    }
}

async fn load(artifact: &Value, template: &Value, layout: &Layout) -> Result<()> {
    let (name, path) = (text(artifact, "name"), text(artifact, "path"));
    let is_optional = artifact["optional"] == true;
    if !location::has_key(artifact) {
        return if is_optional { Ok(()) } else { Err(Failure(format!("required artifact '{name}' not supplied"))) };
    }
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(Failure(format!("{name:?} is no name of an artifact")));
    }
    let whole = location::relocated(artifact, &template["archiveLocation"], None)
        .map_err(|why| Failure(format!("failed to load artifact '{name}': {why}")))?;
    let to = match overlapping(template, path) {
        Some(_) => layout.main.join(path.trim_start_matches('/')),
        None => layout.inputs.join(name),
    };
    let mut brought = to.as_os_str().to_owned();
    brought.push(".tmp");
    let brought = Path::new(&brought);
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(|error| Failure::at(parent, &error))?;
    }
    match layout.stores.load(&whole, brought).await {
        Err(artifacts::Error::Absent(_)) if is_optional => return Ok(()),
        other => other.map_err(|error| Failure(format!("artifact {name} failed to load: {error}")))?,
    }
    archive::unpack(brought, &to, archive::Packing::of(artifact))
        .map_err(|error| Failure(format!("artifact {name} failed to load: {error}")))?;
    if let Some(mode) = artifact["mode"].as_u64().and_then(|mode| u32::try_from(mode).ok()) {
        let done = change_mode(&to, mode & 0o7777, artifact["recurseMode"] == true);
        done.map_err(|error| Failure::at(&to, &error))?;
    }
    Ok(())
}

fn change_mode(path: &Path, mode: u32, recurses: bool) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_symlink() {
        return Ok(());
    }
    if recurses && found.is_dir() {
        for entry in fs::read_dir(path)? {
            change_mode(&entry?.path(), mode, true)?;
        }
    }
    fs::set_permissions(path, PermissionsExt::from_mode(mode))
}
