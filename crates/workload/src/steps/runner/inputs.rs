//! What a step finds in its sandbox.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::artifacts::{self, Stores, archive};
use super::super::location;
use super::super::pod::{list, text};
use super::{Asked, Staged};

/// What all input artifacts of a step may hold.
const STAGED_MAX: usize = 8 << 20;

/// A place for files on their way, gone when dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Beside the artifacts, where there is room for them.
    pub(super) fn new(artifacts: &Path) -> Result<Self, String> {
        let path = artifacts.join(format!(".step-{}", uuid::Uuid::new_v4()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is nobody's.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where artifacts are.
pub(super) fn stores(directory: &Path) -> Stores {
    Stores { secrets: PathBuf::new(), directory: directory.to_owned() }
}

/// The files of a step's input artifacts.
pub(super) async fn staged(asked: &Asked<'_>) -> Result<Vec<Staged>, String> {
    let mut all = Vec::new();
    for artifact in list(&asked.template["inputs"]["artifacts"]) {
        all.extend(brought(artifact, asked).await?);
    }
    let bytes: usize = all.iter().map(|one| one.content.len()).sum();
    if bytes > STAGED_MAX {
        return Err(format!(
            "its input artifacts hold {bytes} bytes, more than the {STAGED_MAX} that fit into a sandbox"
        ));
    }
    Ok(all)
}

async fn brought(artifact: &Value, asked: &Asked<'_>) -> Result<Vec<Staged>, String> {
    let (name, path) = (text(artifact, "name"), text(artifact, "path"));
    let mode = artifact["mode"].as_u64().and_then(|mode| u32::try_from(mode).ok());
    if artifact["raw"].is_object() {
        let content = text(&artifact["raw"], "data").as_bytes().to_vec();
        return Ok(vec![Staged { path: path.to_owned(), content, mode: mode.unwrap_or(0o644) }]);
    }
    if !location::has_key(artifact) {
        let is_optional = artifact["optional"] == true;
        return if is_optional { Ok(Vec::new()) } else { Err(format!("required artifact '{name}' not supplied")) };
    }
    let directory = asked.artifacts.ok_or_else(|| format!("artifact {name}: there is no directory of artifacts"))?;
    let whole = location::relocated(artifact, &asked.template["archiveLocation"], None)?;
    let scratch = Scratch::new(directory)?;
    let (packed, to) = (scratch.join("packed"), scratch.join("whole"));
    match stores(directory).load(&whole, &packed).await {
        Err(artifacts::Error::Absent(_)) if artifact["optional"] == true => return Ok(Vec::new()),
        loaded => loaded.map_err(|error| format!("artifact {name} failed to load: {error}"))?,
    }
    let packing = archive::Packing::of(artifact);
    let read = tokio::task::spawn_blocking(move || {
        archive::unpack(&packed, &to, packing).map_err(|error| error.to_string())?;
        let mut files = Vec::new();
        collect(&to, String::new(), &mut files, &mut 0).map_err(|error| error.to_string())?;
        drop(scratch);
        Ok::<_, String>(files)
    });
    let files = read.await.map_err(|error| error.to_string()).and_then(|read| read);
    let files = files.map_err(|error| format!("artifact {name} failed to load: {error}"))?;
    let own = |one: Staged| Staged { path: format!("{path}{}", one.path), mode: mode.unwrap_or(one.mode), ..one };
    Ok(files.into_iter().map(own).collect())
}

/// All files below a path, each with its own beneath it.
fn collect(at: &Path, path: String, files: &mut Vec<Staged>, bytes: &mut u64) -> std::io::Result<()> {
    let found = fs::symlink_metadata(at)?;
    if found.is_dir() {
        for entry in fs::read_dir(at)? {
            let entry = entry?;
            collect(&entry.path(), format!("{path}/{}", entry.file_name().to_string_lossy()), files, bytes)?;
        }
    } else if found.is_file() {
        *bytes = bytes.saturating_add(found.len());
        if *bytes > STAGED_MAX as u64 {
            return Err(std::io::Error::other(format!("it holds more than the {STAGED_MAX} bytes that fit")));
        }
        files.push(Staged { path, content: fs::read(at)?, mode: found.permissions().mode() & 0o7777 });
    }
    Ok(())
}
