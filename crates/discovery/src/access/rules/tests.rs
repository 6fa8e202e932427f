use proptest::prelude::*;

use super::*;

fn rule(resource: Resource, name: &str, exact: bool, policy: Policy) -> Rule {
    Rule { resource, name: name.to_owned(), exact, policy }
}

#[test]
fn rules_are_read_as_consul_reads_them() {
    let read = |resource, name| vec![rule(resource, name, false, Policy::Read)];
    let table: Vec<(&str, Vec<Rule>)> = vec![
        ("", vec![]),
        ("# nothing\n// here\n/* or\nhere */", vec![]),
        (r#"key_prefix "a/" { policy = "read" }"#, read(Resource::Key, "a/")),
        (r#"key_prefix "a/" { policy = "list" }"#, read(Resource::Key, "a/")),
        (r#"key "a\"b" { policy = "write" }"#, vec![rule(Resource::Key, "a\"b", true, Policy::Write)]),
        (r#"{"key_prefix": {"a/": {"policy": "read"}}}"#, read(Resource::Key, "a/")),
        (r#"{"key_prefix": [{"a/": {"policy": "read"}}]}"#, read(Resource::Key, "a/")),
        (r#"{"operator": "read", "acl": ""}"#, read(Resource::Operator, "")),
        (r#"key_prefix { "a/" { policy = "read" } }"#, read(Resource::Key, "a/")),
        (r#"unheard "of" { policy = "whatever" }"#, vec![]),
        (r#"query_prefix "" { policy = "read" } keyring = "read" mesh="write" peering="deny""#, vec![]),
        (
            "service \"web\" {\n policy = \"write\"\n intentions = \"read\"\n}\nnode_prefix \"\" { policy = \"deny\" } acl = \"write\"",
            vec![
                rule(Resource::Service, "web", true, Policy::Write),
                rule(Resource::Node, "", false, Policy::Deny),
                rule(Resource::Acl, "", false, Policy::Write),
            ],
        ),
    ];
    for (text, expected) in table {
        assert_eq!(parse(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_consul_refuses_is_refused_in_its_words() {
    let table = [
        (
            r#"key_prefix "a/" { policy = "reed" }"#,
            r#"Invalid key_prefix policy: &acl.KeyRule{Prefix:"a/", Policy:"reed", EnterpriseRule:acl.EnterpriseRule{}}"#,
        ),
        (
            r#"service "a" { policy = "write" intentions="foo"}"#,
            r#"Invalid service intentions policy: &acl.ServiceRule{Name:"a", Policy:"write", Intentions:"foo", EnterpriseRule:acl.EnterpriseRule{}}"#,
        ),
        (r#"agent "x" { policy = "bad" }"#, r#"Invalid agent policy: &acl.AgentRule{Node:"x", Policy:"bad"}"#),
        (r#"operator = "x""#, r#"Invalid operator policy: "x""#),
        (
            r#"key "" "b" { policy = "read" }"#,
            r#"Invalid key policy: &acl.KeyRule{Prefix:"", Policy:"", EnterpriseRule:acl.EnterpriseRule{}}"#,
        ),
        (r#"key "a" = "read""#, "Failed to parse ACL rules: At 1:9: nested object expected: LBRACE got: ASSIGN"),
    ];
    for (text, complaint) in table {
        assert_eq!(parse(text), Err(complaint.to_owned()), "{text}");
    }
    for text in
        ["key_prefix \"a/\" { policy = ", "key \"a", "}", "=", "key {", "/* open", "{\"key\":", "key \"\\x\" {}"]
    {
        let complaint = parse(text).unwrap_err();
        assert!(complaint.starts_with("Failed to parse ACL rules: "), "{text}: {complaint}");
    }
    assert!(parse(&format!("{}{}", "a {".repeat(50), "}".repeat(50))).is_err(), "too deep");
}

fn a_rule() -> impl Strategy<Value = Rule> {
    let resource = proptest::sample::select(Resource::ALL.to_vec());
    let policy = proptest::sample::select(vec![Policy::Deny, Policy::Read, Policy::Write]);
    (resource, "\\PC{0,12}|[\"\\\\\n\t\r{}=a/]{0,8}", any::<bool>(), policy).prop_map(
        |(resource, name, exact, policy)| {
            let (name, exact) = if resource.is_named() { (name, exact) } else { (String::new(), false) };
            Rule { resource, name, exact, policy }
        },
    )
}

proptest! {
    #[test]
    fn nothing_written_makes_it_fall(text in "(\\PC|[{}=\\[\\]\",#/*\n ]|policy|key){0,60}") {
        let _ = parse(&text);
    }

    #[test]
    fn what_is_printed_is_read_back(rules in proptest::collection::vec(a_rule(), 0..6)) {
        prop_assert_eq!(parse(&print(&rules)), Ok(rules));
    }
}
