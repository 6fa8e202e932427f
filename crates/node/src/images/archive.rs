//! Archives of images: OCI layouts and what `docker save` writes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde_json::Value;

use super::zstd::Zstd;
use super::{Error, Image, ImageConfig, Images, at, canonical, digest, open, unpack};

/// Files in the archive itself.
const MEMBERS_MAX: usize = 10_000;
/// What one that is packed as a whole may hold.
const ARCHIVE_MAX: u64 = 256 << 30;
/// The largest document in it.
const DOCUMENT_MAX: u64 = 8 << 20;
/// Images in one archive.
const IMAGES_MAX: usize = 100;
/// How deep indexes of indexes may be nested.
const DEPTH_MAX: usize = 4;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Imports all images of an archive.
pub(super) fn import(images: &Images, source: &Path, name: Option<&str>) -> Result<Vec<Image>, Error> {
    let mut unpacked = None;
    let mut file = open(source)?;
    let start = start_of(&mut file).map_err(|error| broken(&error))?;
    if is_packed(&start) {
        let scratch = images.new_layer()?;
        let path = scratch.path().join("archive.tar");
        let mut plain = at(&path, File::create(&path))?;
        unpack(&start, file, &mut plain, ARCHIVE_MAX).map_err(|error| broken(&error))?;
        file = open(&path)?;
        // It goes when this ends, however it ends.
        unpacked = Some(scratch);
    }
    let mut archive = Archive::read(file)?;
    let imported = archive.import(images, name);
    if imported.is_err() {
        // Layers of an image that was refused later.
        images.sweep_layers(|path| archive.made.iter().any(|made| made == path))?;
    }
    drop(unpacked);
    imported
}

/// Writes out what an archive that is packed as a whole holds; a small one can hold very much.
fn unpack(start: &[u8], packed: File, plain: &mut File, bytes_max: u64) -> io::Result<()> {
    let mut packed = unpacking(start, BufReader::new(packed));
    io::copy(&mut packed.by_ref().take(bytes_max), plain)?;
    if packed.read(&mut [0])? > 0 {
        return Err(io::Error::other(format!("it holds more than {bytes_max} bytes")));
    }
    Ok(())
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::Archive(format!("read the archive: {error}"))
}

fn start_of(file: &mut File) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(start)
}

fn is_packed(start: &[u8]) -> bool {
    start.starts_with(&GZIP) || start == ZSTD
}

/// The content of something that begins like this.
fn unpacking<'a>(start: &[u8], reader: impl BufRead + 'a) -> Box<dyn Read + 'a> {
    if start.starts_with(&GZIP) {
        Box::new(MultiGzDecoder::new(reader))
    } else if start == ZSTD {
        Box::new(Zstd::new(reader))
    } else {
        Box::new(reader)
    }
}

/// Where the members of an archive are.
struct Archive {
    file: File,
    members: BTreeMap<String, (u64, u64)>,
    /// Layers that were not there before.
    made: Vec<PathBuf>,
}

/// One image of an archive, before its layers are unpacked.
struct Found {
    names: Vec<String>,
    config: String,
    layers: Vec<String>,
}

impl Archive {
    fn read(file: File) -> Result<Self, Error> {
        let mut members = BTreeMap::new();
        let mut archive = tar::Archive::new(file);
        for entry in archive.entries_with_seek().map_err(|error| broken(&error))? {
            let entry = entry.map_err(|error| broken(&error))?;
            let path = entry.path().map_err(|error| broken(&error))?.to_string_lossy().into_owned();
            let path = path.trim_start_matches("./").to_owned();
            members.insert(path, (entry.raw_file_position(), entry.size()));
            if members.len() > MEMBERS_MAX {
                return Err(Error::Archive(format!("the archive has more than {MEMBERS_MAX} files")));
            }
        }
        Ok(Self { file: archive.into_inner(), members, made: Vec::new() })
    }

    fn member(&mut self, path: &str) -> Result<Take<&mut File>, Error> {
        let (offset, size) =
            *self.members.get(path).ok_or_else(|| Error::Archive(format!("the archive has no {path:?}")))?;
        self.file.seek(SeekFrom::Start(offset)).map_err(|error| broken(&error))?;
        Ok((&mut self.file).take(size))
    }

    fn document(&mut self, path: &str) -> Result<Value, Error> {
        let mut text = Vec::new();
        self.member(path)?.take(DOCUMENT_MAX).read_to_end(&mut text).map_err(|error| broken(&error))?;
        serde_json::from_slice(&text).map_err(|error| Error::Archive(format!("{path}: {error}")))
    }

    fn import(&mut self, images: &Images, name: Option<&str>) -> Result<Vec<Image>, Error> {
        let found = if self.members.contains_key("manifest.json") {
            self.docker()?
        } else if self.members.contains_key("index.json") {
            let index = self.document("index.json")?;
            let mut found = Vec::new();
            self.oci(&index, &[], &mut found, 0)?;
            found
        } else {
            return Err(Error::Archive("neither an OCI archive nor one of `docker save`".to_owned()));
        };
        if found.is_empty() || found.len() > IMAGES_MAX {
            return Err(Error::Archive(format!("the archive holds {} images for this machine", found.len())));
        }
        if name.is_some() && found.len() > 1 {
            return Err(Error::Archive("an archive of several images keeps their names".to_owned()));
        }
        found.iter().map(|one| self.keep(images, one, name)).collect()
    }

