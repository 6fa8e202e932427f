//! Evaluation, with a bound on its cost.

use std::borrow::Cow;
use std::rc::Rc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use serde_json::{Map, Value};

use super::check::{TYPE_NAMES, qualified_type};
use super::macros::MAP_INSERT;
use super::types::unescape;
use super::value::{Val, field_schema};
use super::{calls, functions};
use crate::schema::node::Schema;

/// Why an evaluation ended without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// The expression is wrong for this object.
    Error(String),
    /// It cost too much.
    Cost,
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Error(message)
    }
}

pub(super) type Outcome<'a> = Result<Val<'a>, Stop>;

/// One evaluation: the variables in scope and what it may still cost.
pub(super) struct Machine<'a> {
    scope: Vec<(Cow<'a, str>, Result<Val<'a>, String>)>,
    left: u64,
}

impl<'a> Machine<'a> {
    pub(super) fn new(budget: u64) -> Self {
        Self { scope: Vec::new(), left: budget }
    }

    pub(super) fn bind(&mut self, name: &'static str, value: Result<Val<'a>, String>) {
        self.scope.push((Cow::Borrowed(name), value));
    }

    /// What is left of the budget.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    pub(super) fn spend(&mut self, cost: u64) -> Result<(), Stop> {
        self.left = self.left.checked_sub(cost).ok_or(Stop::Cost)?;
        Ok(())
    }

    pub(super) fn eval(&mut self, expr: &'a IdedExpr) -> Outcome<'a> {
        self.spend(1)?;
        match &expr.expr {
            Expr::Unspecified | Expr::Struct(_) => Err(Stop::Error("unsupported expression".to_owned())),
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => {
                if let Some(name) = qualified_type(expr).filter(|_| !self.is_bound("google")) {
                    return Ok(Val::Type(name.to_owned()));
                }
                let operand = self.eval(&select.operand)?;
                if select.test {
                    return has(&operand, &select.field).map(Val::Bool).map_err(Stop::Error);
                }
                field(&operand, &select.field).map_err(Stop::Error)
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (at, element) in list.elements.iter().enumerate() {
                    match self.eval(element)? {
                        Val::Optional(inner) if list.optional_indices.contains(&at) => {
                            items.extend(inner.map(|inner| Val::clone(&inner)));
                        }
                        item => items.push(item),
                    }
                }
                Ok(Val::list(items))
            }
            Expr::Map(map) => {
                let mut entries: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let key = self.eval(&entry.key)?;
                    let value = match (self.eval(&entry.value)?, entry.optional) {
                        (Val::Optional(None), true) => continue,
                        (Val::Optional(Some(inner)), true) => Val::clone(&inner),
                        (value, _) => value,
                    };
                    self.spend(entries.len() as u64)?;
                    // Said twice, the last holds.
                    match entries.iter_mut().find(|(known, _)| known.equals(&key)) {
                        Some(known) => known.1 = value,
                        None => entries.push((key, value)),
                    }
                }
                Ok(Val::Map(Rc::new(entries)))
            }
            Expr::Comprehension(all) => self.comprehension(all),
        }
    }

    fn ident(&mut self, name: &str) -> Outcome<'a> {
        if let Some((_, value)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return value.clone().map_err(Stop::Error);
        }
        if TYPE_NAMES.contains(&name) {
            return Ok(Val::Type(name.to_owned()));
        }
        Err(Stop::Error(format!("no such attribute(s): {name}")))
    }

    fn call(&mut self, call: &'a CallExpr) -> Outcome<'a> {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND, [a, b]) => self.logic(a, b, false),
            (operators::LOGICAL_OR, [a, b]) => self.logic(a, b, true),
            (operators::CONDITIONAL, [condition, then, other]) => match self.eval(condition)? {
                Val::Bool(true) => self.eval(then),
                Val::Bool(false) => self.eval(other),
                _ => Err(calls::no_overload()),
            },
            (operators::NOT_STRICTLY_FALSE, [value]) => match self.eval(value) {
                Ok(Val::Bool(false)) => Ok(Val::Bool(false)),
                Err(Stop::Cost) => Err(Stop::Cost),
                _ => Ok(Val::Bool(true)),
            },
            (operators::OPT_SELECT, [operand, name]) => {
                let Expr::Literal(LiteralValue::String(name)) = &name.expr else { return Err(calls::no_overload()) };
                let operand = match self.eval(operand)? {
                    Val::Optional(None) => return Ok(Val::Optional(None)),
                    Val::Optional(Some(inner)) => Val::clone(&inner),
                    value => value,
                };
                if has(&operand, name.inner()).map_err(Stop::Error)? {
                    return field(&operand, name.inner()).map(Val::some).map_err(Stop::Error);
                }
                Ok(Val::Optional(None))
            }
            (name, args) => self.function(name, call, args),
        }
    }

    fn function(&mut self, name: &'a str, call: &'a CallExpr, args: &'a [IdedExpr]) -> Outcome<'a> {
        let mut values = Vec::with_capacity(args.len() + 1);
        let mut full = Cow::Borrowed(name);
        if let Some(target) = &call.target {
            match self.namespaced(target, name) {
                Some(namespaced) => full = Cow::Owned(namespaced),
                None => values.push(self.eval(target)?),
            }
        }
        for arg in args {
            values.push(self.eval(arg)?);
        }
        calls::call(self, &full, &values)
    }

    /// Adds to the map a comprehension builds.
    fn insert(&mut self, added: &'a [IdedExpr], depth: usize) -> Result<bool, Stop> {
        let mut values = Vec::with_capacity(added.len());
        for expr in added {
            match self.eval(expr) {
                Ok(value) => values.push(value),
                Err(Stop::Cost) => return Err(Stop::Cost),
                Err(Stop::Error(message)) => {
                    self.scope[depth].1 = Err(message);
                    return Ok(true);
                }
            }
        }
        let Ok(Val::Map(map)) = &mut self.scope[depth].1 else { return Ok(true) };
        let scanned = map.len() as u64 / 64;
        match calls::add_entries(Rc::make_mut(map), &values) {
            Err(Stop::Error(message)) => self.scope[depth].1 = Err(message),
            other => other?,
        }
        self.spend(1 + scanned)?;
        Ok(true)
    }

    fn is_bound(&self, name: &str) -> bool {
        self.scope.iter().any(|(known, _)| known == name)
    }

    fn namespaced(&self, target: &IdedExpr, name: &str) -> Option<String> {
        let Expr::Ident(first) = &target.expr else { return None };
        let full = format!("{first}.{name}");
        let shadowed = self.scope.iter().any(|(known, _)| known == first);
        (!shadowed && functions::exists(&full)).then_some(full)
    }

    /// One side can decide alone, even where the other is an error.
    fn logic(&mut self, a: &'a IdedExpr, b: &'a IdedExpr, decides: bool) -> Outcome<'a> {
        let first = self.eval(a);
        match &first {
            Ok(Val::Bool(value)) if *value == decides => return Ok(Val::Bool(decides)),
            Err(Stop::Cost) => return Err(Stop::Cost),
            _ => {}
        }
        match (first, self.eval(b)) {
            (_, Err(Stop::Cost)) => Err(Stop::Cost),
            (_, Ok(Val::Bool(value))) if value == decides => Ok(Val::Bool(decides)),
            (Err(stop), _) | (Ok(Val::Bool(_)), Err(stop)) => Err(stop),
            (Ok(Val::Bool(_)), Ok(Val::Bool(value))) => Ok(Val::Bool(value)),
            _ => Err(calls::no_overload()),
        }
    }

    fn comprehension(&mut self, all: &'a ComprehensionExpr) -> Outcome<'a> {
        let range = self.eval(&all.iter_range)?;
        let items = rounds(&range, all.iter_var2.is_some())?;
        self.spend(items.len() as u64)?;
        let accumulated = self.eval(&all.accu_init)?;
        let depth = self.scope.len();
        self.scope.push((Cow::Borrowed(&all.accu_var), Ok(accumulated)));
        let done = self.iterate(all, items, depth);
        self.scope.truncate(depth + 1);
        let result = done.and_then(|()| self.eval(&all.result));
        self.scope.truncate(depth);
        result
    }

    fn iterate(&mut self, all: &'a ComprehensionExpr, rounds: Vec<Round<'a>>, depth: usize) -> Result<(), Stop> {
        for (first, second) in rounds {
            self.scope.truncate(depth + 1);
            self.scope.push((Cow::Borrowed(&all.iter_var), Ok(first)));
            if let (Some(name), Some(second)) = (&all.iter_var2, second) {
                self.scope.push((Cow::Borrowed(name), Ok(second)));
            }
            match self.eval(&all.loop_cond)? {
                Val::Bool(true) => {}
                _ => return Ok(()),
            }
            if self.append(&all.loop_step, &all.accu_var, depth)? {
                continue;
            }
            let next = match self.eval(&all.loop_step) {
                Err(Stop::Cost) => return Err(Stop::Cost),
                Err(Stop::Error(message)) => Err(message),
                Ok(value) => Ok(value),
            };
            self.scope[depth].1 = next;
        }
        Ok(())
    }

    /// `map` and `filter` add to the list they build; done in place, or their cost would grow with its square.
    fn append(&mut self, step: &'a IdedExpr, accumulator: &str, depth: usize) -> Result<bool, Stop> {
        let Expr::Call(call) = &step.expr else { return Ok(false) };
        match (call.func_name.as_str(), call.args.as_slice()) {
            (MAP_INSERT, [_, added @ ..]) => self.insert(added, depth),
            (operators::ADD, [target, added]) => {
                let (Expr::Ident(name), Expr::List(_)) = (&target.expr, &added.expr) else { return Ok(false) };
                if name != accumulator {
                    return Ok(false);
                }
                let added = match self.eval(added) {
                    Ok(added) => added,
                    Err(Stop::Cost) => return Err(Stop::Cost),
                    Err(Stop::Error(message)) => {
                        self.scope[depth].1 = Err(message);
                        return Ok(true);
                    }
                };
                let (Val::List(added), Ok(Val::List(list))) = (added, &mut self.scope[depth].1) else {
                    return Ok(true);
                };
                Rc::make_mut(list).extend(added.iter().cloned());
                Ok(true)
            }
            (operators::CONDITIONAL, [condition, then, other]) => {
                let keeps = matches!(&other.expr, Expr::Ident(name) if name == accumulator);
                if !keeps || !is_append(then, accumulator) {
                    return Ok(false);
                }
                match self.eval(condition) {
                    Ok(Val::Bool(true)) => self.append(then, accumulator, depth),
                    Ok(Val::Bool(false)) => Ok(true),
                    Ok(_) => Err(calls::no_overload()),
                    Err(Stop::Cost) => Err(Stop::Cost),
                    Err(Stop::Error(message)) => {
                        self.scope[depth].1 = Err(message);
                        Ok(true)
                    }
                }
            }
            _ => Ok(false),
        }
    }
}

