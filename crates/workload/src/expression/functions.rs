//! Argo's own functions, and those of the language that need a bound.

use expr::{Environment, Error, Value};

use super::{json, jsonpath};

/// Texts and lists that an expression makes are never larger.
pub(super) const MADE_MAX: usize = 1 << 20;

pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_function("asInt", |call| call.env.eval_func(call.ctx, "int", call.args, None));
    environment.add_function("asFloat", |call| call.env.eval_func(call.ctx, "float", call.args, None));
    environment.add_function("toJson", |call| Ok(Value::String(json::into(one(&call.args)?).to_string())));
    environment.add_function("toJSON", |call| {
        serde_json::to_string_pretty(&json::into(one(&call.args)?)).map(Value::String).map_err(|error| failed(&error))
    });
    environment.add_function("fromJSON", |call| decode(text(&call.args, 0)?));
    environment.add_function("jsonpath", |call| {
        let document: serde_json::Value = serde_json::from_str(text(&call.args, 0)?).map_err(|error| failed(&error))?;
        let found = jsonpath::query(text(&call.args, 1)?, &document).map_err(|error| failed(&error))?;
        Ok(json::from_decoded(&found))
    });
    environment.add_function("repeat", |call| repeat(text(&call.args, 0)?, integer(&call.args, 1)?));
    environment.add_function("map__", |call| {
        let key = |value: &Value| value.as_string().map(str::to_owned).ok_or_else(|| failed(&"a key must be a string"));
        call.args
            .chunks(2)
            .map(|pair| Ok((key(&pair[0])?, arg(pair, 1)?.clone())))
            .collect::<Result<Vec<_>, Error>>()
            .map(|pairs| pairs.into_iter().collect())
    });
    environment.add_function("range__", |call| {
        let (start, end) = (integer(&call.args, 0)?, integer(&call.args, 1)?);
        if start <= end && start.abs_diff(end) >= MADE_MAX as u64 {
            return Err(failed(&"the range is too large"));
        }
        Ok(Value::Array((start..=end).map(Value::Integer).collect()))
    });
}

pub(super) fn decode(text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map(|value| json::from_decoded(&value)).map_err(|error| failed(&error))
}

pub(super) fn repeat(text: &str, times: i64) -> Result<Value, Error> {
    let times = usize::try_from(times).unwrap_or(0);
    if text.len().saturating_mul(times) > MADE_MAX {
        return Err(failed(&"the text is too large"));
    }
    Ok(Value::String(text.repeat(times)))
}

pub(super) fn failed(reason: &dyn std::fmt::Display) -> Error {
    Error::ExprError(reason.to_string())
}

pub(super) fn one(args: &[Value]) -> Result<&Value, Error> {
    arg(args, 0)
}

pub(super) fn arg(args: &[Value], index: usize) -> Result<&Value, Error> {
    args.get(index).ok_or_else(|| failed(&"not enough arguments to call"))
}

pub(super) fn text(args: &[Value], index: usize) -> Result<&str, Error> {
    arg(args, index)?.as_string().ok_or_else(|| failed(&format!("argument {} must be a string", index + 1)))
}

pub(super) fn integer(args: &[Value], index: usize) -> Result<i64, Error> {
    arg(args, index)?.as_integer().ok_or_else(|| failed(&format!("argument {} must be an integer", index + 1)))
}
