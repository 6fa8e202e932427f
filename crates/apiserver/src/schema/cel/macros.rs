//! Comprehensions over index or key and value together: `list.all(i, v, …)`, `map.transformList(k, v, …)`.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators};
use cel::parser::{Macro, MacroExprHelper};
use cel::{Env, ParseError};

/// The function `transformMap` builds its result with; its name cannot be written in an expression.
pub(super) const MAP_INSERT: &str = "cel.@mapInsert";

const RESULT: &str = "@result";

/// The language: its standard macros and ours.
pub(super) fn language() -> Env {
    let mut env = Env::stdlib();
    let table: [(&str, usize, Kind); 10] = [
        ("all", 3, Kind::All),
        ("exists", 3, Kind::Exists),
        ("existsOne", 3, Kind::ExistsOne),
        ("exists_one", 3, Kind::ExistsOne),
        ("transformList", 3, Kind::List),
        ("transformList", 4, Kind::List),
        ("transformMap", 3, Kind::Map),
        ("transformMap", 4, Kind::Map),
        ("transformMapEntry", 3, Kind::Entry),
        ("transformMapEntry", 4, Kind::Entry),
    ];
    for (name, count, kind) in table {
        let made = Macro::receiver(name, count, move |helper, target, args| expand(kind, helper, target, args));
        env.add_macro(made).expect("the standard macros of these names have two arguments");
    }
    env
}

#[derive(Clone, Copy)]
enum Kind {
    All,
    Exists,
    ExistsOne,
    List,
    Map,
    Entry,
}

/// Makes the nodes of an expansion.
struct Nodes<'h, 'p>(&'h mut MacroExprHelper<'p>);

impl Nodes<'_, '_> {
    fn call(&mut self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.0.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
    }

    fn ident(&mut self, name: &str) -> IdedExpr {
        self.0.next_expr(Expr::Ident(name.to_owned()))
    }

    fn result(&mut self) -> IdedExpr {
        self.ident(RESULT)
    }

    fn bool(&mut self, value: bool) -> IdedExpr {
        self.0.next_expr(Expr::Literal(LiteralValue::Boolean(value.into())))
    }

    fn int(&mut self, value: i64) -> IdedExpr {
        self.0.next_expr(Expr::Literal(LiteralValue::Int(value.into())))
    }

    fn name(&self, arg: &IdedExpr) -> Result<String, ParseError> {
        match &arg.expr {
            Expr::Ident(name) if name == RESULT || name == "__result__" => {
                Err(self.0.new_error(arg.id, "iteration variable overwrites accumulator variable"))
            }
            Expr::Ident(name) => Ok(name.clone()),
            _ => Err(self.0.new_error(arg.id, "argument must be a simple name")),
        }
    }
}

fn expand(
    kind: Kind,
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> Result<Option<IdedExpr>, ParseError> {
    let mut nodes = Nodes(helper);
    let [first, second, ..] = args.as_slice() else { return Ok(None) };
    let (key, value) = (nodes.name(first)?, nodes.name(second)?);
    if key == value {
        return Err(nodes.0.new_error(second.id, format!("duplicate variable name: {key}")));
    }
    let (Some(range), Some(body)) = (target.take(), args.pop()) else { return Ok(None) };
    let filter = if args.len() > 2 { args.pop() } else { None };
    let (init, condition, step, result) = parts(kind, &mut nodes, &key, body);
    let step = match filter {
        Some(filter) => {
            let kept = nodes.result();
            nodes.call(operators::CONDITIONAL, vec![filter, step, kept])
        }
        None => step,
    };
    Ok(Some(nodes.0.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: range,
        iter_var: key,
        iter_var2: Some(value),
        accu_var: RESULT.to_owned(),
        accu_init: init,
        loop_cond: condition,
        loop_step: step,
        result,
    })))))
}

/// What is begun with, whether to go on, what is done with each pair, and what comes of it.
fn parts(kind: Kind, nodes: &mut Nodes<'_, '_>, key: &str, body: IdedExpr) -> (IdedExpr, IdedExpr, IdedExpr, IdedExpr) {
    let so_far = nodes.result();
    let result = nodes.result();
    let on = nodes.bool(true);
    match kind {
        Kind::All => {
            let condition = nodes.result();
            let condition = nodes.call(operators::NOT_STRICTLY_FALSE, vec![condition]);
            (on, condition, nodes.call(operators::LOGICAL_AND, vec![so_far, body]), result)
        }
        Kind::Exists => {
            let condition = nodes.result();
            let condition = nodes.call(operators::LOGICAL_NOT, vec![condition]);
            let condition = nodes.call(operators::NOT_STRICTLY_FALSE, vec![condition]);
            (nodes.bool(false), condition, nodes.call(operators::LOGICAL_OR, vec![so_far, body]), result)
        }
        Kind::ExistsOne => {
            let (one, kept) = (nodes.int(1), nodes.result());
            let more = nodes.call(operators::ADD, vec![so_far, one]);
            let step = nodes.call(operators::CONDITIONAL, vec![body, more, kept]);
            let one = nodes.int(1);
            (nodes.int(0), on, step, nodes.call(operators::EQUALS, vec![result, one]))
        }
        Kind::List => {
            let added = nodes.0.next_expr(Expr::List(ListExpr::new(vec![body])));
            let empty = nodes.0.next_expr(Expr::List(ListExpr::new(Vec::new())));
            (empty, on, nodes.call(operators::ADD, vec![so_far, added]), result)
        }
        Kind::Map | Kind::Entry => {
            let mut args = vec![so_far];
            if matches!(kind, Kind::Map) {
                args.push(nodes.ident(key));
            }
            args.push(body);
            let empty = nodes.0.next_expr(Expr::Map(MapExpr::default()));
            (empty, on, nodes.call(MAP_INSERT, args), result)
        }
    }
}