    /// `manifest.json`: a list of images with their files.
    fn docker(&mut self) -> Result<Vec<Found>, Error> {
        let manifest = self.document("manifest.json")?;
        let texts = |value: &Value| -> Vec<String> {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let images = manifest.as_array().map(Vec::as_slice).unwrap_or_default();
        let found = |image: &Value| Found {
            names: texts(&image["RepoTags"]),
            config: image["Config"].as_str().unwrap_or_default().to_owned(),
            layers: texts(&image["Layers"]),
        };
        Ok(images.iter().map(found).collect())
    }

    /// `index.json`: manifests by digest, perhaps through further indexes.
    fn oci(&mut self, index: &Value, names: &[String], found: &mut Vec<Found>, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::Archive("indexes are nested too deeply".to_owned()));
        }
        for entry in index["manifests"].as_array().map(Vec::as_slice).unwrap_or_default() {
            if !for_this_machine(&entry["platform"]) {
                continue;
            }
            let path = blob(&entry["digest"])?;
            let document = self.document(&path)?;
            let mut names = names.to_vec();
            names.extend(name_of(&entry["annotations"]));
            if document["manifests"].is_array() {
                self.oci(&document, &names, found, depth + 1)?;
                continue;
            }
            let layers = document["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
            let layers = layers.iter().map(|layer| blob(&layer["digest"])).collect::<Result<_, _>>()?;
            found.push(Found { names, config: blob(&document["config"]["digest"])?, layers });
            if found.len() > IMAGES_MAX {
                return Err(Error::Archive(format!("the archive holds more than {IMAGES_MAX} images")));
            }
        }
        Ok(())
    }

    fn keep(&mut self, images: &Images, found: &Found, name: Option<&str>) -> Result<Image, Error> {
        let names = match name {
            Some(name) => vec![name.to_owned()],
            None => found.names.iter().map(|name| canonical(name)).collect::<Result<_, _>>()?,
        };
        if names.is_empty() {
            return Err(Error::Archive("the image has no name; say one with --name".to_owned()));
        }
        let id = digest(&mut self.member(&found.config)?).map_err(|error| broken(&error))?;
        let config = ImageConfig::read(&self.document(&found.config)?);
        let (mut layers, mut bytes) = (Vec::new(), 0);
        for layer in &found.layers {
            let (name, size) = self.layer(images, layer)?;
            layers.push(name);
            bytes += size;
        }
        images.keep(Image { names, id, layers, config, bytes })
    }

    /// Unpacks a layer, unless it is here already.
    fn layer(&mut self, images: &Images, path: &str) -> Result<(String, u64), Error> {
        let name = digest(&mut self.member(path)?).map_err(|error| broken(&error))?;
        if let Some(expected) = path.strip_prefix("blobs/sha256/")
            && expected != name
        {
            return Err(Error::Archive(format!("the content of {path} is not what its name says")));
        }
        let kept = images.layer(&name);
        let size = self.members.get(path).map_or(0, |(_, size)| *size);
        if kept.exists() {
            return Ok((name, size));
        }
        let mut start = Vec::new();
        self.member(path)?.take(4).read_to_end(&mut start).map_err(|error| broken(&error))?;
        let new = images.new_layer()?;
        let member = BufReader::new(self.member(path)?);
        unpack::layer(unpacking(&start, member), new.path())?;
        new.keep(&kept)?;
        self.made.push(kept);
        Ok((name, size))
    }
}

fn blob(digest: &Value) -> Result<String, Error> {
    let text = digest.as_str().unwrap_or_default();
    let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
    hex.map(|hex| format!("blobs/sha256/{hex}")).ok_or_else(|| Error::Archive(format!("{text:?} is no digest")))
}

fn for_this_machine(platform: &Value) -> bool {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let is = |name: &str, wanted: &str| platform[name].as_str().is_none_or(|value| value == wanted);
    is("os", "linux") && is("architecture", machine)
}

fn name_of(annotations: &Value) -> Option<String> {
    let keys = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
    // A tag alone is no name.
    let names = keys.iter().filter_map(|key| annotations[*key].as_str());
    names.filter(|name| name.contains(['/', ':'])).map(str::to_owned).next()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_small_archive_that_holds_very_much_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packed");
        let mut packed = GzEncoder::new(File::create(&path).unwrap(), Compression::best());
        packed.write_all(&vec![0; 1 << 20]).unwrap();
        packed.finish().unwrap();
        let unpacked = |bytes_max| {
            let mut plain = tempfile::tempfile_in(folder.path()).unwrap();
            let unpacked = unpack(&GZIP, File::open(&path).unwrap(), &mut plain, bytes_max);
            (unpacked.is_ok(), plain.metadata().unwrap().len())
        };
        assert_eq!(unpacked(1 << 20), (true, 1 << 20));
        assert_eq!(unpacked((1 << 20) - 1), (false, (1 << 20) - 1));
    }
}
