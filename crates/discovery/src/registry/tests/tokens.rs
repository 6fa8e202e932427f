use super::*;
use crate::access::builtin::MANAGEMENT;
use crate::access::{ANONYMOUS, digest};
use crate::model::{RuleSet, Token};
use crate::topic::Topic;

fn token(accessor: &str, digest: &str, sets: &[&str]) -> Command {
    Command::PutToken(Token {
        accessor: accessor.to_owned(),
        secret_digest: digest.to_owned(),
        rule_sets: sets.iter().map(|id| (*id).to_owned()).collect(),
        ..Token::default()
    })
}

fn rules(id: &str, name: &str, text: &str) -> Command {
    Command::PutRuleSet(RuleSet {
        id: id.to_owned(),
        name: name.to_owned(),
        text: text.to_owned(),
        rules: crate::access::rules::parse(text).expect("rules"),
        ..RuleSet::default()
    })
}

#[test]
fn tokens_are_told_apart_by_their_secret() {
    let mut bench = Bench::new();
    let (one, two) = (digest("one"), digest("two"));
    bench.check(&[
        (token("", &one, &[]), "400 a token needs an accessor"),
        (token("a", "plain text", &[]), "400 a token needs the SHA-256 of its secret"),
        (token("root", &two, &[MANAGEMENT]), "token root"),
        (token("a", &one, &[]), "token a"),
        (token("a", &one, &[]), "token a"),
        (token("b", &one, &[]), "500 Invalid Token: SecretID is already in use"),
        (token("b", &digest("three"), &["gone"]), "500 No such ACL policy with ID \"gone\""),
        (token(ANONYMOUS, "", &[]), &format!("token {ANONYMOUS}")),
        (Command::DeleteToken("a".to_owned()), "ok"),
        (Command::DeleteToken("a".to_owned()), "ok"),
        (token("b", &one, &[]), "token b"),
    ]);
    assert_eq!((bench.tables.index(), bench.topic(&Topic::Tokens).rows.len()), (5, 3));
}

/// Whatever is done with tokens and rules, somebody can still undo it, and what is closed stays closed.
#[test]
fn nobody_locks_everybody_out() {
    let nobody =
        "500 one token that does not expire has to have acl = \"write\", or nobody could make or change tokens";
    let mut bench = Bench::new();
    bench.check(&[
        (token("a", &digest("a"), &[]), nobody),
        (rules("r", "admin", "acl = \"write\""), "rules r"),
        (rules("s", "admin", ""), "500 Invalid Policy: A Policy with Name \"admin\" already exists"),
        (
            rules("s", "global-management", ""),
            "500 Invalid Policy: A Policy with Name \"global-management\" already exists",
        ),
        (rules(MANAGEMENT, "other", ""), "400 a rule set needs an id of its own"),
        (token("a", &digest("a"), &["r"]), "token a"),
        (token("b", &digest("b"), &[]), "token b"),
        (rules("r", "admin", "acl = \"read\""), nobody),
        (Command::DeleteRuleSet("r".to_owned()), nobody),
        (Command::DeleteToken("a".to_owned()), nobody),
        (token("b", &digest("b"), &["r"]), "token b"),
        (Command::DeleteToken("a".to_owned()), "ok"),
        (Command::DeleteToken("b".to_owned()), nobody),
    ]);
}

#[test]
fn a_token_goes_when_its_time_is_over_and_rules_nobody_alone() {
    let nobody =
        "500 one token that does not expire has to have acl = \"write\", or nobody could make or change tokens";
    let until = |accessor: &str, second, sets: &[&str]| {
        let Command::PutToken(token) = token(accessor, &digest(accessor), sets) else { panic!() };
        Command::PutToken(Token { expires: Timestamp::from_second(second).ok(), ..token })
    };
    let mut bench = Bench::new();
    bench.pass(10);
    bench.check(&[
        (until("brief", 70, &[MANAGEMENT]), nobody),
        (token("root", &digest("root"), &[MANAGEMENT]), "token root"),
        (until("past", 10, &[]), "500 ExpirationTime cannot be before CreateTime"),
        (until("brief", 70, &[MANAGEMENT]), "token brief"),
        (until("brief", 700, &[MANAGEMENT]), "token brief"),
        (Command::DeleteToken("root".to_owned()), nobody),
    ]);
    let expires = |bench: &Bench| {
        let rows = bench.topic(&Topic::Tokens).rows;
        rows.iter().find_map(|row| match row {
            crate::topic::Row::Token(token) if token.value.accessor == "brief" => token.value.expires,
            _ => None,
        })
    };
    assert_eq!(expires(&bench).map(Timestamp::as_second), Some(70), "that is said once");
    bench.due(&Due::Token("brief".to_owned()));
    assert_eq!((expires(&bench), bench.topic(&Topic::Tokens).rows.len()), (None, 1));
}

#[test]
fn the_first_token_is_made_once() {
    let first = |accessor: &str| {
        let Command::PutToken(token) = token(accessor, &digest(accessor), &[MANAGEMENT]) else { panic!() };
        Command::Bootstrap(token)
    };
    let mut bench = Bench::new();
    bench.check(&[
        (set("a", "1"), "true"),
        (first("one"), "token one"),
        (first("two"), "403 ACL bootstrap no longer allowed (reset index: 2)"),
    ]);
}
