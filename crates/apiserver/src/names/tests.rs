use proptest::prelude::*;

use super::*;

const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                          start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                          validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                              '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
                              for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn check(rule: impl Fn(&str) -> Vec<String>, value: &str, expected: &[&str]) {
    assert_eq!(rule(value), expected, "{value:?}");
}

#[test]
fn labels() {
    for good in ["a", "a-b", "0", &"a".repeat(63)] {
        check(dns_label, good, &[]);
    }
    for bad in ["", "-a", "a-", "A", "a_b", "é"] {
        check(dns_label, bad, &[LABEL_TEXT]);
    }
    check(dns_label, "a.b", &["must not contain dots"]);
    check(dns_label, &"a".repeat(64), &["must be no more than 63 characters"]);
}

#[test]
fn subdomains() {
    check(dns_subdomain, "a.b-c.1", &[]);
    for bad in ["", "a..b", ".a", "a.", "a.-b", "Foo"] {
        check(dns_subdomain, bad, &[SUBDOMAIN_TEXT]);
    }
    check(dns_subdomain, &"a".repeat(254), &["must be no more than 253 characters"]);
}

#[test]
fn keys() {
    check(qualified_name, "example.com/My_Name.x", &[]);
    check(qualified_name, "kubernetes", &[]);
    check(qualified_name, "/x", &["prefix part must be non-empty"]);
    let name_text = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    check(qualified_name, "a/", &["name part must be non-empty", name_text]);
    check(qualified_name, "a b", &[name_text]);
    assert!(qualified_name("a/b/c")[0].starts_with("a qualified name must consist of"));
    assert!(qualified_name("A_/b")[0].starts_with("prefix part a lowercase RFC 1123 subdomain"));
}

#[test]
fn values_ports_and_paths() {
    check(label_value, "", &[]);
    check(label_value, "a_b.C", &[]);
    assert_eq!(label_value("-a").len(), 1);
    check(|v| path_segment(v, false), "a/b%", &["may not contain '/'", "may not contain '%'"]);
    check(|v| path_segment(v, false), "..", &["may not be '..'"]);
    check(|v| path_segment(v, true), "..", &[]);
    check(port_name, "http", &[]);
    check(port_name, "80", &["must contain at least one letter (a-z)"]);
    check(port_name, "a--b-", &["must not contain consecutive hyphens", "must not begin or end with a hyphen"]);
    check(config_key, "..a", &["must not start with '..'"]);
    assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
}

#[test]
fn generated_names_may_end_in_a_dash() {
    assert!(subdomain_name("web-", true).is_empty());
    assert_eq!(subdomain_name("web-", false), [SUBDOMAIN_TEXT]);
    assert_eq!(subdomain_name("-", true), [SUBDOMAIN_TEXT]);
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,80}", prefix in any::<bool>()) {
        let _ = (subdomain_name(&text, prefix), label_name(&text, prefix), dns1035_name(&text, prefix));
        let _ = (qualified_name(&text), label_value(&text), path_segment(&text, prefix));
        let _ = (config_key(&text), env_name(&text), port_name(&text));
    }

    #[test]
    fn every_label_is_a_subdomain_and_a_label_value(text in "[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?") {
        prop_assert!(dns_label(&text).is_empty() && dns_subdomain(&text).is_empty() && label_value(&text).is_empty());
    }
}
