//! Takes out of printed text what two correct servers may choose freely.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::differential::{Normaliser, sorted};

static REPLACEMENTS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let replacement = |pattern: &str, by| {
        (Regex::new(pattern).expect("the patterns in this file are constants that a test compiles"), by)
    };
    vec![
        replacement(r#"("?resourceVersion"?: )"\d+""#, r#"$1"<version>""#),
        replacement(r"(Resource Version: +)\d+", "$1<version>"),
        replacement(r#"("?nodePort"?: )\d+"#, "$1<port>"),
        replacement(r":3\d{4}/(TCP|UDP)", ":<port>/$1"),
        replacement(r"20[2-9]\d-\d\d-\d\d \d\d:\d\d:\d\d [+]0000 UTC", "<time>"),
        replacement(r"(?m)(^|\s|\()(\d+[smh])+(\s|$|\))", "$1<age>$3"),
        replacement(r"(?m)(^|\s|\()(\d+[smh])+(\s|$|\))", "$1<age>$3"),
        replacement(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        replacement(r"(?m)^[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "<log> "),
        // Columns are as wide as what is in them.
        replacement(r"(\S) {2,}", "$1  "),
        replacement(r"(?m) +$", ""),
    ]
});

/// The same text for every server; `literals` are texts that differ by server and what stands for them.
pub(super) fn normalised(text: &str, literals: &[(String, String)]) -> String {
    let text: Vec<String> = text.lines().map(sorted_line).collect();
    let record = Normaliser::new(literals.to_vec()).records(vec![Value::from(text.join("\n"))]).pop();
    let text = record.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    REPLACEMENTS.iter().fold(text, |text, (pattern, by)| pattern.replace_all(&text, *by).into_owned())
}

/// A line that is an object, as raw answers are, with its fields in the order of their names.
fn sorted_line(line: &str) -> String {
    match serde_json::from_str::<BTreeMap<String, Value>>(line) {
        Ok(object) => Value::Object(object.into_iter().map(|(key, field)| (key, sorted(field))).collect()).to_string(),
        Err(_) => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_what_servers_choose() {
        let check = |text: &str, expected: &str| assert_eq!(normalised(text, &[]), expected, "{text}");
        check("NAME   AGE\na      3m12s\n", "NAME  AGE\na  <age>");
        check("a 3s 4s", "a <age> <age>");
        check("resourceVersion: \"12\"", "resourceVersion: \"<version>\"");
        check("\"resourceVersion\": \"12\",", "\"resourceVersion\": \"<version>\",");
        check("Start: Mon, 02 Jan 2006 15:04:05 +0000", "Start: <time>");
        check(r#"{"b":{"d":1,"c":2},"a":3}"#, r#"{"a":3,"b":{"c":2,"d":1}}"#);
        check("  nodePort: 31000\n80:31000/TCP", "  nodePort: <port>\n80:<port>/TCP");
        check("  indented:   x", "  indented:  x");
        check("2026-01-02T03:04:05Z", "<time>");
    }
}
