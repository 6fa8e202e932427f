//! What a rule may cost at most, estimated from the sizes its schema allows, before it has ever run.
//!
//! The estimate decides which definitions are taken, so it follows Kubernetes' step by step, odd ones included.

mod calls;
mod sizes;

use std::collections::HashMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::check::{Facts, qualified_type};
use super::types::Ty;
use crate::schema::node::Schema;

pub(super) use sizes::most_in_request;

const SELECT: u64 = 1;
const LIST: u64 = 10;
const MAP: u64 = 30;
/// What reading a string costs for each character.
const TRAVERSAL: f64 = 0.1;
/// What a regular expression costs for each of its characters.
const PATTERN: f64 = 0.25;

/// How large a value can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    min: u64,
    max: u64,
}

const UNKNOWN: Size = Size { min: 0, max: u64::MAX };
/// Of nothing yet: a union with it is the other.
const NONE: Size = Size { min: u64::MAX, max: 0 };

impl Size {
    fn exactly(size: u64) -> Self {
        Self { min: size, max: size }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// What going through the largest costs.
    fn cost(self, each: f64) -> u64 {
        scaled(self.max, each)
    }
}

/// A number times a factor, rounded up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate; conversion from a float saturates and none is negative"
)]
fn scaled(count: u64, each: f64) -> u64 {
    (count as f64 * each).ceil() as u64
}

/// The sizes of what a list or map has inside.
#[derive(Debug, Clone, Copy)]
struct Entry {
    list: bool,
    key: Size,
    value: Size,
}

impl Entry {
    fn or(self, other: Self) -> Self {
        Self { list: self.list, key: self.key.or(other.key), value: self.value.or(other.value) }
    }
}

/// Where in the object a value is from: a variable, then fields, `@items`, `@keys` and `@values`. Empty if not known.
type Path = Vec<String>;

struct Local {
    name: String,
    path: Path,
    size: Option<Size>,
    entry: Option<Entry>,
}

/// An operand of a call.
struct Node<'e> {
    expr: &'e IdedExpr,
    path: Path,
    ty: Ty,
    size: Option<Size>,
}

struct Estimate<'e> {
    root: &'e Schema,
    facts: &'e Facts,
    paths: HashMap<u64, Path>,
    sizes: HashMap<u64, Size>,
    entries: HashMap<u64, Entry>,
    locals: Vec<Local>,
}

/// The most a checked expression on `root` can cost.
pub(super) fn most(root: &Schema, facts: &Facts, expr: &IdedExpr) -> u64 {
    let (paths, sizes, entries, locals) = Default::default();
    Estimate { root, facts, paths, sizes, entries, locals }.cost(expr)
}

