//! Numbers.

use expr::{Environment, Error, Value};

use super::super::functions::{MADE_MAX, arg, failed, one};
use super::define;

pub(super) fn add(environment: &mut Environment<'static>) {
    define(environment, &["int", "int64"], |args| Ok(Value::Integer(whole(one(args)?))));
    define(environment, &["float64"], |args| Ok(Value::Float(real(one(args)?))));
    define(environment, &["atoi"], |args| {
        Ok(Value::Integer(one(args)?.as_string().and_then(|text| text.parse().ok()).unwrap_or(0)))
    });
    define(environment, &["toDecimal"], |args| {
        Ok(Value::Integer(one(args)?.as_string().and_then(|text| i64::from_str_radix(text, 8).ok()).unwrap_or(0)))
    });
    define(environment, &["add"], |args| Ok(Value::Integer(args.iter().map(whole).fold(0, i64::wrapping_add))));
    define(environment, &["add1"], |args| Ok(Value::Integer(whole(one(args)?).wrapping_add(1))));
    define(environment, &["sub"], |args| two(args, |a, b| Some(a.wrapping_sub(b))));
    define(environment, &["mul"], |args| Ok(Value::Integer(args.iter().map(whole).fold(1, i64::wrapping_mul))));
    define(environment, &["div"], |args| two(args, i64::checked_div));
    define(environment, &["mod"], |args| two(args, i64::checked_rem));
    define(environment, &["max", "biggest"], |args| Ok(Value::Integer(args.iter().map(whole).max().unwrap_or(0))));
    define(environment, &["min"], |args| Ok(Value::Integer(args.iter().map(whole).min().unwrap_or(0))));
    define(environment, &["addf"], |args| Ok(Value::Float(args.iter().map(real).sum())));
    define(environment, &["subf"], |args| {
        let rest: f64 = args.iter().skip(1).map(real).sum();
        Ok(Value::Float(real(one(args)?) - rest))
    });
    define(environment, &["mulf"], |args| Ok(Value::Float(args.iter().map(real).product())));
    define(environment, &["divf"], |args| {
        Ok(Value::Float(args.iter().skip(1).map(real).fold(real(one(args)?), |left, right| left / right)))
    });
    define(environment, &["maxf"], |args| Ok(Value::Float(args.iter().map(real).fold(f64::MIN, f64::max))));
    define(environment, &["minf"], |args| Ok(Value::Float(args.iter().map(real).fold(f64::MAX, f64::min))));
    define(environment, &["ceil"], |args| Ok(Value::Float(real(one(args)?).ceil())));
    define(environment, &["floor"], |args| Ok(Value::Float(real(one(args)?).floor())));
    define(environment, &["round"], |args| {
        let places = i32::try_from(whole(arg(args, 1)?)).unwrap_or(0).clamp(-300, 300);
        let scale = 10f64.powi(places);
        Ok(Value::Float((real(one(args)?) * scale).round() / scale))
    });
    define(environment, &["until"], |args| {
        let end = whole(one(args)?);
        range(0, end, if end < 0 { -1 } else { 1 })
    });
    define(environment, &["untilStep"], |args| range(whole(one(args)?), whole(arg(args, 1)?), whole(arg(args, 2)?)));
    define(environment, &["seq"], |args| {
        let numbers: Vec<i64> = args.iter().map(whole).collect();
        let (start, step, end) = match numbers[..] {
            [end] => (1, if end < 1 { -1 } else { 1 }, end),
            [start, end] => (start, if end < start { -1 } else { 1 }, end),
            [start, step, end] => (start, step, end),
            _ => return Ok(Value::String(String::new())),
        };
        let values = range(start, end.saturating_add(step.signum()), step)?;
        let shown: Vec<String> = values.as_array().unwrap_or_default().iter().map(super::shown).collect();
        Ok(Value::String(shown.join(" ")))
    });
}

fn range(start: i64, end: i64, step: i64) -> Result<Value, Error> {
    if step == 0 || (step > 0) != (start < end) {
        return Ok(Value::Array(Vec::new()));
    }
    let count = start.abs_diff(end).div_ceil(step.unsigned_abs());
    if count > MADE_MAX as u64 {
        return Err(failed(&"the range is too large"));
    }
    Ok(Value::Array(
        (0..i64::try_from(count).unwrap_or(0))
            .map(|n| Value::Integer(start.wrapping_add(n.wrapping_mul(step))))
            .collect(),
    ))
}

fn two(args: &[Value], operation: fn(i64, i64) -> Option<i64>) -> Result<Value, Error> {
    operation(whole(one(args)?), whole(arg(args, 1)?))
        .map(Value::Integer)
        .ok_or_else(|| failed(&"integer divide by zero"))
}

/// A whole number, loosely: 0 where it is none.
#[expect(clippy::cast_possible_truncation, reason = "Sprig cuts off what does not fit")]
fn whole(value: &Value) -> i64 {
    match value {
        Value::Integer(number) | Value::Duration(number) => *number,
        Value::Float(number) => *number as i64,
        Value::Bool(truth) => i64::from(*truth),
        Value::String(text) => text.parse().or_else(|_| text.parse::<f64>().map(|number| number as i64)).unwrap_or(0),
        _ => 0,
    }
}

/// A number, loosely: 0 where it is none.
#[expect(clippy::cast_precision_loss, reason = "Sprig's floats")]
fn real(value: &Value) -> f64 {
    match value {
        Value::Float(number) => *number,
        Value::String(text) => text.parse().unwrap_or(0.0),
        value => whole(value) as f64,
    }
}