/// What the variables of a comprehension are in one round.
type Round<'a> = (Val<'a>, Option<Val<'a>>);

fn rounds<'a>(range: &Val<'a>, pairs: bool) -> Result<Vec<Round<'a>>, Stop> {
    if let Some(items) = range.items() {
        let items = items?.into_iter();
        if pairs {
            let numbered = items.zip(0_i64..).map(|(item, at)| (Val::Int(at), Some(item)));
            return Ok(numbered.collect());
        }
        return Ok(items.map(|item| (item, None)).collect());
    }
    let keys = range.keys().ok_or_else(calls::no_overload)?.into_iter();
    let round = |key: Val<'a>| {
        let value = if pairs { range.entry(&key).transpose()? } else { None };
        Ok((key, value))
    };
    keys.map(round).collect()
}

fn is_append(step: &IdedExpr, accumulator: &str) -> bool {
    let Expr::Call(call) = &step.expr else { return false };
    if call.func_name == MAP_INSERT {
        return true;
    }
    let [target, added] = call.args.as_slice() else { return false };
    call.func_name == operators::ADD
        && matches!(&target.expr, Expr::Ident(name) if name == accumulator)
        && matches!(added.expr, Expr::List(_))
}

pub(super) fn literal_value(literal: &LiteralValue) -> Val<'_> {
    match literal {
        LiteralValue::Boolean(value) => Val::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Val::Bytes(value.inner().into()),
        LiteralValue::Double(value) => Val::Double(*value.inner()),
        LiteralValue::Int(value) => Val::Int(*value.inner()),
        LiteralValue::Null => Val::Null,
        LiteralValue::String(value) => Val::Text(Cow::Borrowed(value.inner())),
        LiteralValue::UInt(value) => Val::Uint(*value.inner()),
    }
}

