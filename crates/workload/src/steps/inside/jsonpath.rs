//! kubectl's templates of paths: `{.status.phase}`, `{.items[0].metadata['name']}`, `{.spec.ports[*].port}`.

use serde_json::Value;

/// What a template makes of an object.
pub(super) fn render(template: &str, object: &Value) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    // kubectl takes a bare path as well.
    if !template.contains('{') {
        return Ok(shown(&find(template, object)?));
    }
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let (path, after) = after.split_once('}').ok_or_else(|| format!("unclosed action in {template:?}"))?;
        match path.trim() {
            text if text.len() >= 2 && text.starts_with('"') && text.ends_with('"') => {
                out.push_str(&text[1..text.len() - 1].replace("\\n", "\n").replace("\\t", "\t"));
            }
            path => out.push_str(&shown(&find(path, object)?)),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn shown(found: &[&Value]) -> String {
    let texts: Vec<String> = found
        .iter()
        .map(|value| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        })
        .collect();
    texts.join(" ")
}

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// Items whose field, as text, is this.
    Equal(String, String),
}

/// What a path leads to.
pub(super) fn find<'a>(path: &str, object: &'a Value) -> Result<Vec<&'a Value>, String> {
    let mut found = vec![object];
    for step in steps(path)? {
        let mut next = Vec::new();
        for value in found {
            match &step {
                Step::Field(name) => match value.get(name) {
                    Some(value) => next.push(value),
                    None => return Err(format!("{name} is not found")),
                },
                Step::Index(index) => {
                    let items = value.as_array().ok_or_else(|| format!("{path}: is no list"))?;
                    let at = if *index < 0 { index + i64::try_from(items.len()).unwrap_or(i64::MAX) } else { *index };
                    let item = usize::try_from(at).ok().and_then(|at| items.get(at));
                    next.push(item.ok_or_else(|| format!("array index out of bounds: index {index}"))?);
                }
                Step::All => match value {
                    Value::Array(items) => next.extend(items),
                    Value::Object(fields) => next.extend(fields.values()),
                    _ => {}
                },
                Step::Equal(field, wanted) => {
                    let is_it = |item: &&Value| find(field, item).is_ok_and(|found| shown(&found) == *wanted);
                    next.extend(value.as_array().into_iter().flatten().filter(is_it));
                }
            }
        }
        found = next;
    }
    Ok(found)
}

fn steps(path: &str) -> Result<Vec<Step>, String> {
    let wrong = || format!("{path:?} is no path that is understood");
    let mut steps = Vec::new();
    let mut rest = path.trim().trim_start_matches(['$', '@']);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = after.find(']').ok_or_else(wrong)?;
            let (inside, after) = (after[..end].trim(), &after[end + 1..]);
            steps.push(bracket(inside).ok_or_else(wrong)?);
            rest = after;
            continue;
        }
        let after = rest.strip_prefix('.').unwrap_or(rest);
        let mut name = String::new();
        let mut end = after.len();
        let mut is_quoted = false;
        for (at, character) in after.char_indices() {
            if is_quoted {
                name.push(character);
                is_quoted = false;
            } else if character == '\\' {
                is_quoted = true;
            } else if character == '.' || character == '[' {
                end = at;
                break;
            } else {
                name.push(character);
            }
        }
        if name.is_empty() && end < after.len() && !after[end..].starts_with('[') {
            return Err(wrong());
        }
        match name.as_str() {
            "" => {}
            "*" => steps.push(Step::All),
            _ => steps.push(Step::Field(name)),
        }
        rest = &after[end..];
    }
    Ok(steps)
}

fn bracket(inside: &str) -> Option<Step> {
    let plain = |text: &str| {
        let text = text.trim();
        let quoted = text.len() >= 2 && (text.starts_with('\'') || text.starts_with('"'));
        if quoted { text[1..text.len() - 1].to_owned() } else { text.to_owned() }
    };
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        let (field, value) = filter.split_once("==")?;
        return Some(Step::Equal(field.trim().to_owned(), plain(value)));
    }
    if inside.starts_with(['\'', '"']) {
        return Some(Step::Field(plain(inside)));
    }
    inside.parse().ok().map(Step::Index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_are_rendered() {
        let object = json!({"metadata": {"name": "n", "labels": {"a.b/c": "l"}}, "items": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
            "ok": true, "none": null, "deep": {"x": {"y": 1}}});
        let cases = [
            ("{.metadata.name}", "n"),
            (".metadata.name", "n"),
            ("{$.metadata.name}", "n"),
            ("{.metadata.labels['a.b/c']}", "l"),
            (r"{.metadata.labels.a\.b/c}", "l"),
            ("{.items[0].v}", "1"),
            ("{.items[-1].v}", "2"),
            ("{.items[*].v}", "1 2"),
            (r#"{.items[?(@.k=="b")].v}"#, "2"),
            ("{.ok}/{.none}", "true/"),
            (r#"a{"\n"}{.deep.x}"#, "a\n{\"y\":1}"),
            ("{.items[*].k}!", "a b!"),
        ];
        for (template, expected) in cases {
            assert_eq!(render(template, &object).as_deref(), Ok(expected), "{template}");
        }
        for wrong in ["{.nope}", "{.items[9]}", "{.ok", "{.metadata[0]}", "{.items[x]}", "{..name}"] {
            assert!(render(wrong, &object).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(template in ".{0,60}") {
            let _ = render(&template, &json!({"a": [1, {"b": 2}]}));
        }
    }
}
