//! Names, and texts that stand for one.

use std::collections::HashSet;

/// What stands for a value that is not known yet.
pub(super) const PLACEHOLDER: &str = "__argo__internal__placeholder-";

const FIELD_MAX: usize = 128;

/// Whether names are there, valid and unique.
pub(super) fn fields<'a>(names: impl Iterator<Item = &'a str>, check: fn(&str) -> Vec<String>) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (index, name) in names.enumerate() {
        if name.is_empty() {
            return Err(format!("[{index}].name is required"));
        }
        let errors = check(name);
        if !errors.is_empty() {
            return Err(format!("[{index}].name: '{name}' is invalid: {}", errors.join(";")));
        }
        if !seen.insert(name) {
            return Err(format!("[{index}].name '{name}' is not unique"));
        }
    }
    Ok(())
}

/// What is wrong with the name of a template or task.
pub(super) fn field(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > FIELD_MAX {
        errors.push(format!("must be no more than {FIELD_MAX} characters"));
    }
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(inner) {
        errors.push(
            "name must consist of alpha-numeric characters or '-', and must start with an alpha-numeric character (e.g. My-name1-2, 123-NAME)"
                .to_owned(),
        );
    }
    errors
}

/// What is wrong with the name of a step, in which values may stand that are not known yet.
pub(super) fn step(name: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once(PLACEHOLDER) {
        plain.push_str(before);
        plain.push('x');
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    plain.push_str(rest);
    field(&plain)
}

/// What is wrong with the name of a parameter or artifact.
pub(super) fn parameter(name: &str) -> Vec<String> {
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
        return Vec::new();
    }
    vec![
        "Parameter/Artifact name must consist of alpha-numeric characters, '_' or '-' e.g. my_param_1, MY-PARAM-1"
            .to_owned(),
    ]
}

/// Whether a text contains a variable.
pub(super) fn is_variable(text: &str) -> bool {
    let part = |part: &str, extra: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || extra.contains(c))
    };
    crate::template::tags(text).any(|tag| {
        let mut parts = tag.split('.');
        parts.next().is_some_and(|first| part(first, "")) && parts.all(|rest| part(rest, "_"))
    })
}

/// Whether a text stands for a value that is not known yet.
pub(super) fn is_placeholder(text: &str) -> bool {
    text.starts_with(PLACEHOLDER)
}
