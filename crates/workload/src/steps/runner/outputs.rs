//! What a step leaves in its sandbox.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use thane_executor::step::PARAMETER_MAX;

use super::super::artifacts::archive::{self, Packing};
use super::super::inside::wait::shown;
use super::super::location;
use super::super::pod::{list, text};
use super::inputs::{Scratch, stores};
use super::{Asked, Found, Room};

/// The largest file of an artifact, all of which is in memory for a moment.
const FILE_MAX: u64 = 64 << 20;
/// Files of one artifact.
const FILES_MAX: usize = 10_000;

pub(super) async fn parameters(room: &dyn Room, promised: &[Value]) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    for parameter in promised {
        let mut parameter = parameter.clone();
        if let Some(path) = parameter["valueFrom"]["path"].as_str().filter(|path| !path.is_empty()) {
            let default = match &parameter["valueFrom"]["default"] {
                Value::Null => None,
                Value::String(default) => Some(default.clone()),
                other => Some(other.to_string()),
            };
            let value = match (room.read(path, PARAMETER_MAX + 1).await?, default) {
                (Some(bytes), _) if bytes.len() as u64 > PARAMETER_MAX => {
                    let name = text(&parameter, "name");
                    return Err(format!("output parameter {name} is larger than {PARAMETER_MAX} bytes"));
                }
                (Some(bytes), _) => String::from_utf8_lossy(&bytes).into_owned(),
                (None, Some(default)) => default,
                (None, None) => return Err(format!("open {path}: no such file or directory")),
            };
            parameter["value"] = json!(value.strip_suffix('\n').unwrap_or(&value));
        }
        found.push(parameter);
    }
    Ok(found)
}

/// Keeps the step's artifacts; what is recorded of them.
pub(super) async fn artifacts(room: &dyn Room, asked: &Asked<'_>) -> Result<Vec<Value>, String> {
    let mut kept = Vec::new();
    for artifact in list(&asked.template["outputs"]["artifacts"]) {
        kept.extend(keep(room, artifact, asked).await?);
    }
    Ok(kept)
}

async fn keep(room: &dyn Room, artifact: &Value, asked: &Asked<'_>) -> Result<Option<Value>, String> {
    let (name, path) = (text(artifact, "name"), text(artifact, "path").trim_end_matches('/'));
    let directory = asked.artifacts.ok_or_else(|| format!("artifact {name}: there is no directory of artifacts"))?;
    let scratch = Scratch::new(directory)?;
    let from = scratch.join("found");
    let mut count = 0;
    if !take(room, path.to_owned(), from.clone(), &mut count).await? {
        let is_optional = artifact["optional"] == true;
        return if is_optional { Ok(None) } else { Err(format!("open {path}: no such file or directory")) };
    }
    let packing = Packing::of(artifact).unwrap_or(Packing::Tar(None));
    let file = packing.file(name, path);
    let whole = location::relocated(artifact, &asked.template["archiveLocation"], Some(&file))?;
    // What is packed is called as it was in the sandbox.
    let called = scratch.join("named").join(path.rsplit('/').next().unwrap_or(name));
    let (to, file) = (scratch.join("packed"), file.clone());
    let packed = tokio::task::spawn_blocking(move || {
        let failed = |error: std::io::Error| error.to_string();
        fs::create_dir_all(called.parent().unwrap_or(&to)).map_err(failed)?;
        fs::rename(&from, &called).map_err(failed)?;
        archive::pack(archive::Found::Path(&called), packing, &to, &file).map_err(|error| error.to_string())
    });
    let packed = packed.await.map_err(|error| error.to_string()).and_then(|packed| packed);
    let packed = packed.map_err(|error| format!("artifact {name}: {error}"))?;
    stores(directory).save(&packed, &whole).await.map_err(|error| format!("artifact {name}: {error}"))?;
    if let Some(key) = location::key(&whole) {
        give(directory, key).map_err(|error| format!("artifact {name}: {error}"))?;
    }
    Ok(Some(shown(artifact, &whole)))
}

/// Copies what is at a path of a sandbox; whether there is anything.
fn take<'a>(
    room: &'a dyn Room,
    path: String,
    to: PathBuf,
    count: &'a mut usize,
) -> BoxFuture<'a, Result<bool, String>> {
    Box::pin(async move {
        *count += 1;
        if *count > FILES_MAX {
            return Err(format!("{path}: more than {FILES_MAX} files"));
        }
        let failed = |error: std::io::Error| format!("{path}: {error}");
        match room.find(&path).await? {
            Found::Absent => return Ok(false),
            Found::Directory(names) => {
                fs::create_dir(&to).map_err(failed)?;
                for (name, _) in names.iter().filter(|(name, _)| !name.contains('/') && name != "..") {
                    take(room, format!("{path}/{name}"), to.join(name), count).await?;
                }
            }
            Found::File => match room.read(&path, FILE_MAX + 1).await? {
                Some(content) if content.len() as u64 > FILE_MAX => {
                    return Err(format!("{path}: larger than the {FILE_MAX} bytes that fit"));
                }
                Some(content) => fs::write(&to, content).map_err(failed)?,
                None => return Ok(false),
            },
        }
        Ok(true)
    })
}

/// Makes what was kept under a key, and the directories above it, belong to whom the directory of artifacts does: steps in
/// pods write there as well.
fn give(directory: &Path, key: &str) -> std::io::Result<()> {
    let owner = fs::metadata(directory)?;
    let mut path = directory.to_owned();
    for name in key.split('/').filter(|name| !name.is_empty() && *name != ".") {
        path.push(name);
        let found = fs::symlink_metadata(&path)?;
        if (found.uid(), found.gid()) != (owner.uid(), owner.gid()) {
            lchown(&path, Some(owner.uid()), Some(owner.gid()))?;
        }
    }
    give_below(&path, &owner)
}

fn give_below(path: &Path, owner: &fs::Metadata) -> std::io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            lchown(&path, Some(owner.uid()), Some(owner.gid()))?;
            give_below(&path, owner)?;
        }
    }
    Ok(())
}
