//! Paths that may only go through fields, judged against the schema they are to lead through.

use crate::field::{FieldError, Path};
use crate::schema::node::Schema;

/// What is wrong with a path where only a simple one is allowed.
pub(crate) fn simple_errors(text: &str, path: &Path) -> Vec<FieldError> {
    if text.is_empty() {
        return vec![FieldError::invalid(path, text, "must not be empty")];
    }
    if !text.starts_with('.') {
        return vec![FieldError::invalid(path, text, "must be a simple json path starting with .")];
    }
    Vec::new()
}

/// Follows a field path such as `.spec.a['b c']` through a schema: where it leads, and the path in Kubernetes' notation.
pub(crate) fn field_path(text: &str, schema: &Schema, brackets: bool) -> Result<(Path, Schema), String> {
    let mut path = Path::root();
    let mut node = schema.clone();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, tail) = if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let end = closing(after).ok_or("unexpected end of JSON path")?;
            let inside = &after[..end];
            let quoted = inside.len() >= 2 && inside.starts_with('\'') && inside.ends_with('\'');
            let name = unquote(inside).filter(|_| quoted);
            (name.ok_or_else(|| format!("expected single quoted string but got {inside}"))?, &after[end + 1..])
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 && after.is_empty() {
                return Err("unexpected end of JSON path".to_owned());
            }
            (after[..end].to_owned(), &after[end..])
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        };
        let declared = |name: &str| {
            let own = node.rules.as_ref().and_then(|rules| rules.declared.get(name));
            match own {
                Some(own) => Some(Schema::clone(own)),
                None if node.embedded_resource && crate::schema::custom::META_FIELDS.contains(&name) => None,
                None => node.properties.get(name).map(|link| Schema::clone(&link.get())),
            }
        };
        let next = if node.properties.is_empty() {
            path = path.key(&name);
            node.additional.as_ref().map(|link| Schema::clone(&link.get()))
        } else {
            path = path.child(&name);
            declared(&name)
        };
        node = next.ok_or("does not refer to a valid field")?;
        rest = tail;
    }
    Ok((path, node))
}

/// Where the bracket that is open ends, quotes and inner brackets aside.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (Some(_) | None, _) => {}
        }
    }
    None
}

fn unquote(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next()? } else { c });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_through_the_schema() {
        let schema = crate::schema::custom(&json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {
                "a b": {"type": "string"},
                "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
        }}}));
        let check = |text: &str, brackets: bool, expected: Result<&str, &str>| {
            let got = field_path(text, &schema, brackets).map(|(path, _)| path.as_str().to_owned());
            assert_eq!(got.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check(".spec.labels.x", false, Ok("spec.labels[x]"));
        check(".spec['a b']", true, Ok("spec.a b"));
        check(".spec['a b']", false, Err("array notation is not allowed"));
        check(".spec[0]", true, Err("expected single quoted string but got 0"));
        check(".spec.none", false, Err("does not refer to a valid field"));
        check("spec", false, Err("expected [ or . but got: spec"));
        check(".spec[", true, Err("unexpected end of JSON path"));
        check(".", false, Err("unexpected end of JSON path"));
    }
}
