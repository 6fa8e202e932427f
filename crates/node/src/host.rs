//! Whether this machine can run containers, and what it is.

use std::path::Path;

use thane_executor::plan::{Lower, PodPlan, ProbePlan, Root};

use crate::cgroups::Layout;
use crate::files;
use crate::ids::RANGE;
use crate::program::{Living, Program};

/// What is missing to run containers here, in words; nothing if they can be run.
pub fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root: containers get users, mounts and control groups of their own".to_owned());
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    if !read("/proc/filesystems").lines().any(|line| line.trim_start_matches("nodev").trim() == "overlay") {
        missing.push("the overlay file system in the kernel".to_owned());
    }
    for name in ["user", "pid", "net", "ipc", "uts", "mnt", "cgroup"] {
        if !Path::new("/proc/self/ns").join(name).exists() {
            missing.push(format!("{name} namespaces in the kernel"));
        }
    }
    if read("/proc/sys/user/max_user_namespaces").trim() == "0" {
        missing.push("user namespaces: /proc/sys/user/max_user_namespaces is 0".to_owned());
    }
    for name in Layout::of_machine().missing() {
        missing.push(format!("the control group controller {name}, mounted writable"));
    }
    missing
}

/// Tries to put a root together as containers get it: what the kernel says of itself does not tell whether it can.
pub(crate) async fn probe(program: &Program, directory: &Path) -> Result<(), String> {
    let place = directory.join("probe");
    let made = files::remove_tree(&place).and_then(|()| {
        ["plain", "mapped", "upper", "work"]
            .iter()
            .try_for_each(|name| files::mapped_directory(&place.join(name), 0o755))
    });
    made.map_err(|error| format!("{}: {error}", place.display()))?;
    let lower = |name: &str, mapped| Lower { path: place.join(name), mapped };
    let lowers = vec![lower("plain", false), lower("mapped", true)];
    let root = Root { lowers, upper: place.join("upper"), work: place.join("work"), read_only: false };
    let plan = PodPlan { hostname: "probe".to_owned(), ids: RANGE, host_network: true, memory: Vec::new() };
    let tried = match program.hold(&plan).await {
        Ok(holder) => {
            let tried = program.probe(&ProbePlan { holder: holder.clone(), root }).await;
            if let Some(living) = Living::find(&holder) {
                living.kill();
                living.ended().await;
            }
            tried.map(drop)
        }
        Err(why) => Err(why),
    };
    // What stays is made anew by the next who tries.
    let _ = files::remove_tree(&place);
    tried.map_err(|why| format!("what containers' files are made of: {why}"))
}

/// Bytes of memory.
pub(crate) fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// Processors.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What the machine calls itself.
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
