//! A pod's namespaces, and the small process that keeps them while its containers come and go.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};
use rustix::process::{Gid, Uid};
use rustix::thread::{UnshareFlags, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use thane_executor::plan::{MEMORY, PodPlan, Started};

use super::{Doing, Failure, Result, plan, root, started, sys};

const UNSHARED: &[u8] = b"u";
const MAPPED: &[u8] = b"m";
const READY: &[u8] = b"r";

/// Makes the namespaces and leaves a process in them.
pub(super) fn hold() -> Result<Started> {
    let plan: PodPlan = plan()?;
    let words = serde_json::to_string(&plan).doing(|| "pass on the plan".to_owned())?;
    let mut holder = Command::new("/proc/self/exe")
        .arg("holder")
        .env_clear()
        .env("PLAN", words)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .doing(|| "start the holder".to_owned())?;
    let prepared = prepare(&mut holder, &plan);
    if prepared.is_err() {
        // It is our own child, so it is that process and no other.
        let _ = holder.kill();
        let _ = holder.wait();
    }
    prepared
}

fn prepare(holder: &mut std::process::Child, plan: &PodPlan) -> Result<Started> {
    let pid = i32::try_from(holder.id()).doing(|| "its process id".to_owned())?;
    let (Some(mut tell), Some(mut hear)) = (holder.stdin.take(), holder.stdout.take()) else {
        return Err(Failure("the holder has no pipes".to_owned()));
    };
    expect(&mut hear, UNSHARED)?;
    // Only a process outside may map more than one id.
    for file in ["uid_map", "gid_map"] {
        let path = format!("/proc/{pid}/{file}");
        std::fs::write(&path, format!("0 {} {}", plan.ids.base, plan.ids.count)).doing(|| path.clone())?;
    }
    tell.write_all(MAPPED).doing(|| "tell the holder".to_owned())?;
    expect(&mut hear, READY)?;
    started(pid)
}

fn expect(hear: &mut impl Read, wanted: &[u8]) -> Result<()> {
    let mut byte = [0];
    hear.read_exact(&mut byte).doing(|| "the holder ended".to_owned())?;
    if byte == wanted {
        return Ok(());
    }
    let mut why = byte.to_vec();
    let _ = hear.take(4096).read_to_end(&mut why);
    Err(Failure(String::from_utf8_lossy(&why).into_owned()))
}

/// The process that stays: unshares, waits until its ids are mapped, sets itself up and sleeps.
pub(super) fn holder() -> Result<()> {
    let result = enter();
    let mut out = std::io::stdout();
    match &result {
        Ok(()) => {
            let _ = out.write_all(READY).and_then(|()| out.flush());
        }
        Err(failure) => {
            let _ = write!(out, "{failure}");
        }
    }
    result?;
    silence()?;
    loop {
        // No signal has a handler here, so only one that ends it can end this.
        std::thread::park();
    }
}

/// Standard streams lead nowhere, so that nobody waits for them to end.
pub(super) fn silence() -> Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    let null = null.doing(|| "/dev/null".to_owned())?;
    let replaced = rustix::stdio::dup2_stdin(&null)
        .and_then(|()| rustix::stdio::dup2_stdout(&null))
        .and_then(|()| rustix::stdio::dup2_stderr(&null));
    replaced.doing(|| "close the standard streams".to_owned())
}

fn enter() -> Result<()> {
    let words = std::env::var("PLAN").doing(|| "the plan".to_owned())?;
    let plan: PodPlan = serde_json::from_str(&words).doing(|| "understand the plan".to_owned())?;
    rustix::process::setsid().doing(|| "start a session".to_owned())?;
    for (number, bytes) in plan.memory.iter().enumerate() {
        memory(number, *bytes, plan.ids.base)?;
    }
    let mut flags = UnshareFlags::NEWUSER | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if !plan.host_network {
        flags |= UnshareFlags::NEWNET;
    }
    sys::unshare(flags).doing(|| "make the pod's namespaces".to_owned())?;
    let mut out = std::io::stdout();
    out.write_all(UNSHARED).and_then(|()| out.flush()).doing(|| "tell the maker".to_owned())?;
    let mut byte = [0];
    std::io::stdin().read_exact(&mut byte).doing(|| "the maker ended".to_owned())?;
    become_root()?;
    rustix::system::sethostname(plan.hostname.as_bytes()).doing(|| "set the host name".to_owned())?;
    if !plan.host_network {
        loopback_up().doing(|| "bring up the loopback device".to_owned())?;
        // Nobody in a pod has privileges, and all of its ports are its own.
        let _ = std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    }
    Ok(())
}

/// A volume in memory that no place has, as long as this process has it open: its containers find it by the number.
fn memory(number: usize, bytes: Option<u64>, owner: u32) -> Result<()> {
    let (owner, size) = (owner.to_string(), bytes.map(|bytes| bytes.to_string()));
    let mut options = vec![("mode", "1777"), ("uid", owner.as_str()), ("gid", owner.as_str())];
    options.extend(size.as_deref().map(|size| ("size", size)));
    let made = root::new_mount("tmpfs", &options, sys::NO_SUID | sys::NO_DEVICES)?;
    let wanted = i32::try_from(MEMORY + number).doing(|| "number a volume".to_owned())?;
    let kept = rustix::io::fcntl_dupfd_cloexec(&made, wanted).doing(|| "keep a volume".to_owned())?;
    if kept.as_raw_fd() != wanted {
        return Err(Failure("a volume's number is taken".to_owned()));
    }
    // As long as the process.
    std::mem::forget(kept);
    Ok(())
}

/// Becomes the root of the user namespace this process is in.
pub(super) fn become_root() -> Result<()> {
    set_thread_groups(&[])
        .and_then(|()| set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT))
        .and_then(|()| set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT))
        .doing(|| "become the root of the pod".to_owned())
}

/// Asks the kernel, by netlink, to bring up the first device, which is the loopback one.
fn loopback_up() -> rustix::io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST: u16 = 1;
    const UP: u32 = 1;
    const LENGTH: u32 = 32;
    // No protocol is number 0, which is that of routes and devices.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    let mut message = Vec::with_capacity(32);
    message.extend(LENGTH.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]); // sequence and port
    message.extend([0; 4]); // family and type of the device
    message.extend(1_i32.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    send(&socket, &message, SendFlags::empty())?;
    Ok(())
}
