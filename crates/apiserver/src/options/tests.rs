use proptest::prelude::*;
use serde_json::json;

use super::*;

const KEYS: &[&str] = &[
    "dryRun",
    "fieldValidation",
    "fieldManager",
    "force",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "labelSelector",
    "fieldSelector",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "unheardOf",
];

fn value() -> impl Strategy<Value = String> {
    let likely = vec![
        "",
        "0",
        "1",
        "-1",
        "true",
        "false",
        "All",
        "Strict",
        "Warn",
        "Ignore",
        "Exact",
        "NotOlderThan",
        "Orphan",
        "Background",
        "Foreground",
        "9223372036854775808",
        "18446744073709551616",
        "%00",
        "%",
        "%zz",
        "a%3Db",
    ];
    prop_oneof![prop::sample::select(likely).prop_map(str::to_owned), "[ -%'-~]{0,20}"]
}

fn query() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    prop::collection::vec((prop::sample::select(KEYS), value()), 0..8)
}

fn text(pairs: &[(&str, String)]) -> String {
    pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&")
}

/// Everything that is read from a query, or with which code it is refused.
fn parsed(text: &str) -> [Result<String, u16>; 4] {
    let query = Query::parse(text);
    let shown = |result: Result<String, Failure>| result.map_err(|failure| failure.code);
    [
        shown(WriteOptions::parse(&query, "CreateOptions").map(|options| format!("{options:?}"))),
        shown(ListOptions::parse(&query, false).map(|options| format!("{options:?}"))),
        shown(ListOptions::parse(&query, true).map(|options| format!("{options:?}"))),
        shown(DeleteOptions::parse(&query, None).map(|options| format!("{options:?}"))),
    ]
}

proptest! {
    #[test]
    fn any_query_is_read_or_refused(text in "\\PC{0,80}") {
        for result in parsed(&text) {
            prop_assert!(matches!(result, Ok(_) | Err(400 | 422 | 500)), "{text}: {result:?}");
        }
    }

    #[test]
    fn options_are_read_or_refused_and_unknown_ones_do_not_matter(pairs in query()) {
        let known: Vec<_> = pairs.iter().filter(|(key, _)| *key != "unheardOf").cloned().collect();
        prop_assert_eq!(parsed(&text(&pairs)), parsed(&text(&known)));
    }

    #[test]
    fn the_first_of_several_counts(pairs in query(), second in value()) {
        // a dry run is a list
        let once: Vec<_> = pairs.into_iter().filter(|(key, _)| *key != "dryRun").collect();
        let again: Vec<_> = once.iter().map(|(key, _)| (*key, second.clone())).collect();
        prop_assert_eq!(parsed(&text(&[once.clone(), again].concat())), parsed(&text(&once)));
    }

    #[test]
    fn a_write_is_dry_only_when_asked(values in prop::collection::vec(prop::sample::select(vec!["All", "", "Some"]), 0..3)) {
        let pairs: Vec<_> = values.iter().map(|value| ("dryRun", (*value).to_owned())).collect();
        let result = WriteOptions::parse(&Query::parse(&text(&pairs)), "CreateOptions");
        match result {
            Ok(options) => {
                prop_assert_eq!(options.dry_run, !values.is_empty());
                prop_assert!(values.iter().all(|value| *value == "All"));
            }
            Err(failure) => {
                prop_assert_eq!(failure.code, 422);
                prop_assert!(values.iter().any(|value| *value != "All"));
            }
        }
    }

    #[test]
    fn any_delete_body_is_read_or_refused(
        grace in any::<Option<i64>>(), policy in prop::option::of(value()), orphan in any::<Option<bool>>(),
        uid in prop::option::of("[ -~]{0,9}"),
    ) {
        let body = json!({
            "gracePeriodSeconds": grace, "propagationPolicy": policy, "orphanDependents": orphan,
            "preconditions": {"uid": uid},
        });
        let both = policy.is_some() && orphan.is_some();
        match DeleteOptions::parse(&Query::parse(""), Some(&body)) {
            Ok(options) => {
                prop_assert_eq!(options.grace_seconds, grace);
                prop_assert_eq!(options.uid, uid);
                prop_assert!(!both && !options.dry_run);
            }
            Err(failure) => prop_assert_eq!(failure.code, 422),
        }
    }
}
