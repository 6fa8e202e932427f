//! Type checking: a rule that cannot be right is refused before it is ever run.

use std::collections::HashMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};

use super::types::{self, Ty, assignable};
use super::{formatting, functions};
use crate::schema::{formats, rules};

/// The name of a variable and its type.
type Scope = Vec<(String, Ty)>;

/// The type of every part of an expression, and how its functions can be called.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) types: HashMap<u64, Ty>,
    pub(super) ways: HashMap<u64, Vec<&'static [Ty]>>,
}

pub(super) struct Checker<'a> {
    source: &'a SourceInfo,
    scope: Scope,
    errors: Vec<(u32, String)>,
    /// Complaints about what fits by type; told only where nothing else is wrong.
    late: Vec<(u32, String)>,
    /// What was found out, for the estimate of its cost.
    pub(super) facts: Facts,
    /// Whether the expression mentions `oldSelf`.
    pub(super) uses_old_self: bool,
}

/// Names that stand for a type.
pub(super) const TYPE_NAMES: [&str; 10] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];

/// A type whose name has dots, as an expression spells it.
pub(super) fn qualified_type(expr: &IdedExpr) -> Option<&'static str> {
    let Expr::Select(last) = &expr.expr else { return None };
    let Expr::Select(middle) = &last.operand.expr else { return None };
    let Expr::Ident(first) = &middle.operand.expr else { return None };
    match (first.as_str(), middle.field.as_str(), last.field.as_str()) {
        ("google", "protobuf", "Timestamp") if !last.test => Some("google.protobuf.Timestamp"),
        ("google", "protobuf", "Duration") if !last.test => Some("google.protobuf.Duration"),
        _ => None,
    }
}

impl<'a> Checker<'a> {
    pub(super) fn new(source: &'a SourceInfo, scope: Scope) -> Self {
        Self { source, scope, errors: Vec::new(), late: Vec::new(), facts: Facts::default(), uses_old_self: false }
    }

    /// The errors in the form Kubernetes shows, empty if there are none.
    pub(super) fn report(self) -> String {
        let mut errors = if self.errors.is_empty() { self.late } else { self.errors };
        errors.sort_by_key(|(at, _)| *at);
        let source = &self.source.source;
        let lines = errors.iter().map(|(at, message)| located(source, *at as usize, message));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn error(&mut self, id: u64, message: String) -> Ty {
        let at = self.source.offset_for(id).map_or(0, |(start, _)| start);
        if !self.errors.iter().any(|known| *known == (at, message.clone())) {
            self.errors.push((at, message));
        }
        Ty::Error
    }

    fn late_error(&mut self, id: u64, message: String) {
        let at = self.source.offset_for(id).map_or(0, |(start, _)| start);
        self.late.push((at, message));
    }

    pub(super) fn check(&mut self, expr: &IdedExpr) -> Ty {
        let ty = self.found(expr);
        self.facts.types.insert(expr.id, ty.clone());
        ty
    }

    fn found(&mut self, expr: &IdedExpr) -> Ty {
        match &expr.expr {
            Expr::Unspecified => self.error(expr.id, "unspecified expression".to_owned()),
            Expr::Literal(literal) => literal_type(literal),
            Expr::Ident(name) => self.ident(expr.id, name),
            Expr::Select(_) if qualified_type(expr).is_some() && !self.is_bound("google") => Ty::Type,
            Expr::Select(select) => {
                let operand = self.check(&select.operand);
                let field = self.field(expr.id, &operand, &select.field);
                if select.test { Ty::Bool } else { field }
            }
            Expr::Call(call) => self.call(expr.id, call),
            Expr::List(list) => {
                let mut item = None;
                for (at, element) in list.elements.iter().enumerate() {
                    let mut ty = self.check(element);
                    if list.optional_indices.contains(&at) {
                        ty = if let Ty::Optional(inner) = ty { *inner } else { ty };
                    }
                    item = Some(self.joined(element.id, item, ty));
                }
                Ty::List(Box::new(item.unwrap_or(Ty::Dyn)))
            }
            Expr::Map(map) => {
                let (mut key, mut value) = (None, None);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let ty = self.check(&entry.key);
                    key = Some(self.joined(entry.key.id, key, ty));
                    let mut ty = self.check(&entry.value);
                    if entry.optional {
                        ty = if let Ty::Optional(inner) = ty { *inner } else { ty };
                    }
                    value = Some(self.joined(entry.value.id, value, ty));
                }
                Ty::Map(Box::new(key.unwrap_or(Ty::Dyn)), Box::new(value.unwrap_or(Ty::Dyn)))
            }
            Expr::Struct(object) => {
                let message = format!("undeclared reference to '{}' (in container '')", object.type_name);
                self.error(expr.id, message)
            }
            Expr::Comprehension(comprehension) => self.comprehension(expr.id, comprehension),
        }
    }

