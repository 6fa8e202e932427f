//! Running the rules of a schema over an object.

use serde_json::Value;

use super::Rule;
use super::eval::{Machine, Stop};
use super::value::Val;
use crate::field::{FieldError, Path};
use crate::schema::node::{Link, ListType, Schema};
use crate::schema::validate::{correlate, type_name};

/// What one rule may cost.
const RULE_BUDGET: u64 = 1_000_000;
/// What all rules of an object may cost.
const OBJECT_BUDGET: u64 = 10_000_000;
/// The longest message an expression may make.
const MESSAGE_MAX: usize = 5 * 1024;

/// Whether a node or one below it has rules.
pub(crate) fn has_rules(schema: &Schema) -> bool {
    schema.rules.as_ref().is_some_and(|rules| rules.validations_below || !rules.validations.is_empty())
}

/// What the rules say of an object; `old` is what it was before, if there was one.
pub(crate) fn validate(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    validate_at(schema, value, old, &Path::root())
}

/// The same for a value found at a path.
pub(crate) fn validate_at(schema: &Schema, value: &Value, old: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let mut walk = Walk { errors: Vec::new(), left: OBJECT_BUDGET };
    let _ = walk.node(schema, value, Old { value: old, unchanged: false }, path);
    walk.errors
}

/// What was there before.
#[derive(Clone, Copy)]
struct Old<'a> {
    value: Option<&'a Value>,
    /// Below something that has not changed, though it cannot be told what this was.
    unchanged: bool,
}

struct Walk {
    errors: Vec<FieldError>,
    left: u64,
}

/// No more rules are run.
struct Exhausted;

impl Walk {
    fn node(&mut self, schema: &Schema, value: &Value, old: Old<'_>, path: &Path) -> Result<(), Exhausted> {
        let Some(rules) = schema.rules.as_deref().filter(|_| has_rules(schema) && !value.is_null()) else {
            return Ok(());
        };
        let same = old.value.map_or(old.unchanged, |old| old == value);
        for rule in &rules.validations {
            self.rule(rule, schema, value, old.value, same, path)?;
        }
        let below = |value: Option<&'_ Value>| value.is_none() && same;
        match value {
            Value::Object(map) => {
                for (key, child) in map {
                    let before = old.value.and_then(|old| old.get(key));
                    let before = Old { value: before, unchanged: below(before) };
                    if let Some(link) = schema.properties.get(key) {
                        self.node(&link.get(), child, before, &path.child(key))?;
                    } else if let Some(link) = &schema.additional {
                        self.node(&link.get(), child, before, &path.key(key))?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(node) = schema.items.as_ref().map(Link::get) else { return Ok(()) };
                let list = old.value.and_then(Value::as_array);
                for (at, item) in items.iter().enumerate() {
                    let before = match (&schema.list_type, list) {
                        (ListType::Map(keys), Some(list)) => correlate(&node, keys, item, list),
                        _ => None,
                    };
                    self.node(&node, item, Old { value: before, unchanged: below(before) }, &path.index(at))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rule(
        &mut self,
        rule: &Rule,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        same: bool,
        path: &Path,
    ) -> Result<(), Exhausted> {
        let shown = schema.kind.map(type_name).unwrap_or_default();
        let program = match &rule.program {
            Ok(program) => program,
            Err(why) => {
                self.errors.push(FieldError::invalid(&at(path), shown, format!("rule compile error: {why}")));
                return Ok(());
            }
        };
        let old = old.filter(|old| !old.is_null());
        if rule.uses_old_self && old.is_none() && !rule.optional_old_self {
            return Ok(());
        }
        let outcome = self.run(program, rule, schema, value, old);
        let message = match outcome {
            Ok(Val::Bool(true)) => return Ok(()),
            Ok(_) => self.message(rule, schema, value, old),
            Err(Stop::Error(why)) => {
                let detail = if why.starts_with("no such overload") {
                    format!(
                        "'{why}': call arguments did not match a supported operator, function or macro signature for \
                         rule: {}",
                        rule.shown()
                    )
                } else {
                    format!("{why} evaluating rule: {}", rule.shown())
                };
                self.errors.push(FieldError::invalid(&at(path), shown, detail));
                return Ok(());
            }
            Err(Stop::Cost) => {
                let detail = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to \
                     call cost exceeds limit for rule: {}",
                    rule.shown()
                );
                self.errors.push(FieldError::invalid(&at(path), shown, detail));
                return Err(Exhausted);
            }
        };
        // What was wrong before and has not changed is let be.
        if same && !rule.uses_old_self {
            return Ok(());
        }
        let path = if rule.field_path.is_empty() { path.clone() } else { joined(path, &rule.field_path) };
        self.errors.push(refusal(rule, &at(&path), shown, message));
        Ok(())
    }

    fn run<'a>(
        &mut self,
        program: &'a cel::Program,
        rule: &Rule,
        schema: &'a Schema,
        value: &'a Value,
        old: Option<&'a Value>,
    ) -> Result<Val<'a>, Stop> {
        let budget = self.left.min(RULE_BUDGET);
        let mut machine = Machine::new(budget);
        machine.bind("self", Val::from_json(value, Some(schema)));
        let before = old.map(|old| Val::from_json(old, Some(schema)));
        match (before, rule.optional_old_self) {
            (Some(before), false) => machine.bind("oldSelf", before),
            (Some(before), true) => machine.bind("oldSelf", before.map(Val::some)),
            (None, true) => machine.bind("oldSelf", Ok(Val::Optional(None))),
            (None, false) => {}
        }
        let outcome = machine.eval(program.expression());
        self.left = self.left.saturating_sub(budget - machine.left());
        outcome
    }

    fn message(&mut self, rule: &Rule, schema: &Schema, value: &Value, old: Option<&Value>) -> String {
        let fallback = || {
            if rule.message.is_empty() { format!("failed rule: {}", rule.shown()) } else { rule.shown().to_owned() }
        };
        let Some(Ok(program)) = &rule.message_program else { return fallback() };
        match self.run(program, rule, schema, value, old) {
            Ok(Val::Text(text)) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MESSAGE_MAX && !text.contains('\n');
                if usable { text.to_owned() } else { fallback() }
            }
            _ => fallback(),
        }
    }
}

fn at(path: &Path) -> Path {
    if path.as_str().is_empty() { Path::new("<nil>") } else { path.clone() }
}

/// A rule's own field path, below the node it is on.
fn joined(path: &Path, field: &str) -> Path {
    let mut out = path.clone();
    let mut rest = field;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix("['")
            && let Some((name, tail)) = inner.split_once("']")
        {
            out = out.child(&name.replace("\\'", "'"));
            rest = tail;
        } else {
            let text = rest.strip_prefix('.').unwrap_or(rest);
            let end = text.find(['.', '[']).unwrap_or(text.len());
            if end == 0 {
                break;
            }
            out = out.child(&text[..end]);
            rest = &text[end..];
        }
    }
    out
}

fn refusal(rule: &Rule, path: &Path, shown: &str, message: String) -> FieldError {
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(path, message),
        Some("FieldValueRequired") => FieldError::required(path, message),
        Some("FieldValueDuplicate") => FieldError::duplicate(path, shown),
        _ => FieldError::invalid(path, shown, message),
    }
}