impl<'e> Estimate<'e> {
    fn cost(&mut self, expr: &'e IdedExpr) -> u64 {
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) | Expr::Struct(_) => 0,
            Expr::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                SELECT
            }
            Expr::Select(_) if qualified_type(expr).is_some() => {
                self.paths.insert(expr.id, qualified_type(expr).map(str::to_owned).into_iter().collect());
                SELECT
            }
            Expr::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.test {
                    return operand;
                }
                let extra = u64::from(matches!(self.ty(&select.operand), Ty::Map(..) | Ty::Object(_) | Ty::Param(_)));
                let mut path = self.path(&select.operand);
                path.push(select.field.clone());
                self.paths.insert(expr.id, path);
                operand.saturating_add(extra * SELECT)
            }
            Expr::Call(call) => self.call(expr, call),
            Expr::List(list) => {
                let mut cost = LIST;
                let mut item = if list.elements.is_empty() { Size::exactly(0) } else { NONE };
                for element in &list.elements {
                    cost = cost.saturating_add(self.cost(element));
                    item = item.or(self.size_or_unknown(element));
                }
                self.entries.insert(expr.id, Entry { list: true, key: Size::exactly(1), value: item });
                cost
            }
            Expr::Map(map) => {
                let mut cost = MAP;
                let empty = if map.entries.is_empty() { Size::exactly(0) } else { NONE };
                let mut entry = Entry { list: false, key: empty, value: empty };
                for one in &map.entries {
                    let EntryExpr::MapEntry(one) = &one.expr else { continue };
                    cost = cost.saturating_add(self.cost(&one.key)).saturating_add(self.cost(&one.value));
                    entry.key = entry.key.or(self.size_or_unknown(&one.key));
                    entry.value = entry.value.or(self.size_or_unknown(&one.value));
                }
                self.entries.insert(expr.id, entry);
                cost
            }
            Expr::Comprehension(all) if is_binding(all) => self.binding(expr, all),
            Expr::Comprehension(all) => self.comprehension(expr, all),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn ty(&self, expr: &IdedExpr) -> Ty {
        self.facts.types.get(&expr.id).cloned().unwrap_or(Ty::Dyn)
    }

    fn path(&self, expr: &IdedExpr) -> Path {
        if let Expr::Ident(name) = &expr.expr
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn size(&self, expr: &IdedExpr) -> Option<Size> {
        let known = self.sizes.get(&expr.id).copied();
        let known = known.or_else(|| written_size(expr)).or_else(|| sizes::at(self.root, &self.path(expr)));
        known.or_else(|| is_scalar(&self.ty(expr)).then(|| Size::exactly(1))).or_else(|| match &expr.expr {
            Expr::Ident(name) => self.local(name)?.size,
            _ => None,
        })
    }

    fn size_or_unknown(&self, expr: &IdedExpr) -> Size {
        self.size(expr).unwrap_or(UNKNOWN)
    }

    fn entry(&self, expr: &IdedExpr) -> Option<Entry> {
        self.entries.get(&expr.id).copied().or_else(|| match &expr.expr {
            Expr::Ident(name) => self.local(name)?.entry,
            _ => None,
        })
    }

    fn node(&self, expr: &'e IdedExpr) -> Node<'e> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| first == "@result") {
            path.clear();
        }
        Node { expr, path, ty: self.ty(expr), size: self.size(expr) }
    }

    fn call(&mut self, expr: &'e IdedExpr, call: &'e CallExpr) -> u64 {
        let name = call.func_name.as_str();
        let costs = call.args.iter().map(|arg| self.cost(arg)).collect::<Vec<_>>();
        let sum = |costs: &[u64]| costs.iter().fold(0_u64, |all, one| all.saturating_add(*one));
        let args = call.args.iter().map(|arg| self.node(arg)).collect::<Vec<_>>();
        match (name, args.as_slice(), costs.as_slice()) {
            ("dyn", [arg], [cost]) => {
                let (size, entry) = (arg.size, self.entry(arg.expr));
                self.keep(expr, size, entry);
                return cost.saturating_add(1);
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR, _, costs) => return sum(costs),
            (operators::CONDITIONAL, [_, then, other], [condition, yes, no]) => {
                let size = then.size.unwrap_or(UNKNOWN).or(other.size.unwrap_or(UNKNOWN));
                let entry = self.entry(then.expr).zip(self.entry(other.expr)).map(|(a, b)| a.or(b));
                self.keep(expr, Some(size), entry);
                return condition.saturating_add(*yes.max(no));
            }
            _ => {}
        }
        // The first part of a function's name with a dot is no operand.
        let full = self.full_name(call);
        let mut total = sum(&costs);
        let target = match (&call.target, &full) {
            (Some(target), None) => {
                total = total.saturating_add(self.cost(target));
                Some(self.node(target))
            }
            _ => None,
        };
        let name = full.as_deref().unwrap_or(name);
        let ways = self.facts.ways.get(&expr.id).cloned().unwrap_or_default();
        let (mut most, mut size) = (u64::from(ways.is_empty()), None::<Size>);
        for way in ways {
            let (cost, result) = self.way(expr, name, way, target.as_ref(), &args);
            most = most.max(cost);
            size = match (size, result) {
                (Some(a), Some(b)) => Some(a.or(b)),
                (a, b) => a.or(b),
            };
            if let (operators::INDEX, [list, _]) = (name, args.as_slice())
                && let (Some(Ty::List(_) | Ty::Map(..)), Some(step)) = (way.first(), way.first().map(step_of))
            {
                size = self.entry(list.expr).map(|entry| entry.value);
                let mut path = self.path(list.expr);
                path.push(step.to_owned());
                self.paths.insert(expr.id, path);
            }
            size = size.or_else(|| self.size(expr));
        }
        self.keep(expr, size, None);
        total.saturating_add(most)
    }

    fn full_name(&self, call: &CallExpr) -> Option<String> {
        let Expr::Ident(first) = &call.target.as_ref()?.expr else { return None };
        let full = format!("{first}.{}", call.func_name);
        let bound = self.local(first).is_some() || matches!(first.as_str(), "self" | "oldSelf");
        (super::functions::exists(&full) && !bound).then_some(full)
    }

    fn keep(&mut self, expr: &IdedExpr, size: Option<Size>, entry: Option<Entry>) {
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        if let Some(entry) = entry {
            self.entries.insert(expr.id, entry);
        }
    }

    fn push(&mut self, name: &str, path: Path, size: Option<Size>, entry: Option<Entry>) {
        self.locals.push(Local { name: name.to_owned(), path, size, entry });
    }

    fn push_value_of(&mut self, name: &str, expr: &IdedExpr) {
        self.push(name, self.path(expr), self.size(expr), self.entry(expr));
    }

    fn binding(&mut self, expr: &IdedExpr, all: &'e ComprehensionExpr) -> u64 {
        let init = self.cost(&all.accu_init);
        // What an optional's macros bind besides is written out twice in Kubernetes.
        let cost = match all.accu_var.as_str() {
            "@target" => (init.saturating_sub(SELECT)).saturating_mul(2),
            _ => self.cost(&all.iter_range).saturating_add(init),
        };
        let depth = self.locals.len();
        self.push_value_of(&all.accu_var, &all.accu_init);
        let cost = cost.saturating_add(self.cost(&all.result));
        let (size, entry) = (self.size(&all.result), self.entry(&all.result));
        self.locals.truncate(depth);
        self.keep(expr, size, entry);
        cost
    }

    fn comprehension(&mut self, expr: &IdedExpr, all: &'e ComprehensionExpr) -> u64 {
        let cost = self.cost(&all.iter_range).saturating_add(self.cost(&all.accu_init));
        let depth = self.locals.len();
        self.push_value_of(&all.accu_var, &all.accu_init);
        self.push_iterated(all);
        let each = self.cost(&all.loop_cond).saturating_add(self.cost(&all.loop_step));
        self.locals.truncate(depth + 1);
        let cost = cost.saturating_add(self.cost(&all.result));
        self.locals.truncate(depth);
        let count = self.size_or_unknown(&all.iter_range);
        match &all.accu_init.expr {
            Expr::Literal(_) => self.keep(expr, self.size(&all.accu_init), None),
            Expr::List(_) | Expr::Map(_) => self.keep(expr, Some(count), self.entry(&all.loop_step)),
            _ => {}
        }
        cost.saturating_add(count.max.saturating_mul(each))
    }

    fn push_iterated(&mut self, all: &ComprehensionExpr) {
        let entry = self.entry(&all.iter_range);
        let list = entry.map_or_else(|| matches!(self.ty(&all.iter_range), Ty::List(_)), |entry| entry.list);
        let path = self.path(&all.iter_range);
        let below = |step: &str| path.iter().cloned().chain([step.to_owned()]).collect::<Path>();
        let (key, value) = (entry.map(|entry| entry.key), entry.map(|entry| entry.value));
        match (&all.iter_var2, list) {
            (None, true) => self.push(&all.iter_var, below("@items"), value, None),
            (None, false) => self.push(&all.iter_var, below("@keys"), key, None),
            (Some(second), _) => {
                self.push(&all.iter_var, below(if list { "@indices" } else { "@keys" }), key, None);
                self.push(second, below(if list { "@items" } else { "@values" }), value, None);
            }
        }
    }
}

fn step_of(container: &Ty) -> &'static str {
    if matches!(container, Ty::List(_)) { "@items" } else { "@values" }
}

/// A comprehension over nothing that only gives a value a name.
fn is_binding(all: &ComprehensionExpr) -> bool {
    let over_nothing = matches!(&all.iter_range.expr, Expr::List(list) if list.elements.is_empty());
    let never = matches!(&all.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(value)) if !value.inner());
    over_nothing && never
}

/// The size of what is written out.
fn written_size(expr: &IdedExpr) -> Option<Size> {
    Some(Size::exactly(match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner().chars().count() as u64,
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len() as u64,
        Expr::Literal(_) => 1,
        Expr::List(list) => list.elements.len() as u64,
        Expr::Map(map) => map.entries.len() as u64,
        _ => return None,
    }))
}

fn is_scalar(ty: &Ty) -> bool {
    match ty {
        Ty::Bool | Ty::Double | Ty::Duration | Ty::Int | Ty::Timestamp | Ty::Uint => true,
        Ty::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
