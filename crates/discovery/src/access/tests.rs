use super::*;
use crate::model::Indexed;

fn rule(resource: Resource, name: &str, exact: bool, policy: Policy) -> Rule {
    Rule { resource, name: name.to_owned(), exact, policy }
}

fn tokens(all: Vec<Token>) -> Tokens {
    let mut all = all;
    all.sort_by(|a, b| a.accessor.cmp(&b.accessor));
    let row = |token| Row::Token(Indexed { create_index: 1, modify_index: 1, value: Arc::new(token) });
    Tokens::new(&TopicData::new(1, all.into_iter().map(row).collect()))
}

fn token(accessor: &str, rules: Vec<Rule>) -> Token {
    Token { accessor: accessor.to_owned(), secret_digest: digest(accessor), rules, ..Token::default() }
}

#[test]
fn the_most_specific_rule_decides() {
    let rules = vec![
        rule(Resource::Key, "", false, Policy::Read),
        rule(Resource::Key, "app/", false, Policy::Write),
        rule(Resource::Key, "app/secret", false, Policy::Deny),
        rule(Resource::Key, "app/secret/open", true, Policy::Write),
        rule(Resource::Key, "twice", false, Policy::Write),
        rule(Resource::Key, "twice", false, Policy::Deny),
        rule(Resource::Key, "both", false, Policy::Write),
        rule(Resource::Key, "both", false, Policy::Read),
        rule(Resource::Service, "Web", true, Policy::Write),
    ];
    let access = tokens(vec![token("t", rules)]).resolve(Some("t"), Timestamp::UNIX_EPOCH).unwrap();
    let table = [
        (Resource::Key, "other", Policy::Read),
        (Resource::Key, "app/x", Policy::Write),
        (Resource::Key, "app/secrets", Policy::Deny),
        (Resource::Key, "app/secret/open", Policy::Write),
        (Resource::Key, "app/secret/opened", Policy::Deny),
        (Resource::Key, "twice", Policy::Deny),
        (Resource::Key, "both", Policy::Write),
        (Resource::Key, "App/x", Policy::Read),
        (Resource::Service, "wEB", Policy::Write),
        (Resource::Service, "web2", Policy::Deny),
        (Resource::Node, "n1", Policy::Deny),
    ];
    for (resource, name, most) in table {
        for wanted in [Policy::Read, Policy::Write] {
            assert_eq!(access.allows(resource, name, wanted), wanted <= most, "{name} {wanted:?}");
        }
    }
    assert!(!access.allows_tree(Resource::Key, "app/", Policy::Write), "a part of it is denied");
    assert!(access.allows_tree(Resource::Key, "app/x", Policy::Write));
}

#[test]
fn without_tokens_all_is_open_and_with_one_it_is_closed() {
    let open = tokens(Vec::new());
    assert!(
        open.is_open()
            && open.resolve(Some("anything"), Timestamp::UNIX_EPOCH).unwrap().allows(
                Resource::Operator,
                "",
                Policy::Write
            )
    );
    let closed = tokens(vec![token("t", Vec::new())]);
    assert_eq!(closed.resolve(Some("forged"), Timestamp::UNIX_EPOCH).unwrap_err(), UnknownToken);
    let refusal =
        closed.resolve(None, Timestamp::UNIX_EPOCH).unwrap().require(Resource::Key, "a", Policy::Read).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "Permission denied: anonymous token lacks permission 'key:read' on \"a\". The anonymous token is used implicitly \
         when a request does not specify a token."
    );
    let refusal = closed
        .resolve(Some("t"), Timestamp::UNIX_EPOCH)
        .unwrap()
        .require(Resource::Service, "web", Policy::Write)
        .unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "Permission denied: token with AccessorID 't' lacks permission 'service:write' on \"web\""
    );
    let named = tokens(vec![token(ANONYMOUS, vec![rule(Resource::Key, "pub/", false, Policy::Read)])]);
    assert!(named.resolve(None, Timestamp::UNIX_EPOCH).unwrap().allows(Resource::Key, "pub/a", Policy::Read));
    assert!(named.resolve(Some(ANONYMOUS), Timestamp::UNIX_EPOCH).is_err(), "its name is no secret");
}

#[test]
fn rule_sets_and_identities_add_up() {
    let set = RuleSet {
        id: "s".to_owned(),
        rules: vec![rule(Resource::Key, "shared/", false, Policy::Read)],
        ..RuleSet::default()
    };
    let all = Token {
        rule_sets: vec!["s".to_owned(), "gone".to_owned()],
        services: vec!["web".to_owned()],
        nodes: vec![crate::model::NodeIdentity { node: "n1".to_owned(), datacenter: "dc1".to_owned() }],
        ..token("t", vec![rule(Resource::Key, "own/", false, Policy::Write)])
    };
    let root = Token { rule_sets: vec![builtin::MANAGEMENT.to_owned()], ..token("root", Vec::new()) };
    let tokens = Tokens::of([all, root].map(Arc::new).into_iter(), [&set].into_iter());
    let access = tokens.resolve(Some("t"), Timestamp::UNIX_EPOCH).unwrap();
    let table = [
        (Resource::Key, "shared/a", Policy::Read),
        (Resource::Key, "own/a", Policy::Write),
        (Resource::Key, "else", Policy::Deny),
        (Resource::Service, "web", Policy::Write),
        (Resource::Service, "web-sidecar-proxy", Policy::Write),
        (Resource::Service, "db", Policy::Read),
        (Resource::Node, "n1", Policy::Write),
        (Resource::Node, "n2", Policy::Read),
        (Resource::Acl, "", Policy::Deny),
    ];
    for (resource, name, most) in table {
        for wanted in [Policy::Read, Policy::Write] {
            assert_eq!(access.allows(resource, name, wanted), wanted <= most, "{name} {wanted:?}");
        }
    }
    let root = tokens.resolve(Some("root"), Timestamp::UNIX_EPOCH).unwrap();
    assert!(Resource::ALL.into_iter().all(|resource| root.allows(resource, "any", Policy::Write)));
    assert!(tokens.any_allows(Resource::Acl, Policy::Write));
}

#[test]
fn what_is_built_in_means_what_it_says() {
    for set in builtin::rule_sets() {
        let mut read = rules::parse(&set.text).unwrap();
        let mut meant = set.rules.clone();
        read.sort_by_key(|rule| rule.resource);
        meant.sort_by_key(|rule| rule.resource);
        assert_eq!(read, meant, "{}", set.name);
    }
}

#[test]
fn an_expired_token_is_known_to_nobody() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let brief = Token { expires: Some(at(60)), ..token("brief", vec![rule(Resource::Key, "", false, Policy::Write)]) };
    let tokens = tokens(vec![brief, token("lasting", Vec::new())]);
    for (secret, second, known) in
        [("brief", 0, true), ("brief", 59, true), ("brief", 60, false), ("lasting", 60, true)]
    {
        assert_eq!(tokens.resolve(Some(secret), at(second)).is_ok(), known, "{secret} at {second}");
    }
}
