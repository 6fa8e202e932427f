//! The image `thane`: our own program on top of the image `host`.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use thane_executor::plan::{Mount, Source};

use super::host::Host;
use super::{ImageConfig, config};
use crate::files;

/// Its name.
pub(crate) const OWN: &str = "thane";
/// Where the program is in it.
const PLACE: &str = "/opt/thane";

/// Our own program, ready to be used in containers.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    /// What is shared besides what `host` shares.
    pub(crate) mount: Mount,
    /// Processes get this.
    pub(crate) config: ImageConfig,
}

impl Own {
    /// Keeps a program in a directory of its own, so that containers have it whatever becomes of the file.
    pub(crate) fn prepare(program: &Path, directory: &Path, host: &Host) -> io::Result<Self> {
        files::private_directory(directory)?;
        let found = fs::metadata(program)?;
        let name = format!("{}-{}-{}-{}", found.dev(), found.ino(), found.size(), found.mtime_nsec());
        let kept = directory.join(&name);
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            // Containers that run from it have it open.
            if path != kept {
                files::remove_tree(&path)?;
            }
        }
        if !kept.join(OWN).exists() {
            files::remove_tree(&kept)?;
            fs::create_dir(&kept)?;
            fs::set_permissions(&kept, PermissionsExt::from_mode(0o755))?;
            keep(program, &kept.join(OWN))?;
        }
        let mut config = host.config.clone();
        config.env.insert("PATH".to_owned(), format!("{PLACE}:{}", config::PATH));
        config.entrypoint = vec![format!("{PLACE}/{OWN}")];
        Ok(Self { mount: Mount { target: PLACE.to_owned(), source: Source::Bind(kept), read_only: true }, config })
    }
}

/// The same file where that can be, else a copy.
fn keep(program: &Path, to: &Path) -> io::Result<()> {
    if fs::hard_link(program, to).is_ok() {
        return Ok(());
    }
    let new = to.with_extension("new");
    fs::copy(program, &new)?;
    fs::set_permissions(&new, PermissionsExt::from_mode(0o755))?;
    fs::rename(new, to)
}

/// The program that runs.
pub(crate) fn running() -> PathBuf {
    fs::read_link("/proc/self/exe").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_kept_whatever_becomes_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, "first").unwrap();
        let host = Host { skeleton: PathBuf::new(), mounts: Vec::new(), config: ImageConfig::default() };
        let directory = folder.path().join("own");
        let first = Own::prepare(&program, &directory, &host).unwrap();
        let Source::Bind(kept) = &first.mount.source else { panic!("it is a directory") };
        fs::remove_file(&program).unwrap();
        assert_eq!(fs::read_to_string(kept.join(OWN)).unwrap(), "first");
        assert!(first.config.env["PATH"].starts_with("/opt/thane:"));
        fs::write(&program, "second, longer").unwrap();
        let second = Own::prepare(&program, &directory, &host).unwrap();
        assert_ne!(first.mount, second.mount);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }
}
