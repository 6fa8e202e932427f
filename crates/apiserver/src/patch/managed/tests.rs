use super::{manager_errors, manager_from_user_agent};
use crate::field::Path;

#[test]
fn managers_are_named_after_the_user_agent() {
    let check = |agent: &str, expected: &str| assert_eq!(manager_from_user_agent(agent), expected);
    check("kubectl/v1.34.4 (linux/amd64) kubernetes/abc", "kubectl");
    check("", "");
    check("a\u{7}b", "ab");
    check(&"é".repeat(100), &"é".repeat(64));
}

#[test]
fn names_are_short_and_printable() {
    let check = |name: &str, expected: &[&str]| {
        let errors = manager_errors(&Path::new("fieldManager"), name);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    };
    check("kubectl \"quoted\"", &[]);
    check(&"x".repeat(129), &["fieldManager: Too long: may not be more than 128 bytes"]);
    check("a\tb", &["fieldManager: Invalid value: \"a\\tb\": invalid character U+0009 (at position 1)"]);
}
