//! Sprig's functions: those that do not read the environment, draw randomness or make keys.

mod convert;
mod dates;
mod lists;
mod numbers;
mod texts;

use expr::{Environment, Error, Value};

type Outcome = Result<Value, Error>;

pub(super) fn add(environment: &mut Environment<'static>) {
    texts::add(environment);
    numbers::add(environment);
    lists::add(environment);
    convert::add(environment);
    dates::add(environment);
}

/// Adds a function, also under its other names.
fn define(environment: &mut Environment<'static>, names: &[&str], function: fn(&[Value]) -> Outcome) {
    for name in names {
        environment.add_function(&format!("sprig_{name}"), move |call| function(&call.args));
    }
}

/// Whether Sprig takes a value for empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::Bool(truth) => !truth,
        Value::Integer(number) => *number == 0,
        Value::Float(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Map(fields) => fields.is_empty(),
        Value::KeyedMap(pairs) => pairs.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::DateTime(_) | Value::Duration(_) | Value::Timezone(_) | Value::Month(_) | Value::Weekday(_) => false,
    }
}

/// A value as text, as Go's `%v` prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::Nil => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(" ")),
        Value::Map(fields) => {
            let mut pairs: Vec<String> = fields.iter().map(|(key, value)| format!("{key}:{}", shown(value))).collect();
            pairs.sort();
            format!("map[{}]", pairs.join(" "))
        }
        Value::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}
