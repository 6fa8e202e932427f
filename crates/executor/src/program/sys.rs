//! The few calls the safe libraries have no safe form for. The only unsafe code of the project is here.
#![expect(unsafe_code, reason = "unshare, mount_setattr, signals and code between fork and exec have no safe form")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::thread::UnshareFlags;

/// Nothing can be written through the mount.
pub(super) const READ_ONLY: u64 = 0x1;
/// No program gains privileges through it.
pub(super) const NO_SUID: u64 = 0x2;
/// No device can be opened through it.
pub(super) const NO_DEVICES: u64 = 0x4;
/// No program can be run from it.
pub(super) const NO_EXEC: u64 = 0x8;
const ID_MAP: u64 = 0x0010_0000;

/// Leaves namespaces.
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    debug_assert!(!flags.contains(UnshareFlags::FILES), "file descriptors stay shared");
    // SAFETY: file descriptors are not unshared, which is all that could break what others rely on.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Into::into)
}

/// As the kernel has it.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Sets attributes of a mount; with a user namespace, owners are shown as that maps them.
pub(super) fn set_attributes(mount: BorrowedFd<'_>, set: u64, map: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let (map_flag, user_namespace) = match map {
        Some(namespace) => (ID_MAP, u64::try_from(namespace.as_raw_fd()).unwrap_or_default()),
        None => (0, 0),
    };
    let attributes = MountAttributes { set: set | map_flag, clear: 0, propagation: 0, user_namespace };
    // SAFETY: the path is a constant, the structure is laid out as the kernel has it and outlives the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Starts a command whose process runs `setup` before it becomes the program.
///
/// `setup` runs in a copy of this process in which other threads are gone: it must do system calls and nothing else, so
/// no memory may be allocated and no lock taken. What is `hidden` is closed there before anything else is done: until the
/// program is there, paths could still go through it.
pub(super) fn spawn(
    command: &mut Command,
    hidden: Vec<RawFd>,
    setup: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Child> {
    // Whoever started us may have had signals ignored, as `nohup` does, and programs would inherit that: Ctrl-C would mean nothing.
    let heeded = move || {
        for signal in 1..32 {
            // SAFETY: setting a signal to its default is allowed here; those that cannot be set are refused.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        for fd in &hidden {
            // SAFETY: the copy of this process becomes the program or ends, without ever using what it was copied with.
            unsafe { libc::close(*fd) };
        }
        Ok(())
    };
    // SAFETY: the first keeps to the rule above; the one caller passes `setrlimit`, `confine::Confinement::enter` or `setsid` and the like, which do, too.
    unsafe { command.pre_exec(heeded).pre_exec(setup) };
    command.spawn()
}

/// Makes a directory the one this process is in, if it is below the root. Allocates nothing.
pub(super) fn enter_directory(directory: BorrowedFd<'_>) -> io::Result<()> {
    const PATH_MAX: usize = 4096;
    rustix::process::fchdir(directory)?;
    let mut path = [0_u8; PATH_MAX];
    // SAFETY: the kernel writes at most so many bytes there.
    let length = unsafe { libc::syscall(libc::SYS_getcwd, path.as_mut_ptr(), path.len()) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    // One that cannot be reached from the root has no path that begins there.
    if path[0] == b'/' { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EACCES)) }
}

/// Where the signal to end is told.
static TERMINATED: AtomicI32 = AtomicI32::new(-1);

/// Has the signal to end told by twelve zero bytes in a pipe, whichever thread it reaches.
pub(super) fn tell_on_terminate(pipe: OwnedFd) -> io::Result<()> {
    TERMINATED.store(pipe.into_raw_fd(), Ordering::SeqCst);
    // SAFETY: the handler only calls `write`, which may be called in one, on a descriptor that is never closed.
    let before = unsafe { libc::signal(libc::SIGTERM, terminated as *const () as libc::sighandler_t) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

extern "C" fn terminated(_: libc::c_int) {
    const RECORD: [u8; 12] = [0; 12];
    // SAFETY: the buffer is a constant of that length. If it cannot be told, nobody is there to be told.
    unsafe { libc::write(TERMINATED.load(Ordering::SeqCst), RECORD.as_ptr().cast(), RECORD.len()) };
}

/// The process group that signals are passed on to; 0 while there is none.
static PASSED_TO: AtomicI32 = AtomicI32::new(0);
/// A signal that came before there was one.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Has signals passed on instead of heeded; until it is known to whom, the last one waits.
pub(super) fn pass_on_signals() -> io::Result<()> {
    let passed = [
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGCONT,
        libc::SIGWINCH,
    ];
    for signal in passed {
        // SAFETY: the handler only reads and writes atomics and calls `kill`, which may be called in one.
        let before = unsafe { libc::signal(signal, pass_on as *const () as libc::sighandler_t) };
        if before == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Says whose signals they are; 0 is nobody's.
pub(super) fn signals_go_to(group: i32) {
    PASSED_TO.store(group, Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    if early != 0 && group > 0 {
        // SAFETY: sends a signal, nothing else.
        unsafe { libc::kill(-group, early) };
    }
}

extern "C" fn pass_on(signal: libc::c_int) {
    let group = PASSED_TO.load(Ordering::SeqCst);
    if group > 0 {
        // SAFETY: sends a signal, nothing else.
        unsafe { libc::kill(-group, signal) };
    } else {
        EARLY.store(signal, Ordering::SeqCst);
    }
}
