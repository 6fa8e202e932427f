//! The answer when somebody else owns what is applied.

use crate::failure::{Cause, Details, Failure};
use crate::patch::fields::{Element, show_path};

/// A field that is applied with another value than its owner gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conflict {
    /// The owner, as messages name it.
    pub(super) owner: String,
    pub(super) path: Vec<Element>,
}

/// 409 with one cause for each conflict. Conflicts come sorted by owner.
pub(super) fn failure(conflicts: &[Conflict]) -> Failure {
    let causes = conflicts.iter().map(|conflict| Cause {
        reason: "FieldManagerConflict",
        message: format!("conflict with {}", conflict.owner),
        field: show_path(&conflict.path),
    });
    let details = Details { causes: causes.collect(), ..Details::default() };
    let mut failure = Failure::new(409, "Conflict", message(conflicts));
    failure.details = Some(Box::new(details));
    failure
}

fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        let path = show_path(&only.path);
        return format!("Apply failed with 1 conflict: conflict with {}: {path}", only.owner);
    }
    let mut lines = Vec::new();
    let mut owner = None;
    for conflict in conflicts {
        if owner != Some(&conflict.owner) {
            lines.push(format!("conflicts with {}:", conflict.owner));
            owner = Some(&conflict.owner);
        }
        lines.push(format!("- {}", show_path(&conflict.path)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
