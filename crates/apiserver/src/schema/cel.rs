//! `x-kubernetes-validations`: rules written as CEL expressions.
//!
//! Expressions are parsed by the `cel` crate, then checked against the schema's types and evaluated here, so that a rule
//! is refused when the definition is made rather than misread later, and so that its cost has a bound.

mod calls;
mod check;
mod cost;
mod eval;
mod formatting;
mod functions;
mod lists;
mod macros;
mod network;
mod semver;
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
    cost: u64,
    message_cost: u64,
    most_in_request: u64,
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

    /// What the rule may cost in an object that has its node at most `times` times, if that is known.
    pub(crate) fn cost(&self, times: Option<u64>) -> u64 {
        self.cost.saturating_mul(times.unwrap_or(self.most_in_request))
    }

    /// What the message may cost.
    pub(crate) fn message_cost(&self) -> u64 {
        self.message_cost
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
static LANGUAGE: LazyLock<Env> = LazyLock::new(macros::language);

/// Compiles one entry of `x-kubernetes-validations` of a node. `whole` objects show their type and name to the rule.
pub(crate) fn compile(raw: &Value, node: &Schema, whole: bool) -> Rule {
    let text = |key: &str| raw.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let optional_old_self = raw.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or_default();
    let mut node = node.clone();
    node.embedded_resource = whole;
    let node = Arc::new(node);
    let this = types::of_schema(&node).unwrap_or(Ty::Error);
    let old = if optional_old_self { Ty::Optional(Box::new(this.clone())) } else { this.clone() };
    let scope = || vec![("self".to_owned(), this.clone()), ("oldSelf".to_owned(), old.clone())];
    let source = text("rule");
    let (mut cost, mut message_cost, mut uses_old_self) = (0, 0, false);
    let built = build(&source, scope()).map_err(|why| format!("compilation failed: {why}"));
    let program = built.and_then(|built| {
        let Ty::Bool = built.ty else { return Err("cel expression must evaluate to a bool".to_owned()) };
        uses_old_self = built.uses_old_self;
        converted(built.program.expression()).map_err(|why| format!("program instantiation failed: {why}"))?;
        cost = cost::most(&node, &built.facts, built.program.expression());
        Ok(built.program)
    });
    let message_source = text("messageExpression");
    let message_program = (program.is_ok() && !message_source.is_empty()).then(|| {
        let built = build(&message_source, scope());
        let built = built.map_err(|why| format!("messageExpression compilation failed: {why}"))?;
        let Ty::Text = built.ty else { return Err("messageExpression must evaluate to a string".to_owned()) };
        converted(built.program.expression())
            .map_err(|why| format!("messageExpression instantiation failed: {why}"))?;
        message_cost = cost::most(&node, &built.facts, built.program.expression());
        Ok(built.program)
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
        cost,
        message_cost,
        most_in_request: cost::most_in_request(&node),
    }
}

/// An expression that can be run.
struct Built {
    program: Program,
    ty: Ty,
    uses_old_self: bool,
    facts: check::Facts,
}

fn build(source: &str, scope: Vec<(String, Ty)>) -> Result<Built, String> {
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
    let uses_old_self = checker.uses_old_self;
    let facts = std::mem::take(&mut checker.facts);
    let report = checker.report();
    if report.is_empty() { Ok(Built { program, ty, uses_old_self, facts }) } else { Err(report) }
}

/// Conversions of what is written out are done once; one that fails makes the expression useless.
fn converted(root: &IdedExpr) -> Result<(), String> {
    const TYPES: [&str; 8] = ["bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"];
    let mut failed = Ok(());
    each(root, |expr, _| {
        let Expr::Call(call) = &expr.expr else { return };
        let ([IdedExpr { expr: Expr::Literal(literal), .. }], None) = (call.args.as_slice(), &call.target) else {
            return;
        };
        if TYPES.contains(&call.func_name.as_str())
            && let Some(Err(eval::Stop::Error(why))) = calls::convert(&call.func_name, &eval::literal_value(literal))
        {
            failed = Err(why);
        }
    });
    failed
}

/// How deep an expression nests.
fn depth(root: &IdedExpr) -> usize {
    let mut deepest = 0;
    each(root, |_, level| deepest = deepest.max(level));
    deepest
}

/// Shows every part of an expression and how deep it is, without recursion.
fn each<'e>(root: &'e IdedExpr, mut show: impl FnMut(&'e IdedExpr, usize)) {
    let mut open = vec![(root, 1_usize)];
    while let Some((expr, level)) = open.pop() {
        show(expr, level);
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
