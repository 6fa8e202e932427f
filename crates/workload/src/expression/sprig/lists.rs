//! Lists and maps.

use expr::{Environment, Error, Value};

use super::super::functions::{arg, failed, integer, one, text};
use super::{define, is_empty, shown};

pub(super) fn add(environment: &mut Environment<'static>) {
    taking(environment);
    changing(environment);
    maps(environment);
}

fn list(args: &[Value], index: usize) -> Result<&[Value], Error> {
    arg(args, index)?.as_array().ok_or_else(|| failed(&format!("argument {} must be a list", index + 1)))
}

fn taking(environment: &mut Environment<'static>) {
    define(environment, &["list", "tuple"], |args| Ok(Value::Array(args.to_vec())));
    define(environment, &["first", "mustFirst"], |args| Ok(list(args, 0)?.first().cloned().unwrap_or_default()));
    define(environment, &["last", "mustLast"], |args| Ok(list(args, 0)?.last().cloned().unwrap_or_default()));
    define(environment, &["rest", "mustRest"], |args| {
        Ok(Value::Array(list(args, 0)?.get(1..).unwrap_or_default().to_vec()))
    });
    define(environment, &["initial", "mustInitial"], |args| {
        let values = list(args, 0)?;
        Ok(Value::Array(values[..values.len().saturating_sub(1)].to_vec()))
    });
    define(environment, &["slice", "mustSlice"], |args| {
        let values = list(args, 0)?;
        let bound = |index: usize, absent: usize| {
            if index < args.len() {
                integer(args, index).map(|at| usize::try_from(at).unwrap_or(0))
            } else {
                Ok(absent)
            }
        };
        let (start, end) = (bound(1, 0)?, bound(2, values.len())?);
        Ok(Value::Array(values.get(start..end).unwrap_or_default().to_vec()))
    });
    define(environment, &["has", "mustHas"], |args| Ok(Value::Bool(list(args, 1)?.contains(one(args)?))));
    define(environment, &["without", "mustWithout"], |args| {
        let gone = args.get(1..).unwrap_or_default();
        Ok(Value::Array(list(args, 0)?.iter().filter(|value| !gone.contains(value)).cloned().collect()))
    });
    define(environment, &["compact", "mustCompact"], |args| {
        Ok(Value::Array(list(args, 0)?.iter().filter(|value| !is_empty(value)).cloned().collect()))
    });
    define(environment, &["uniq", "mustUniq"], |args| {
        let mut kept: Vec<Value> = Vec::new();
        for value in list(args, 0)? {
            if !kept.contains(value) {
                kept.push(value.clone());
            }
        }
        Ok(Value::Array(kept))
    });
}

fn changing(environment: &mut Environment<'static>) {
    define(environment, &["append", "mustAppend", "push"], |args| {
        let mut values = list(args, 0)?.to_vec();
        values.push(arg(args, 1)?.clone());
        Ok(Value::Array(values))
    });
    define(environment, &["prepend", "mustPrepend"], |args| {
        let mut values = list(args, 0)?.to_vec();
        values.insert(0, arg(args, 1)?.clone());
        Ok(Value::Array(values))
    });
    define(environment, &["concat"], |args| {
        let lists: Result<Vec<&[Value]>, Error> = (0..args.len()).map(|index| list(args, index)).collect();
        Ok(Value::Array(lists?.concat()))
    });
    define(environment, &["reverse", "mustReverse"], |args| {
        Ok(Value::Array(list(args, 0)?.iter().rev().cloned().collect()))
    });
    define(environment, &["sortAlpha"], |args| {
        let mut texts: Vec<String> = list(args, 0)?.iter().map(shown).collect();
        texts.sort();
        Ok(Value::Array(texts.into_iter().map(Value::String).collect()))
    });
    define(environment, &["toStrings"], |args| {
        Ok(Value::Array(list(args, 0)?.iter().map(|value| Value::String(shown(value))).collect()))
    });
}

fn maps(environment: &mut Environment<'static>) {
    define(environment, &["dict"], |args| {
        let absent = || Value::String(String::new());
        Ok(args.chunks(2).map(|pair| (shown(&pair[0]), pair.get(1).cloned().unwrap_or_else(absent))).collect())
    });
    define(environment, &["get"], |args| {
        let wanted = text(args, 1)?;
        let found = fields(args, 0)?.into_iter().find(|(key, _)| key == wanted);
        Ok(found.map_or(Value::String(String::new()), |(_, value)| value))
    });
    define(environment, &["hasKey"], |args| {
        let wanted = text(args, 1)?;
        Ok(Value::Bool(fields(args, 0)?.iter().any(|(key, _)| key == wanted)))
    });
    define(environment, &["keys"], |args| {
        Ok(Value::Array(fields(args, 0)?.into_iter().map(|(key, _)| Value::String(key)).collect()))
    });
    define(environment, &["values"], |args| {
        Ok(Value::Array(fields(args, 0)?.into_iter().map(|(_, value)| value).collect()))
    });
    define(environment, &["pick"], |args| {
        let wanted = args.get(1..).unwrap_or_default();
        let has = |key: &str| wanted.iter().any(|name| name.as_string() == Some(key));
        Ok(fields(args, 0)?.into_iter().filter(|(key, _)| has(key)).collect())
    });
    define(environment, &["omit"], |args| {
        let gone = args.get(1..).unwrap_or_default();
        let has = |key: &str| gone.iter().any(|name| name.as_string() == Some(key));
        Ok(fields(args, 0)?.into_iter().filter(|(key, _)| !has(key)).collect())
    });
    define(environment, &["merge", "mustMerge"], |args| {
        let mut merged = fields(args, 0)?;
        for index in 1..args.len() {
            for (key, value) in fields(args, index)? {
                if !merged.iter().any(|(known, _)| *known == key) {
                    merged.push((key, value));
                }
            }
        }
        Ok(merged.into_iter().collect())
    });
    define(environment, &["dig"], |args| {
        let [path @ .., absent, Value::Map(fields)] = args else {
            return Err(failed(&"dig needs a path, a default and a map"));
        };
        let mut found: Option<&Value> = None;
        let mut at = Some(fields);
        for name in path {
            found = at.and_then(|fields| fields.get(name.as_string().unwrap_or_default()));
            at = found.and_then(Value::as_map);
        }
        Ok(found.unwrap_or(absent).clone())
    });
}

fn fields(args: &[Value], index: usize) -> Result<Vec<(String, Value)>, Error> {
    let map = arg(args, index)?.as_map().ok_or_else(|| failed(&format!("argument {} must be a map", index + 1)))?;
    Ok(map.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
}
