//! `x-kubernetes-validations`: rules written as CEL expressions.
//!
//! Expressions are parsed by the `cel` crate, then checked against the schema's types and evaluated here, so that a rule
//! is refused when the definition is made rather than misread later, and so that its cost has a bound.

mod calls;
mod check;
mod eval;
mod functions;
mod lists;
mod network;
mod strings;
mod times;
mod types;
mod value;
mod walk;

use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Env, Program};
use serde_json::Value;

use super::node::Schema;
use check::Checker;
use types::Ty;

pub(crate) use walk::{has_rules, validate, validate_at};

#[cfg(test)]
mod tests;

/// Longer expressions are refused.
const LENGTH_MAX: usize = 16 * 1024;
/// More operators, dots and brackets than this are refused: each may nest the expression one deeper.
const OPERATORS_MAX: usize = 1000;
/// Deeper brackets than this are refused.
const NESTING_MAX: usize = 24;

/// Expressions that nest deeper than this once parsed are refused: they are checked and run by recursion.
const DEPTH_MAX: usize = 100;
/// More syntax errors than this are not told.
const ERRORS_MAX: usize = 3;

/// One rule of a node.
#[derive(Debug)]
pub(crate) struct Rule {
    source: String,
    message: String,
    reason: Option<String>,
    field_path: String,
    optional_old_self: bool,
    uses_old_self: bool,
    program: Result<Program, String>,
    message_program: Option<Result<Program, String>>,
}

impl Rule {
    /// Why the rule is refused.
    pub(crate) fn error(&self) -> Option<&str> {
        self.program.as_ref().err().map(String::as_str)
    }

    /// Why the message expression is refused.
    pub(crate) fn message_error(&self) -> Option<&str> {
        self.message_program.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// Compares with what was before.
    pub(crate) fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// How the rule is named in an error.
    fn shown(&self) -> &str {
        if self.message.is_empty() { self.source.trim() } else { self.message.trim() }
    }
}

/// Macros and syntax of the expression language.
static LANGUAGE: LazyLock<Env> = LazyLock::new(Env::stdlib);

/// Compiles one entry of `x-kubernetes-validations` of a node. `whole` objects show their type and name to the rule.
pub(crate) fn compile(raw: &Value, node: &Schema, whole: bool) -> Rule {
    let text = |key: &str| raw.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let optional_old_self = raw.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or_default();
    let mut node = node.clone();
    node.embedded_resource = whole;
    let this = types::of_schema(&Arc::new(node)).unwrap_or(Ty::Error);
    let old = if optional_old_self { Ty::Optional(Box::new(this.clone())) } else { this.clone() };
    let scope = || vec![("self".to_owned(), this.clone()), ("oldSelf".to_owned(), old.clone())];
    let source = text("rule");
    let mut uses_old_self = false;
    let program = build(&source, scope(), &mut uses_old_self).map_err(|why| format!("compilation failed: {why}"));
    let program = program.and_then(|(program, ty)| match ty {
        Ty::Bool | Ty::Dyn => Ok(program),
        _ => Err("cel expression must evaluate to a bool".to_owned()),
    });
    let message_source = text("messageExpression");
    let message_program = (program.is_ok() && !message_source.is_empty()).then(|| {
        let built = build(&message_source, scope(), &mut false);
        match built.map_err(|why| format!("messageExpression compilation failed: {why}"))? {
            (program, Ty::Text) => Ok(program),
            _ => Err("messageExpression must evaluate to a string".to_owned()),
        }
    });
    Rule {
        source,
        message: text("message"),
        reason: raw.get("reason").and_then(Value::as_str).map(str::to_owned),
        field_path: text("fieldPath"),
        optional_old_self,
        uses_old_self,
        program,
        message_program,
    }
}

fn build(source: &str, scope: Vec<(String, Ty)>, uses_old_self: &mut bool) -> Result<(Program, Ty), String> {
    bounds(source)?;
    let program = LANGUAGE.compile(source).map_err(|errors| {
        let shown = errors.errors.iter().take(ERRORS_MAX).map(|error| {
            let line = usize::try_from(error.pos.0 - 1).unwrap_or_default();
            let column = usize::try_from(error.pos.1 - 1).unwrap_or_default();
            check::marked(source, line, column, &error.msg)
        });
        shown.collect::<Vec<_>>().join("\n")
    })?;
    if depth(program.expression()) > DEPTH_MAX {
        return Err(check::marked(source, 0, 0, &format!("expression recursion limit exceeded: {DEPTH_MAX}")));
    }
    let mut checker = Checker::new(program.source_info(), scope);
    let ty = checker.check(program.expression());
    *uses_old_self = checker.uses_old_self;
    let report = checker.report();
    if report.is_empty() { Ok((program, ty)) } else { Err(report) }
}

/// How deep an expression nests, found without recursion.
fn depth(root: &IdedExpr) -> usize {
    let mut deepest = 0;
    let mut open = vec![(root, 1_usize)];
    while let Some((expr, level)) = open.pop() {
        deepest = deepest.max(level);
        let mut below = |child| open.push((child, level + 1));
        match &expr.expr {
            Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).for_each(below),
            Expr::Select(select) => below(&select.operand),
            Expr::List(list) => list.elements.iter().for_each(below),
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        below(&entry.key);
                        below(&entry.value);
                    }
                }
            }
            Expr::Comprehension(all) => {
                let parts = [&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result];
                parts.into_iter().for_each(below);
            }
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => {}
        }
    }
    deepest
}

/// What could nest too deep to be parsed or run safely is refused by its looks.
fn bounds(source: &str) -> Result<(), String> {
    let refuse = |why: &str| Err(check::marked(source, 0, 0, why));
    if source.len() > LENGTH_MAX {
        return refuse(&format!(
            "expression code point size exceeds limit: size: {}, limit {LENGTH_MAX}",
            source.len()
        ));
    }
    // Strings count as well: what is a string is only known by parsing.
    let mut nesting = 0_usize;
    let mut operators = source.matches("in").count();
    for c in source.chars() {
        match c {
            '(' | '[' | '{' => nesting += 1,
            ')' | ']' | '}' => nesting = nesting.saturating_sub(1),
            _ => {}
        }
        operators += usize::from(c.is_ascii_punctuation() && !matches!(c, '_' | '\'' | '"' | ',' | ')' | ']' | '}'));
        if nesting > NESTING_MAX {
            return refuse(&format!("expression recursion limit exceeded: {NESTING_MAX}"));
        }
        if operators > OPERATORS_MAX {
            return refuse("expression has too many operators");
        }
    }
    Ok(())
}
