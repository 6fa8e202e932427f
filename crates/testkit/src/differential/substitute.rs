//! `${name}` in scripts.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The largest text that `${repeat:…}` may make.
const REPEAT_LIMIT: usize = 16 << 20;

/// Replaces `${name}` by the saved value and `${repeat:TEXT:COUNT}` by the repeated text.
pub(super) fn text(template: &str, saved: &BTreeMap<String, String>) -> Result<String> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        let end = start + rest[start..].find('}').with_context(|| format!("unclosed ${{ in {rest:?}"))?;
        let name = &rest[start + 2..end];
        match name.strip_prefix("repeat:") {
            Some(what) => out.push_str(&repeated(what)?),
            None => out.push_str(saved.get(name).with_context(|| format!("nothing is saved as {name:?}"))?),
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn repeated(what: &str) -> Result<String> {
    let (unit, count) = what.rsplit_once(':').context("repeat needs TEXT:COUNT")?;
    let count: usize = count.parse().context("repeat needs a number")?;
    if unit.len().saturating_mul(count) > REPEAT_LIMIT {
        bail!("repeat makes more than {REPEAT_LIMIT} bytes");
    }
    Ok(unit.repeat(count))
}

/// Replaces within all strings and keys of a value.
pub(super) fn value(template: &Value, saved: &BTreeMap<String, String>) -> Result<Value> {
    Ok(match template {
        Value::String(string) => Value::String(text(string, saved)?),
        Value::Array(items) => Value::Array(items.iter().map(|item| value(item, saved)).collect::<Result<_>>()?),
        Value::Object(fields) => Value::Object(
            fields.iter().map(|(key, field)| Ok((text(key, saved)?, value(field, saved)?))).collect::<Result<_>>()?,
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_saved_and_repeated() {
        let saved = BTreeMap::from([("ns".to_owned(), "red".to_owned())]);
        assert_eq!(text("/a/${ns}/b${repeat:xy:2}", &saved).unwrap(), "/a/red/bxyxy");
        assert_eq!(text("plain $ {ns}", &saved).unwrap(), "plain $ {ns}");
        assert!(text("${other}", &saved).is_err());
        assert!(text("${ns", &saved).is_err());
        assert!(text("${repeat:x:99999999}", &saved).is_err());
    }
}
