use proptest::prelude::*;

use super::*;

#[test]
fn conditions() {
    for (when, expected) in [
        ("", true),
        ("true", true),
        ("heads == heads", true),
        ("heads == tails", false),
        ("5 > 3", true),
        ("5 == 5.0", true),
        ("'5' == 5", false),
        ("\"a b\" == 'a b'", true),
        ("abc < abd", true),
        ("a == a && b != c", true),
        ("a == b || (c == c && true)", true),
        ("!(a == b)", true),
        ("!true || true", true),
        ("foo in (bar, foo)", true),
        ("foo in ('x', y)", false),
        ("5 in (4, 5)", true),
        ("'abc' =~ '^a.c$'", true),
        ("abc !~ '^b'", true),
        ("1 + 2 * 3 == 7", true),
        ("2 ** 3 == 8", true),
        ("10 - 2 - 3 == 5", true),
        ("7 % 4 == 3", true),
        ("(1 | 6) == 7", true),
        ("1 << 3 == 8", true),
        ("0x10 == 16", true),
        ("-1 < 0", true),
        ("a + b == ab", true),
        ("true ? true : false", true),
        ("false ? false : true", true),
        ("[foo bar] == 'foo bar'", true),
        ("'it\\'s' == \"it\\'s\"", true),
        ("true == true", true),
        ("Succeeded == Succeeded && 1 >= 1", true),
    ] {
        assert_eq!(holds(when), Ok(expected), "{when}");
    }
}

#[test]
fn not_conditions() {
    use ConditionError::{Failed, NoBool, Syntax, Token};
    for when in ["heads", "5", "1 + 1", "false ? true"] {
        assert!(matches!(holds(when), Err(NoBool(..))), "{when}");
    }
    for when in
        [" == yes", "a ==", "(a == b", "a == b)", "'a", "a b == c", "foo.bar == x", "1.2.3 == 1", "in (a)", "()"]
    {
        assert!(matches!(holds(when), Err(Syntax(..))), "{when}: {:?}", holds(when));
    }
    for when in ["a = b", "a ==-1", "{\"a\": 1} == b", "a === b", "@"] {
        assert!(matches!(holds(when), Err(Token(..))), "{when}: {:?}", holds(when));
    }
    for when in ["a-b == a-b", "a && b", "!a", "a > 1", "a in b", "true < false", "'a' =~ '('"] {
        assert!(matches!(holds(when), Err(Failed(..))), "{when}: {:?}", holds(when));
    }
    let message = holds("a = b").unwrap_err().to_string();
    assert_eq!(
        message,
        "Invalid 'when' expression 'a = b': Invalid token: '=' (hint: try wrapping the affected expression in quotes (\"))"
    );
    assert_eq!(holds("heads").unwrap_err().to_string(), "Expected boolean evaluation for 'heads'. Got heads");
}

#[test]
fn depth_has_a_bound() {
    for when in [
        "(".repeat(100_000),
        "!".repeat(100_000),
        "! ".repeat(100_000),
        "1+".repeat(100_000) + "1 == 1",
        "1 ? ".repeat(9000),
    ] {
        assert!(holds(&when).is_err());
    }
}

proptest! {
    #[test]
    fn never_panics(when in "\\PC{0,60}") {
        let _ = holds(&when);
    }

    #[test]
    fn never_panics_on_what_looks_like_one(when in "([a-z0-9'\"()!=<>&|+*/?:,. -]|in|==|true){0,40}") {
        let _ = holds(&when);
    }

    #[test]
    fn quoted_text_equals_itself(text in "[^'\"\\\\]{0,30}") {
        let when = format!("'{text}' == \"{text}\"");
        prop_assert_eq!(holds(&when), Ok(true));
    }

    #[test]
    fn numbers_compare_as_numbers(left in -1000i32..1000, right in -1000i32..1000) {
        let when = format!("({left}) < ({right})");
        prop_assert_eq!(holds(&when), Ok(left < right));
    }
}
