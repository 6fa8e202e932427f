//! Whether this machine's kernel can put a container's root together, tried once before there are containers.

use std::os::fd::AsFd;

use thane_executor::plan::{ProbePlan, Started};

use super::switch::namespace;
use super::{Result, plan, root};

/// Tries it; nothing of it is left, since it is attached nowhere.
pub(super) fn probe() -> Result<Started> {
    let plan: ProbePlan = plan()?;
    let users = namespace(&plan.holder, "user")?;
    root::overlay(&plan.root, users.as_fd())?;
    Ok(plan.holder)
}