    /// Items of a literal are of one type.
    fn joined(&mut self, id: u64, known: Option<Ty>, given: Ty) -> Ty {
        match known {
            None => given,
            Some(known) if assignable(&given, &known) => {
                if matches!(known, Ty::Dyn | Ty::Null) {
                    given
                } else {
                    known
                }
            }
            Some(known) => {
                self.late_error(id, format!("expected type '{known}' but found '{given}'"));
                Ty::Dyn
            }
        }
    }

    fn ident(&mut self, id: u64, name: &str) -> Ty {
        if name == "oldSelf" {
            self.uses_old_self = true;
        }
        if let Some((_, ty)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return ty.clone();
        }
        if TYPE_NAMES.contains(&name) {
            return Ty::Type;
        }
        self.error(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn field(&mut self, id: u64, operand: &Ty, name: &str) -> Ty {
        match operand {
            Ty::Dyn => Ty::Dyn,
            Ty::Error => Ty::Error,
            Ty::Object(schema) => match types::field(schema, name) {
                Some(ty) => ty,
                None => self.error(id, format!("undefined field '{name}'")),
            },
            Ty::Map(_, value) => Ty::clone(value),
            Ty::Optional(inner) => match self.field(id, inner, name) {
                already @ (Ty::Optional(_) | Ty::Error) => already,
                ty => Ty::Optional(Box::new(ty)),
            },
            other => self.error(id, format!("type '{other}' does not support field selection")),
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Ty {
        match call.func_name.as_str() {
            operators::LOGICAL_AND | operators::LOGICAL_OR => {
                for arg in &call.args {
                    let ty = self.check(arg);
                    if !assignable(&ty, &Ty::Bool) {
                        self.error(arg.id, format!("expected type 'bool' but found '{ty}'"));
                    }
                }
                Ty::Bool
            }
            operators::NOT_STRICTLY_FALSE => {
                call.args.iter().for_each(|arg| drop(self.check(arg)));
                Ty::Bool
            }
            operators::CONDITIONAL => self.conditional(id, call),
            operators::OPT_SELECT => self.optional_select(id, call),
            name => self.function(id, name, call),
        }
    }

    fn conditional(&mut self, id: u64, call: &CallExpr) -> Ty {
        let [condition, then, other] = call.args.as_slice() else { return Ty::Error };
        let (condition, then, other) = (self.check(condition), self.check(then), self.check(other));
        if !assignable(&condition, &Ty::Bool) || !assignable(&then, &other) {
            // What a comprehension has so far is of the type of what it adds.
            let empty = matches!(&other, Ty::List(item) if matches!(**item, Ty::Dyn));
            let other = if empty { &then } else { &other };
            let message = format!("found no matching overload for '_?_:_' applied to '({condition}, {then}, {other})'");
            return self.error(id, message);
        }
        if matches!(then, Ty::Dyn | Ty::Null | Ty::Error) { other } else { then }
    }

    fn optional_select(&mut self, id: u64, call: &CallExpr) -> Ty {
        let [operand, name] = call.args.as_slice() else { return Ty::Error };
        let Expr::Literal(LiteralValue::String(name)) = &name.expr else { return Ty::Error };
        let operand = self.check(operand);
        match self.field(id, &operand, name.inner()) {
            already @ (Ty::Optional(_) | Ty::Error) => already,
            ty => Ty::Optional(Box::new(ty)),
        }
    }

    fn function(&mut self, id: u64, name: &str, call: &CallExpr) -> Ty {
        if let Some(full) = self.namespaced(call) {
            let args = call.args.iter().map(|arg| self.check(arg)).collect::<Vec<_>>();
            return self.resolved(id, &full, false, &args);
        }
        let mut args = Vec::new();
        if let Some(target) = &call.target {
            args.push(self.check(target));
        }
        match (name, call.args.as_slice()) {
            // What is formatted may be of any types.
            ("format", [IdedExpr { expr: Expr::List(list), .. }]) => {
                list.elements.iter().for_each(|element| drop(self.check(element)));
                self.formatted(id, call, &list.elements);
                args.push(Ty::List(Box::new(Ty::Dyn)));
            }
            (_, given) => args.extend(given.iter().map(|arg| self.check(arg))),
        }
        if !functions::exists(name) {
            return self.error(id, format!("undeclared reference to '{name}' (in container '')"));
        }
        self.literal_argument(name, call);
        self.resolved(id, name, call.target.is_some(), &args)
    }

    /// What can be seen to be wrong with a format that is written out.
    fn formatted(&mut self, id: u64, call: &CallExpr, args: &[IdedExpr]) {
        let Some(format) = call.target.as_deref().and_then(formatting::literal_text) else { return };
        let type_of = |arg: &IdedExpr| self.facts.types.get(&arg.id).cloned().unwrap_or(Ty::Dyn);
        if let Some((at, why)) = formatting::check(format, args, type_of) {
            self.late_error(at.unwrap_or(id), why);
        }
    }

    fn is_bound(&self, name: &str) -> bool {
        self.scope.iter().any(|(known, _)| known == name)
    }

    /// What can be seen to fail in every run is refused: a pattern, time or duration written out wrongly.
    fn literal_argument(&mut self, name: &str, call: &CallExpr) {
        let (Some(last), true) = (call.args.last(), call.args.len() + usize::from(call.target.is_some()) <= 2) else {
            return;
        };
        let Expr::Literal(LiteralValue::String(text)) = &last.expr else { return };
        let text = text.inner();
        let wrong = match name {
            "matches" => rules::compile(text).is_err(),
            "duration" => formats::go_duration(text).is_none(),
            "timestamp" => text.parse::<jiff::Timestamp>().is_err(),
            _ => false,
        };
        if wrong {
            self.late_error(last.id, format!("invalid {name} argument"));
        }
    }

    /// `sets.contains`: a function whose name has a dot, unless a variable has the first part's name.
    fn namespaced(&self, call: &CallExpr) -> Option<String> {
        let Expr::Ident(first) = &call.target.as_ref()?.expr else { return None };
        let full = format!("{first}.{}", call.func_name);
        let shadowed = self.scope.iter().any(|(known, _)| known == first);
        (functions::exists(&full) && !shadowed).then_some(full)
    }

    fn resolved(&mut self, id: u64, name: &str, member: bool, args: &[Ty]) -> Ty {
        if let Some(call) = functions::resolve(name, member, args) {
            self.facts.ways.insert(id, call.ways);
            return call.ty;
        }
        if args.iter().any(|arg| matches!(arg, Ty::Error)) {
            return Ty::Error;
        }
        let shown = |list: &[Ty]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let applied = match args {
            [first, rest @ ..] if member => format!("{first}.({})", shown(rest)),
            all => format!("({})", shown(all)),
        };
        self.error(id, format!("found no matching overload for '{name}' applied to '{applied}'"))
    }

    /// Whether the call at an expression's place is of this name.
    fn is_called(&self, id: u64, name: &str) -> bool {
        let Some((at, _)) = self.source.offset_for(id) else { return false };
        let source = &self.source.source;
        source.contains(name) && source.chars().take(at as usize).collect::<String>().trim_end().ends_with(name)
    }

    fn comprehension(&mut self, id: u64, all: &ComprehensionExpr) -> Ty {
        if all.iter_var2.is_none() && self.is_called(id, "existsOne") {
            return self.error(id, "undeclared reference to 'existsOne' (in container '')".to_owned());
        }
        let pairs = all.iter_var2.is_some();
        let (first, second) = match self.check(&all.iter_range) {
            Ty::List(item) if pairs => (Ty::Int, *item),
            Ty::List(item) => (*item, Ty::Dyn),
            Ty::Map(key, value) => (*key, *value),
            Ty::Dyn => (Ty::Dyn, Ty::Dyn),
            Ty::Error => (Ty::Error, Ty::Error),
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (self.error(all.iter_range.id, message), Ty::Error)
            }
        };
        let accumulated = self.check(&all.accu_init);
        let depth = self.scope.len();
        self.scope.push((all.accu_var.clone(), accumulated.clone()));
        self.scope.push((all.iter_var.clone(), first));
        if let Some(name) = &all.iter_var2 {
            self.scope.push((name.clone(), second));
        }
        self.check(&all.loop_cond);
        let step = self.check(&all.loop_step);
        self.scope.truncate(depth);
        // An empty list or map takes the type of what is put in it.
        let empty = match &accumulated {
            Ty::List(inner) => matches!(**inner, Ty::Dyn),
            Ty::Map(key, _) => matches!(**key, Ty::Dyn),
            _ => false,
        };
        let result = if empty { step } else { accumulated };
        self.scope.push((all.accu_var.clone(), result));
        let ty = self.check(&all.result);
        self.scope.truncate(depth);
        ty
    }
}

fn literal_type(literal: &LiteralValue) -> Ty {
    match literal {
        LiteralValue::Boolean(_) => Ty::Bool,
        LiteralValue::Bytes(_) => Ty::Bytes,
        LiteralValue::Double(_) => Ty::Double,
        LiteralValue::Int(_) => Ty::Int,
        LiteralValue::Null => Ty::Null,
        LiteralValue::String(_) => Ty::Text,
        LiteralValue::UInt(_) => Ty::Uint,
    }
}

/// `ERROR: <input>:1:5: message`, the line it is on, and a mark below the place.
pub(super) fn located(source: &str, at: usize, message: &str) -> String {
    let chars = source.chars().collect::<Vec<_>>();
    let before = &chars[..at.min(chars.len())];
    let line = before.iter().filter(|c| **c == '\n').count();
    let column = before.iter().rev().take_while(|c| **c != '\n').count();
    marked(source, line, column, message)
}

/// The same where line and column (from zero) are known.
pub(super) fn marked(source: &str, line: usize, column: usize, message: &str) -> String {
    let text = source.lines().nth(line).unwrap_or_default();
    let dots = ".".repeat(column);
    format!("ERROR: <input>:{}:{}: {message}\n | {text}\n | {dots}^", line + 1, column + 1)
}
