//! A check that copies the health of something else. Pure.

use super::machine::Observation;
use crate::model::{Check, Status};

/// What an alias says, from the checks of what it stands for. `None`: that is not there.
pub(in crate::agent) fn observation<'a>(
    checks: Option<impl IntoIterator<Item = &'a Check>>,
    what: &str,
) -> Observation {
    let Some(checks) = checks else {
        return Observation::new(Status::Critical, format!("Service {what} could not be found on node"));
    };
    let mut worst: Option<&Check> = None;
    for check in checks {
        if worst.is_none_or(|known| check.status > known.status) {
            worst = Some(check);
        }
    }
    match worst {
        None => Observation::new(Status::Passing, "No checks found."),
        Some(check) if check.status == Status::Passing => Observation::new(Status::Passing, "All checks passing."),
        Some(check) => {
            let output = format!("Aliased check {:?} failing: {}", check.name, check.output);
            Observation::new(check.status, output)
        }
    }
}