/// The name in the object a selected field stands for: only objects with known fields escape their names.
fn key_of<'n>(operand: &Val<'_>, name: &'n str) -> Cow<'n, str> {
    match operand {
        Val::Fields(_, Some(schema)) if schema.additional.is_none() => {
            unescape(name).map_or(Cow::Borrowed(name), Cow::Owned)
        }
        _ => Cow::Borrowed(name),
    }
}

/// A field of an object; one that is null counts as absent, unlike an entry of a map.
fn present<'a>(map: &'a Map<String, Value>, schema: Option<&Schema>, key: &str) -> Option<&'a Value> {
    let is_map = schema.is_some_and(|schema| schema.additional.is_some());
    map.get(key).filter(|value| is_map || !value.is_null())
}

fn has(operand: &Val<'_>, name: &str) -> Result<bool, String> {
    match operand {
        Val::Fields(map, schema) => Ok(present(map, *schema, &key_of(operand, name)).is_some()),
        Val::Map(entries) => Ok(entries.iter().any(|(key, _)| matches!(key, Val::Text(key) if key == name))),
        Val::Optional(None) => Ok(false),
        Val::Optional(Some(inner)) => has(inner, name),
        other => Err(format!("no such overload: {}.{name}", other.type_name())),
    }
}

fn field<'a>(operand: &Val<'a>, name: &str) -> Result<Val<'a>, String> {
    match operand {
        Val::Fields(map, schema) => {
            let key = key_of(operand, name);
            match present(map, *schema, &key) {
                Some(value) => Val::from_json(value, field_schema(*schema, &key)),
                None => Err(format!("no such key: {name}")),
            }
        }
        Val::Map(entries) => {
            let found = entries.iter().find(|(key, _)| matches!(key, Val::Text(key) if key == name));
            found.map(|(_, value)| value.clone()).ok_or_else(|| format!("no such key: {name}"))
        }
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(inner)) => {
            if has(inner, name)? {
                field(inner, name).map(Val::some)
            } else {
                Ok(Val::Optional(None))
            }
        }
        other => Err(format!("no such overload: {}.{name}", other.type_name())),
    }
}
