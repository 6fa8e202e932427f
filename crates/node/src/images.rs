//! Images on this machine: imported from archives or directories, kept as layers under the data folder.

mod archive;
mod config;
mod copy;
mod fresh;
mod host;
mod own;
mod unpack;
mod uses;
mod zstd;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use config::ImageConfig;
use fresh::Fresh;
pub(crate) use host::{HOST, Host};
pub(crate) use own::{OWN, Own, running};

/// Why an image cannot be had or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the store, or one that was given.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The archive is not one, or holds what no image may.
    #[error("{0}")]
    Archive(String),
    /// No image of that name is here.
    #[error("no image {0:?} is on this machine; bring it with `thane image import`")]
    Absent(String),
    /// Pods stand on it, or snapshots of theirs.
    #[error("image {name:?} is used by {}: delete them first", .pods.join(", "))]
    Used {
        /// What was to be removed.
        name: String,
        /// Some of those who use it.
        pods: Vec<String>,
    },
    /// A name that is none.
    #[error("{0:?} is no name for an image")]
    Name(String),
}

/// The file that is locked while something changes.
const LOCK: &str = ".lock";
/// How the names of layers begin that were directories.
const DIRECTORY: &str = "directory-";

type Result<T, E = Error> = std::result::Result<T, E>;

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|source| Error::File { path: path.to_owned(), source })
}

/// An image as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// What it is called, each with its tag.
    pub names: Vec<String>,
    /// The digest of its configuration.
    pub id: String,
    /// Its layers, lowest first.
    pub layers: Vec<String>,
    /// What it says about processes.
    pub config: ImageConfig,
    /// What its layers occupy.
    pub bytes: u64,
}

/// The images under a directory.
#[derive(Debug, Clone)]
pub struct Images {
    directory: PathBuf,
}

