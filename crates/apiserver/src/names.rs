//! What names, keys and label values may look like, explained in the words of Kubernetes 1.34.

/// Longest DNS subdomain.
pub(crate) const SUBDOMAIN_MAX: usize = 253;
/// Longest DNS label, label value and name part of a label key.
pub(crate) const LABEL_MAX: usize = 63;
/// Largest sum of the sizes of all annotation keys and values of one object.
pub(crate) const ANNOTATIONS_MAX: usize = 256 * 1024;

const QUALIFIED_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

/// What is wrong with a DNS-1123 label such as a namespace name.
pub(crate) fn dns_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, LABEL_MAX);
    if !is_label(value) {
        errors.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character",
                LABEL_FORMAT,
                &["my-name", "123-abc"],
            )
        });
    }
    errors
}

/// What is wrong with a DNS-1123 subdomain such as a `ConfigMap`'s name.
pub(crate) fn dns_subdomain(value: &str) -> Vec<String> {
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if !is_subdomain(value) {
        errors.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            SUBDOMAIN_FORMAT,
            &["example.com"],
        ));
    }
    errors
}

/// What is wrong with a domain to search for names in, which may have underscores.
pub(crate) fn dns_search(value: &str) -> Vec<String> {
    const LABEL: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        is_label(&part.replace('_', "-")) && !part.starts_with('_') && !part.ends_with('_')
    };
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if !value.split('.').all(is_part) {
        errors.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and \
             must start and end with an alphanumeric character",
            &format!("{LABEL}(\\.{LABEL})*"),
            &["example.com"],
        ));
    }
    errors
}

/// What is wrong with a DNS-1035 label.
pub(crate) fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, LABEL_MAX);
    if !is_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// What is wrong with a qualified name: a label or annotation key, a finalizer.
pub(crate) fn qualified_name(value: &str) -> Vec<String> {
    const EXPLANATION: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                               an alphanumeric character";
    const EXAMPLES: [&str; 3] = ["MyName", "my.name", "123-abc"];
    let parts = value.split('/').collect::<Vec<_>>();
    let mut errors = Vec::new();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(dns_subdomain(prefix).into_iter().map(|text| format!("prefix part {text}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                pattern(EXPLANATION, QUALIFIED_FORMAT, &EXAMPLES)
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", at_most(LABEL_MAX)));
    }
    if !is_name_part(name) {
        errors.push(format!("name part {}", pattern(EXPLANATION, QUALIFIED_FORMAT, &EXAMPLES)));
    }
    errors
}

/// What is wrong with a label's value.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut errors = too_long(value, LABEL_MAX);
    if !value.is_empty() && !is_name_part(value) {
        errors.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            &format!("({QUALIFIED_FORMAT})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// What is wrong with a name that only has to fit into a path, such as a Role's.
pub(crate) fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix {
        if name == "." {
            return vec!["may not be '.'".to_owned()];
        }
        if name == ".." {
            return vec!["may not be '..'".to_owned()];
        }
    }
    ["/", "%"].iter().filter(|part| name.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// What is wrong with a key of a `ConfigMap` or Secret.
pub(crate) fn config_key(value: &str) -> Vec<String> {
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')) {
        errors.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    errors.extend(leaves_directory(value));
    errors
}

/// What is wrong with the name of an environment variable.
pub(crate) fn env_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if value.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

/// What is wrong with the name of a port.
pub(crate) fn port_name(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 15);
    if value.is_empty() || !value.bytes().all(|b| is_lower_alphanumeric(b) || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// What is wrong with a port number.
pub(crate) fn port_number(value: i64) -> Vec<String> {
    if (1..=65535).contains(&value) { Vec::new() } else { vec![between(1, 65535)] }
}

/// The explanation for a number outside its bounds.
pub(crate) fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// A name with a final dash replaced where more is to follow it, so that `prefix-` is judged as `prefix-x` would be.
pub(crate) fn masked(name: &str, prefix: bool) -> String {
    if prefix && name.len() > 1 && name.ends_with('-') {
        let mut cut = name.len() - 2;
        while !name.is_char_boundary(cut) {
            cut -= 1;
        }
        return format!("{}a", &name[..cut]);
    }
    name.to_owned()
}

/// Name rule of most kinds; `prefix` means a generateName.
pub(crate) fn subdomain_name(name: &str, prefix: bool) -> Vec<String> {
    dns_subdomain(&masked(name, prefix))
}

/// Name rule of namespaces.
pub(crate) fn label_name(name: &str, prefix: bool) -> Vec<String> {
    dns_label(&masked(name, prefix))
}

/// Name rule of services.
pub(crate) fn dns1035_name(name: &str, prefix: bool) -> Vec<String> {
    dns1035_label(&masked(name, prefix))
}

/// The explanation for a value that does not match a pattern.
pub(crate) fn pattern(explanation: &str, format: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{explanation} (regex used for validation is '{format}')");
    }
    let examples = examples.iter().map(|example| format!("'{example}', ")).collect::<Vec<_>>().join(" or ");
    format!("{explanation} (e.g. {examples}regex used for validation is '{format}')")
}

fn at_most(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn too_long(value: &str, limit: usize) -> Vec<String> {
    if value.len() > limit { vec![at_most(limit)] } else { Vec::new() }
}

fn leaves_directory(value: &str) -> Option<String> {
    match value {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(value: &str) -> bool {
    let bytes = value.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(first), Some(last))
        if is_lower_alphanumeric(*first) && is_lower_alphanumeric(*last))
        && bytes.iter().all(|byte| is_lower_alphanumeric(*byte) || *byte == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_name_part(value: &str) -> bool {
    let bytes = value.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(first), Some(last))
        if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests;
