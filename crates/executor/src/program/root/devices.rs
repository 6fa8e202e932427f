//! `/dev`: the harmless devices, terminals of its own, shared memory.

use std::path::Path;

use rustix::fs::symlinkat;

use super::place::Place;
use super::{bound, new_mount, put};
use crate::program::sys::{NO_DEVICES, NO_EXEC, NO_SUID};
use crate::program::{Doing, Result};

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];
/// Group 5 owns terminals, as everywhere.
const TERMINALS: u32 = 5;

pub(super) fn mount(place: &Place<'_>) -> Result<()> {
    let owner = place.owner.to_string();
    let options = [("mode", "0755"), ("uid", owner.as_str()), ("gid", owner.as_str()), ("size", "64k")];
    let dev = new_mount("tmpfs", &options, NO_SUID | NO_DEVICES | NO_EXEC)?;
    put(&dev, &place.directory("/dev")?, "/dev")?;
    for name in DEVICES {
        let host = Path::new("/dev").join(name);
        let target = format!("/dev/{name}");
        if host.exists() {
            put(&bound(&host, NO_SUID | NO_EXEC)?, &place.file(&target)?, &target)?;
        }
    }
    let group = place.owner.saturating_add(TERMINALS).to_string();
    let options = [("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620"), ("gid", group.as_str())];
    put(&new_mount("devpts", &options, NO_SUID | NO_EXEC)?, &place.directory("/dev/pts")?, "/dev/pts")?;
    let shared = [("mode", "1777"), ("uid", owner.as_str()), ("gid", owner.as_str()), ("size", "64m")];
    let shm = new_mount("tmpfs", &shared, NO_SUID | NO_DEVICES | NO_EXEC)?;
    put(&shm, &place.directory("/dev/shm")?, "/dev/shm")?;
    let within = place.directory("/dev")?;
    for (to, name) in LINKS {
        symlinkat(to, &within, name).doing(|| format!("link /dev/{name}"))?;
    }
    Ok(())
}
