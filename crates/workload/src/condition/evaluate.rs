//! From a tree to a value.

use std::cmp::Ordering;
use std::fmt;

use super::parse::Node;
use crate::expression;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Nothing,
    Number(f64),
    Text(String),
    Bool(bool),
    List(Vec<Value>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("<nil>"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::List(values) => {
                let shown: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", shown.join(" "))
            }
        }
    }
}

pub(super) fn evaluate(node: &Node) -> Result<Value, String> {
    Ok(match node {
        Node::Number(number) => Value::Number(*number),
        Node::Text(text) => Value::Text(text.clone()),
        Node::Bool(truth) => Value::Bool(*truth),
        Node::List(nodes) => Value::List(nodes.iter().map(evaluate).collect::<Result<_, _>>()?),
        Node::Prefix(sign, operand) => prefix(*sign, evaluate(operand)?)?,
        Node::Binary(sign @ ("&&" | "||"), left, right) => logical(sign, left, right)?,
        Node::Binary(sign, left, right) => binary(sign, &evaluate(left)?, &evaluate(right)?)?,
        Node::Choice(condition, chosen, other) => match evaluate(condition)? {
            Value::Bool(true) => evaluate(chosen)?,
            Value::Bool(false) => other.as_ref().map_or(Ok(Value::Nothing), |other| evaluate(other))?,
            value => {
                return Err(format!("Value '{value}' cannot be used with the ternary operator '?', it is not a bool"));
            }
        },
    })
}

fn prefix(sign: char, value: Value) -> Result<Value, String> {
    match (sign, value) {
        ('!', Value::Bool(truth)) => Ok(Value::Bool(!truth)),
        ('-', Value::Number(number)) => Ok(Value::Number(-number)),
        ('~', Value::Number(number)) => Ok(Value::Number(float(!whole(number)))),
        (sign, value) => Err(format!("Value '{value}' cannot be used with the prefix '{sign}'")),
    }
}

fn logical(sign: &str, left: &Node, right: &Node) -> Result<Value, String> {
    let truth = |node: &Node| match evaluate(node)? {
        Value::Bool(truth) => Ok(truth),
        value => Err(format!("Value '{value}' cannot be used with the logical operator '{sign}', it is not a bool")),
    };
    let left = truth(left)?;
    if left == (sign == "||") {
        return Ok(Value::Bool(left));
    }
    truth(right).map(Value::Bool)
}

fn binary(sign: &str, left: &Value, right: &Value) -> Result<Value, String> {
    match sign {
        "==" => return Ok(Value::Bool(left == right)),
        "!=" => return Ok(Value::Bool(left != right)),
        "in" => {
            let Value::List(values) = right else {
                return Err(format!("Value '{right}' cannot be used with the comparator 'in', it is not an array"));
            };
            return Ok(Value::Bool(values.contains(left)));
        }
        "=~" | "!~" => {
            let (Value::Text(text), Value::Text(pattern)) = (left, right) else {
                return Err(format!("Value '{left}' cannot be used with the comparator '{sign}', it is not a string"));
            };
            return Ok(Value::Bool(expression::matches(text, pattern)? == (sign == "=~")));
        }
        ">" | "<" | ">=" | "<=" => return compared(sign, left, right).map(Value::Bool),
        "+" if matches!(left, Value::Text(_)) || matches!(right, Value::Text(_)) => {
            return Ok(Value::Text(format!("{left}{right}")));
        }
        _ => {}
    }
    let number = |value: &Value| match value {
        Value::Number(number) => Ok(*number),
        value => Err(format!("Value '{value}' cannot be used with the modifier '{sign}', it is not a number")),
    };
    let (left, right) = (number(left)?, number(right)?);
    Ok(Value::Number(match sign {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => left / right,
        "%" => left % right,
        "**" => left.powf(right),
        "&" => float(whole(left) & whole(right)),
        "|" => float(whole(left) | whole(right)),
        "^" => float(whole(left) ^ whole(right)),
        "<<" => float(whole(left).checked_shl(shift(right)).unwrap_or(0)),
        ">>" => float(whole(left).checked_shr(shift(right)).unwrap_or(0)),
        sign => return Err(format!("unknown operator '{sign}'")),
    }))
}

fn compared(sign: &str, left: &Value, right: &Value) -> Result<bool, String> {
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.partial_cmp(right),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        _ => return Err(format!("Value '{left}' cannot be used with the comparator '{sign}', it is not a number")),
    };
    Ok(order.is_some_and(|order| match sign {
        ">" => order == Ordering::Greater,
        "<" => order == Ordering::Less,
        ">=" => order != Ordering::Less,
        _ => order != Ordering::Greater,
    }))
}

#[expect(clippy::cast_possible_truncation, reason = "bits of a float are those of its whole part, saturating")]
fn whole(number: f64) -> i64 {
    number as i64
}

#[expect(clippy::cast_precision_loss, reason = "every number of this grammar is a float")]
fn float(number: i64) -> f64 {
    number as f64
}

fn shift(number: f64) -> u32 {
    u32::try_from(whole(number)).unwrap_or(64)
}
