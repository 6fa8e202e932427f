//! Times, in Go's layouts.

use expr::{Environment, Value};

use super::super::functions::{arg, failed, one, text};
use super::define;

/// Go's reference time by its parts, longest first where one begins another.
const LAYOUT: [(&str, &str); 26] = [
    ("January", "%B"),
    ("Monday", "%A"),
    ("2006", "%Y"),
    ("Jan", "%b"),
    ("Mon", "%a"),
    ("MST", "%Z"),
    ("Z07:00", "%:z"),
    ("-07:00", "%:z"),
    ("Z0700", "%z"),
    ("-0700", "%z"),
    (".000000000", "%.9f"),
    (".000000", "%.6f"),
    (".000", "%.3f"),
    ("002", "%j"),
    ("01", "%m"),
    ("02", "%d"),
    ("03", "%I"),
    ("04", "%M"),
    ("05", "%S"),
    ("06", "%y"),
    ("15", "%H"),
    ("_2", "%e"),
    ("PM", "%p"),
    ("1", "%-m"),
    ("2", "%-d"),
    ("3", "%-I"),
];

pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_function("sprig_now", |call| call.env.eval_func(call.ctx, "now", Vec::new(), None));
    environment.add_function("sprig_toDate", |call| {
        let args = vec![arg(&call.args, 1)?.clone(), arg(&call.args, 0)?.clone()];
        call.env.eval_func(call.ctx, "date", args, None)
    });
    define(environment, &["date"], |args| {
        let time = arg(args, 1)?.as_datetime().ok_or_else(|| failed(&"argument 2 must be a time"))?;
        Ok(Value::String(time.format(&layout(text(args, 0)?)).to_string()))
    });
    define(environment, &["unixEpoch"], |args| {
        let time = one(args)?.as_datetime().ok_or_else(|| failed(&"argument 1 must be a time"))?;
        Ok(Value::String(time.timestamp().to_string()))
    });
}

fn layout(go: &str) -> String {
    let (mut out, mut rest) = (String::new(), go);
    'outer: while let Some(first) = rest.chars().next() {
        for (part, format) in LAYOUT {
            if let Some(after) = rest.strip_prefix(part) {
                out.push_str(format);
                rest = after;
                continue 'outer;
            }
        }
        if first == '%' {
            out.push('%');
        }
        out.push(first);
        rest = &rest[first.len_utf8()..];
    }
    out
}
