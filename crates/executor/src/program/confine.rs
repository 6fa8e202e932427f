//! What a process loses before it becomes the program it was started for.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Gid, Resource, Rlimit, Uid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use seccompiler::BpfProgram;
use thane_executor::plan::User;

use super::{Doing, Result, seccomp};

/// The last capability there is.
const LAST: u32 = 40;

/// What the executor itself needs inside: to start processes as others, to end them, to write files for them.
const OWN: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP);

/// Everything a process is left with, prepared so that entering it is system calls only.
pub(super) struct Confinement {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    keep: CapabilitySet,
    dropped: Vec<CapabilitySet>,
    filters: Vec<BpfProgram>,
    work: Vec<OwnedFd>,
    file_bytes_max: Option<u64>,
}

impl Confinement {
    pub(super) fn new(user: &User, capabilities: u64, work: Vec<OwnedFd>, file_bytes_max: Option<u64>) -> Result<Self> {
        let keep = CapabilitySet::from_bits_retain(capabilities);
        Ok(Self {
            uid: Uid::from_raw(user.uid),
            gid: Gid::from_raw(user.gid),
            groups: user.groups.iter().map(|group| Gid::from_raw(*group)).collect(),
            keep,
            dropped: all().filter(|one| !keep.contains(*one)).collect(),
            filters: seccomp::filters()?,
            work,
            file_bytes_max,
        })
    }

    /// Puts it in force for this process, which has just been forked.
    pub(super) fn enter(&self, group: Option<&OwnedFd>, terminal: bool) -> io::Result<()> {
        rustix::process::setsid()?;
        if terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        for file in self.work.iter().chain(group) {
            rustix::io::write(file, b"0")?;
        }
        if self.file_bytes_max.is_some() {
            let limit = Rlimit { current: self.file_bytes_max, maximum: self.file_bytes_max };
            setrlimit(Resource::Fsize, limit)?;
        }
        for one in &self.dropped {
            match remove_capability_from_bounding_set(*one) {
                // The kernel is older than the list.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.gid, self.gid, self.gid)?;
        set_thread_res_uid(self.uid, self.uid, self.uid)?;
        let keep = if self.uid.is_root() { self.keep } else { CapabilitySet::empty() };
        let sets = CapabilitySets { effective: keep, permitted: keep, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets)?;
        set_no_new_privs(true)?;
        for filter in &self.filters {
            seccompiler::apply_filter(filter).map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))?;
        }
        Ok(())
    }
}

fn all() -> impl Iterator<Item = CapabilitySet> {
    (0..=LAST).map(|bit| CapabilitySet::from_bits_retain(1 << bit))
}

/// Leaves the executor itself with what it needs, so that nobody it starts could ever get more.
pub(super) fn lower_own(capabilities: u64) -> Result<()> {
    let own = OWN | CapabilitySet::from_bits_retain(capabilities);
    let lowered = || -> rustix::io::Result<()> {
        clear_ambient_capability_set()?;
        for one in all().filter(|one| !own.contains(*one)) {
            match remove_capability_from_bounding_set(one) {
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(error) => return Err(error),
            }
        }
        set_capabilities(None, CapabilitySets { effective: own, permitted: own, inheritable: CapabilitySet::empty() })
    };
    lowered().doing(|| "drop capabilities".to_owned())
}
