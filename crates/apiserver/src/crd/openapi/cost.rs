//! The bounds on what the rules of a definition may cost by estimate.

use serde_json::Value;

use super::text;
use crate::field::{FieldError, Path};

/// What one rule may cost.
const RULE_MAX: u64 = 10_000_000;
/// What all rules of a schema may cost.
const TOTAL_MAX: u64 = 100_000_000;
/// As many of the most expensive are named when all together are too expensive.
const NAMED_MAX: usize = 4;

/// What the rules seen so far cost.
#[derive(Default)]
pub(super) struct Costs {
    total: u64,
    /// The most expensive first.
    expensive: Vec<(u64, Path)>,
}

impl Costs {
    /// Takes a rule's cost into account; says if it alone is too much.
    pub(super) fn rule(&mut self, cost: u64, what: &str, path: &Path) -> Option<FieldError> {
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_MAX / 100 {
            let at = self.expensive.partition_point(|(known, _)| *known >= cost);
            self.expensive.insert(at, (cost, path.clone()));
            self.expensive.truncate(NAMED_MAX);
        }
        (cost > RULE_MAX).then(|| FieldError::forbidden(path, too_much(what, cost, RULE_MAX)))
    }

    /// Whether all rules together are too much.
    pub(super) fn errors(self, path: &Path) -> Vec<FieldError> {
        if self.total <= TOTAL_MAX {
            return Vec::new();
        }
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let mut errors = self.expensive.iter().map(|(_, path)| FieldError::forbidden(path, detail)).collect::<Vec<_>>();
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path, too_much(what, self.total, TOTAL_MAX)));
        errors
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rough factor for the reader")]
fn too_much(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// How often an object can have what is below a node that it has at most `times` times.
pub(super) fn times_below(raw: &Value, times: Option<u64>) -> Option<u64> {
    let is_map = raw.get("additionalProperties").is_some_and(|value| !value.is_null());
    let bound = match text(raw, "type").unwrap_or_default() {
        "object" if is_map => "maxProperties",
        "array" => "maxItems",
        _ => return times,
    };
    let most = raw.get(bound).and_then(Value::as_i64)?;
    Some(times?.saturating_mul(u64::try_from(most).unwrap_or_default()))
}
