//! The first process of a container: builds what it will see, gives up what it must not have, and serves.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use thane_executor::plan::{ContainerPlan, Outcome, SOCKET, Started};

use super::cgroup::Groups;
use super::confine::{self, Confinement};
use super::hold::{become_root, silence};
use super::reap::Reaper;
use super::serve::{Server, Settings};
use super::spawn::{Launcher, Score};
use super::table::Table;
use super::{Doing, Failure, Result, plan, root, sys};

/// Becomes the container and serves until it ends.
pub(super) fn init() -> ExitCode {
    let server = match prepare() {
        Ok(server) => server,
        Err(failure) => {
            let _ = serde_json::to_writer(std::io::stdout(), &Outcome::Failed(failure.0));
            return ExitCode::FAILURE;
        }
    };
    // Who started us knows our process id; this only says that we are ready. If nobody listens, nobody would know us.
    let mut out = std::io::stdout();
    let ready = Outcome::Started(Started { pid: 0, ticks: 0 });
    let told = serde_json::to_vec(&ready).map_err(std::io::Error::other).and_then(|text| out.write_all(&text));
    if told.and_then(|()| out.flush()).is_err() || silence().is_err() {
        return ExitCode::FAILURE;
    }
    server.run()
}

fn prepare() -> Result<Server> {
    let plan: ContainerPlan = plan()?;
    rustix::process::umask(Mode::empty());
    rustix::process::setsid().doing(|| "start a session".to_owned())?;
    let score = Score::open(plan.oom_score);
    let groups = Groups::open(&plan.cgroups)?;
    let directory = open_directory(&plan)?;
    let listener = listen(&directory, 0o600)?;
    let users = namespace(&plan, "user")?;
    sys::unshare(UnshareFlags::NEWNS).doing(|| "leave the host's mounts".to_owned())?;
    let shared = [("net", LinkNameSpaceType::Network), ("ipc", LinkNameSpaceType::InterProcessCommunication)];
    for (name, kind) in shared.into_iter().filter(|(name, _)| !(plan.host_network && *name == "net")) {
        enter(&namespace(&plan, name)?, kind, name)?;
    }
    enter(&namespace(&plan, "uts")?, LinkNameSpaceType::HostNameAndNISDomainName, "uts")?;
    root::enter(&plan, users.as_fd())?;
    enter(&users, LinkNameSpaceType::User, "user")?;
    become_root()?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).doing(|| "hide from tracers".to_owned())?;
    confine::lower_own(plan.capabilities)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let mut groups = groups;
    let work = std::mem::take(&mut groups.work);
    let confinement = Some(Arc::new(Confinement::new(&plan.user, plan.capabilities, work, plan.file_bytes_max)?));
    let hidden = groups.hidden().chain([directory.as_raw_fd()]).collect();
    let (env, work, open_files) = (plan.env.clone(), plan.working_directory.clone(), plan.open_files);
    let launcher = Launcher { confinement, score, env, directory: work, open_files, hidden };
    let table = Table::new(launcher, groups, Reaper::start()?);
    let settings = Settings { main: plan.main, log: plan.log, passed_on: false, owner: Some(plan.user) };
    Server::new(settings, table, listener, directory)
}

fn open_directory(plan: &ContainerPlan) -> Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH;
    let opened = rustix::fs::openat(CWD, &plan.directory, flags, Mode::empty());
    opened.doing(|| plan.directory.display().to_string())
}

/// By number: the names of sockets have to be short.
pub(super) fn listen(directory: &OwnedFd, mode: u32) -> Result<UnixListener> {
    let path = format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd());
    let listener = UnixListener::bind(&path).doing(|| "listen on the socket".to_owned())?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode))
        .doing(|| "close the socket to others".to_owned())?;
    listener.set_nonblocking(true).doing(|| "listen on the socket".to_owned())?;
    Ok(listener)
}

/// A namespace of the pod, if the process that holds it is still the one it was.
fn namespace(plan: &ContainerPlan, name: &str) -> Result<OwnedFd> {
    let pid = plan.holder.pid;
    let opened = File::open(format!("/proc/{pid}/ns/{name}")).doing(|| format!("the pod's {name} namespace"))?;
    if super::started(pid)?.ticks != plan.holder.ticks {
        return Err(Failure("the process that held the pod's namespaces is gone".to_owned()));
    }
    Ok(opened.into())
}

fn enter(namespace: &OwnedFd, kind: LinkNameSpaceType, name: &str) -> Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(kind)).doing(|| format!("enter the pod's {name} namespace"))
}
