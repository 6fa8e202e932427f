//! List and set functions.

use std::cmp::Ordering;
use std::rc::Rc;

use super::calls::error;
use super::eval::{Outcome, Stop};
use super::value::Val;

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    let items = match args.first()?.items()? {
        Ok(items) => items,
        Err(why) => return Some(Err(Stop::Error(why))),
    };
    Some(match (name, &args[1..]) {
        ("isSorted", []) => Ok(Val::Bool(sorted(&items))),
        ("sum", []) => sum(&items),
        ("min", []) => extreme(&items, "min", Ordering::Less),
        ("max", []) => extreme(&items, "max", Ordering::Greater),
        ("indexOf", [wanted]) => Ok(Val::Int(at(items.iter().position(|item| item.equals(wanted))))),
        ("first", []) => Ok(Val::Optional(items.into_iter().next().map(Rc::new))),
        ("last", []) => Ok(Val::Optional(items.into_iter().next_back().map(Rc::new))),
        ("unwrapOpt" | "optional.unwrap", []) => present(items),
        ("lastIndexOf", [wanted]) => Ok(Val::Int(at(items.iter().rposition(|item| item.equals(wanted))))),
        ("sets.contains" | "sets.equivalent" | "sets.intersects", [other]) => match other.items()? {
            Ok(others) => Ok(Val::Bool(sets(name, &items, &others))),
            Err(why) => Err(Stop::Error(why)),
        },
        _ => return None,
    })
}

/// What optionals have inside.
fn present(items: Vec<Val<'_>>) -> Outcome<'_> {
    let inner = items.into_iter().map(|item| match item {
        Val::Optional(inner) => Ok(inner),
        _ => Err(super::calls::no_overload()),
    });
    let inner = inner.collect::<Result<Vec<_>, _>>()?;
    Ok(Val::list(inner.into_iter().flatten().map(|inner| Val::clone(&inner)).collect()))
}

fn at(position: Option<usize>) -> i64 {
    position.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)
}

fn sets(name: &str, items: &[Val<'_>], others: &[Val<'_>]) -> bool {
    let has = |list: &[Val<'_>], wanted: &Val<'_>| list.iter().any(|item| item.equals(wanted));
    let covers = |list: &[Val<'_>], part: &[Val<'_>]| part.iter().all(|item| has(list, item));
    match name {
        "sets.contains" => covers(items, others),
        "sets.equivalent" => covers(items, others) && covers(others, items),
        _ => others.iter().any(|item| has(items, item)),
    }
}

fn sorted(items: &[Val<'_>]) -> bool {
    // What cannot be compared is in order, as in Kubernetes.
    let falls = |pair: &[Val<'_>]| pair[0].compare(&pair[1]).is_some_and(Ordering::is_gt);
    !items.windows(2).any(falls)
}

fn extreme<'a>(items: &[Val<'a>], name: &str, wanted: Ordering) -> Outcome<'a> {
    let mut items = items.iter();
    let mut best = items.next().ok_or_else(|| error(format!("{name} called on empty list")))?;
    for item in items {
        if item.compare(best) == Some(wanted) {
            best = item;
        }
    }
    Ok(best.clone())
}

fn sum<'a>(items: &[Val<'a>]) -> Outcome<'a> {
    let overflow = || error("integer overflow");
    let Some(first) = items.first() else { return Ok(Val::Int(0)) };
    items[1..].iter().try_fold(first.clone(), |total, item| match (total, item) {
        (Val::Int(a), Val::Int(b)) => a.checked_add(*b).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(a), Val::Uint(b)) => a.checked_add(*b).map(Val::Uint).ok_or_else(overflow),
        (Val::Double(a), Val::Double(b)) => Ok(Val::Double(a + b)),
        (Val::Duration(a), Val::Duration(b)) => a.checked_add(*b).map(Val::Duration).ok_or_else(overflow),
        _ => Err(super::calls::no_overload()),
    })
}
