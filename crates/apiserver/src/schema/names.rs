//! What Kubernetes accepts as a name, with its explanations of what is wrong.

/// What is wrong with a DNS-1035 label.
pub fn label_1035(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 63);
    let starts = value.starts_with(|c: char| c.is_ascii_lowercase());
    if !(starts && is_label(value)) {
        errors.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

/// What is wrong with an RFC 1123 label.
pub fn label_1123(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 63);
    if !is_label(value) {
        errors.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

/// What is wrong with an RFC 1123 subdomain.
pub fn subdomain(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 253);
    if !value.split('.').all(is_label) {
        errors.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    errors
}

/// What is wrong with a name that becomes one segment of a path.
pub fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    ['/', '%'].iter().filter(|c| value.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// What is wrong with a label or annotation key.
pub fn qualified(value: &str) -> Vec<String> {
    const RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                        validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let parts = value.split('/').collect::<Vec<_>>();
    let mut errors = Vec::new();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain(prefix).into_iter().map(|why| format!("prefix part {why}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified_part(name) {
        errors.push(format!("name part {RULE}"));
    }
    errors
}

/// What is wrong with a label value.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 63);
    if !value.is_empty() && !is_qualified_part(value) {
        errors.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

/// Lower-case letters, digits and inner dashes.
pub fn is_label(value: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    ends(value.chars().next())
        && ends(value.chars().next_back())
        && value.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_qualified_part(value: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    ends(value.chars().next())
        && ends(value.chars().next_back())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn too_long(value: &str, limit: usize) -> Vec<String> {
    if value.len() > limit { vec![format!("must be no more than {limit} bytes")] } else { Vec::new() }
}
