//! Starts a container's first process in groups and process ids of its own.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rustix::thread::UnshareFlags;
use thane_executor::plan::{ContainerPlan, Outcome, Started};

use super::{Doing, Failure, Result, cgroup, plan, started, sys};

/// Starts it and says which process it is on the host.
pub(super) fn create() -> Result<Started> {
    let plan: ContainerPlan = plan()?;
    let words = serde_json::to_vec(&plan).doing(|| "pass on the plan".to_owned())?;
    cgroup::make(&plan.cgroups.directories, plan.ids.base)?;
    // What it is in now is what it will see as the root; only then it steps aside.
    cgroup::join(&plan.cgroups.join)?;
    sys::unshare(UnshareFlags::NEWCGROUP | UnshareFlags::NEWPID).doing(|| "leave the host's processes".to_owned())?;
    cgroup::join(&plan.cgroups.settle)?;
    cgroup::pass_on(&plan.cgroups.pass_on)?;
    cgroup::make(&plan.cgroups.later, plan.ids.base)?;
    let mut init = Command::new("/proc/self/exe")
        .arg("init")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .doing(|| "start the first process".to_owned())?;
    let pid = i32::try_from(init.id()).doing(|| "its process id".to_owned())?;
    let (Some(mut tell), Some(mut hear)) = (init.stdin.take(), init.stdout.take()) else {
        return Err(Failure("the first process has no pipes".to_owned()));
    };
    // If it has ended already, what it said says more than the broken pipe.
    let _ = tell.write_all(&words);
    drop(tell);
    let mut said = Vec::new();
    hear.read_to_end(&mut said).doing(|| "hear from the first process".to_owned())?;
    match serde_json::from_slice(&said) {
        Ok(Outcome::Started(_)) => started(pid),
        Ok(Outcome::Failed(why)) => Err(Failure(why)),
        Err(_) => Err(Failure("the first process ended without a word".to_owned())),
    }
}