impl Images {
    /// Opens the store, making it if it is missing.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = directory.into();
        for name in ["layers", "images", "new"] {
            let path = directory.join(name);
            at(&path, fs::create_dir_all(&path))?;
        }
        Ok(Self { directory })
    }

    /// Imports an archive of either form, or a directory; all names it has, or `name`.
    pub fn import(&self, source: &Path, name: Option<&str>) -> Result<Vec<Image>> {
        let name = name.map(canonical).transpose()?;
        let _lock = self.lock()?;
        if at(source, fs::metadata(source))?.is_dir() {
            let name =
                name.ok_or_else(|| Error::Archive("a directory needs a name to be imported under".to_owned()))?;
            return Ok(vec![self.import_directory(source, name)?]);
        }
        archive::import(self, source, name.as_deref())
    }

    fn import_directory(&self, source: &Path, name: String) -> Result<Image> {
        let new = self.new_layer()?;
        let bytes = copy::tree(source, new.path())?;
        // What runs from an earlier import keeps that: each has a layer of its own.
        let digest = hex(&Sha256::digest(format!("{name}\0{}", new.path().display()).as_bytes()));
        let layer = format!("{DIRECTORY}{digest}");
        new.keep(&self.layer(&layer))?;
        let config = ImageConfig::of_directory();
        let image = Image { names: vec![name], id: digest, layers: vec![layer], config, bytes };
        self.keep(image)
    }

    /// All images, by name.
    pub fn list(&self) -> Result<Vec<Image>> {
        let path = self.directory.join("images");
        let mut images = Vec::new();
        for entry in at(&path, fs::read_dir(&path))? {
            let path = at(&path, entry)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let text = at(&path, fs::read(&path))?;
                let image: Image = serde_json::from_slice(&text)
                    .map_err(|error| Error::Archive(format!("{}: {error}", path.display())))?;
                images.push(image);
            }
        }
        images.sort_by(|a, b| a.names.cmp(&b.names).then(a.id.cmp(&b.id)));
        Ok(images)
    }

    /// The image of that name or id.
    pub fn find(&self, name: &str) -> Result<Image> {
        let wanted = canonical(name)?;
        let short = name.strip_prefix("sha256:").unwrap_or(name);
        let is_id = short.len() >= 12 && short.bytes().all(|byte| byte.is_ascii_hexdigit());
        let found = self
            .list()?
            .into_iter()
            .find(|image| image.names.contains(&wanted) || (is_id && image.id.starts_with(short)));
        found.ok_or_else(|| Error::Absent(name.to_owned()))
    }

    /// Removes what nobody can want: layers of no image, and what was left by imports that were killed. Only for when no
    /// container runs from any of them. If somebody imports now, it is left for another time.
    pub fn sweep(&self) -> Result<()> {
        let path = self.directory.join(LOCK);
        let lock = at(&path, File::create(&path))?;
        if lock.try_lock().is_err() {
            return Ok(());
        }
        self.sweep_layers(|_| true)?;
        let new = self.directory.join("new");
        for entry in at(&new, fs::read_dir(&new))? {
            let path = at(&new, entry)?.path();
            at(&path, crate::files::remove_tree(&path))?;
        }
        Ok(())
    }

    /// Removes layers that no image has, of those that are meant.
    fn sweep_layers(&self, meant: impl Fn(&Path) -> bool) -> Result<()> {
        let used: Vec<PathBuf> = self.list()?.iter().flat_map(|image| self.layers(image)).collect();
        let layers = self.directory.join("layers");
        for entry in at(&layers, fs::read_dir(&layers))? {
            let path = at(&layers, entry)?.path();
            if meant(&path) && !used.contains(&path) {
                at(&path, crate::files::remove_tree(&path))?;
            }
        }
        Ok(())
    }

    /// Held by who changes something, so that two processes do it one after the other.
    fn lock(&self) -> Result<File> {
        let path = self.directory.join(LOCK);
        let file = at(&path, File::create(&path))?;
        at(&path, file.lock())?;
        Ok(file)
    }

    /// Removes a name; with its last name the image goes, and layers nobody else has, unless somebody uses it.
    pub fn remove(&self, name: &str) -> Result<()> {
        let _lock = self.lock()?;
        let whole = self.find(name)?;
        let mut image = whole.clone();
        let wanted = canonical(name)?;
        image.names.retain(|known| *known != wanted && *known != name);
        let by_id = !self.find(name)?.names.contains(&wanted);
        let path = self.record(&image.id);
        if image.names.is_empty() || by_id {
            at(&path, fs::remove_file(&path))?;
        } else {
            return self.write(&image);
        }
        // Who begins to use it says so first and then looks whether it is there.
        let pods = self.users(&image.id);
        if !pods.is_empty() {
            self.write(&whole)?;
            return Err(Error::Used { name: name.to_owned(), pods });
        }
        let used: Vec<String> = self.list()?.into_iter().flat_map(|image| image.layers).collect();
        for layer in image.layers.iter().filter(|layer| !used.contains(layer)) {
            let path = self.layer(layer);
            at(&path, crate::files::remove_tree(&path))?;
        }
        Ok(())
    }

    /// Where the layers of an image are, topmost first.
    pub(crate) fn layers(&self, image: &Image) -> Vec<PathBuf> {
        image.layers.iter().rev().map(|layer| self.layer(layer)).collect()
    }

    /// User and group of a name in the image's `/etc/passwd`.
    pub(crate) fn user(&self, image: &Image, name: &str) -> Option<(u32, u32)> {
        let read = |layer: &PathBuf| {
            let path = layer.join("etc/passwd");
            // A link could lead anywhere on this machine.
            let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
            let is_inside = fs::symlink_metadata(layer.join("etc")).is_ok_and(|found| found.is_dir());
            if is_file && is_inside { fs::read_to_string(path).ok() } else { None }
        };
        let text = self.layers(image).iter().find_map(read)?;
        config::find_user(&text, name)
    }

    fn layer(&self, name: &str) -> PathBuf {
        self.directory.join("layers").join(name.replace(':', "-"))
    }

    fn record(&self, id: &str) -> PathBuf {
        self.directory.join("images").join(format!("{id}.json"))
    }

    fn new_layer(&self) -> Result<Fresh> {
        Fresh::new(&self.directory.join("new"))
    }

    /// Keeps an image; its names are taken from those that had them.
    fn keep(&self, mut image: Image) -> Result<Image> {
        for mut other in self.list()?.into_iter().filter(|other| other.id != image.id) {
            let before = other.names.len();
            other.names.retain(|name| !image.names.contains(name));
            if other.names.is_empty() && before > 0 && other.layers.iter().all(|layer| layer.starts_with(DIRECTORY)) {
                // An earlier import of a directory; its layer stays for what runs from it.
                let path = self.record(&other.id);
                at(&path, fs::remove_file(&path))?;
            } else if other.names.len() != before {
                self.write(&other)?;
            }
        }
        if let Ok(known) = self.find(&image.id) {
            image.names.extend(known.names);
            image.names.sort();
            image.names.dedup();
        }
        self.write(&image)?;
        Ok(image)
    }

    fn write(&self, image: &Image) -> Result<()> {
        let path = self.record(&image.id);
        let text = serde_json::to_vec_pretty(image).map_err(|error| Error::Archive(error.to_string()))?;
        at(&path, thane_runtime::files::write_private(&path, &text))
    }
}

/// A name with its tag, without the parts that everybody leaves out.
fn canonical(name: &str) -> Result<String> {
    let name = name.trim();
    let bare = ["docker.io/library/", "docker.io/", "library/"].iter().find_map(|prefix| name.strip_prefix(prefix));
    let name = bare.unwrap_or(name);
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    if name.is_empty() || name.len() > 255 || !name.chars().all(allowed) || name.starts_with(['/', '.', '-']) {
        return Err(Error::Name(name.to_owned()));
    }
    let last = name.rsplit('/').next().unwrap_or(name);
    Ok(if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") })
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The digest of a file's content.
fn digest(reader: &mut impl Read) -> io::Result<String> {
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(hex(&sum.finalize())),
            count => sum.update(&buffer[..count]),
        }
    }
}

/// The file, at its beginning.
fn open(path: &Path) -> Result<File> {
    at(path, File::open(path))
}

#[cfg(test)]
mod tests;
