//! Finding a program, with the words of Argo's executor where there is none.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The program of that name.
pub(super) fn program(name: &str) -> Result<PathBuf, String> {
    if name.contains('/') {
        return match std::fs::metadata(name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(format!("exec: {name:?}: stat {name}: no such file or directory"))
            }
            Err(error) => Err(format!("exec: {name:?}: {error}")),
            Ok(found) if found.is_dir() => Err(format!("exec: {name:?}: is a directory")),
            Ok(found) if found.permissions().mode() & 0o111 == 0 => Err(format!("exec: {name:?}: permission denied")),
            Ok(_) => Ok(PathBuf::from(name)),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| is_program(path));
    found.ok_or_else(|| format!("exec: {name:?}: executable file not found in $PATH"))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
