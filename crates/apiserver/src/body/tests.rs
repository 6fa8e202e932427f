use super::*;

#[test]
fn duplicates_are_found_and_the_last_wins() {
    let decoded = json(br#"{"a":{"b":1,"b":2},"l":[{"x":1,"x":3}]}"#).unwrap();
    assert_eq!(decoded.value["a"]["b"], 2);
    assert_eq!(decoded.duplicates, ["duplicate field \"a.b\"", "duplicate field \"l[0].x\""]);
}

#[test]
fn bad_json_is_refused() {
    for text in ["", "{", "[", "nope", "{\"a\":}", "{\"a\":1}x", "\u{feff}{}"] {
        assert!(json(text.as_bytes()).is_err(), "{text:?}");
    }
    assert_eq!(json(b"{\"a\":\"\xff\"}").unwrap().value["a"], "\u{fffd}");
    assert!(json("[".repeat(100_000).as_bytes()).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_coming_is_given_up() {
    use futures::StreamExt;
    let frame =
        |text: &'static str| Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from_static(text.as_bytes())));
    let slow = futures::stream::iter(["{\"a\"", ":1", "}"]).then(|text| async move {
        tokio::time::sleep(PAUSE_MAX.saturating_sub(Duration::from_secs(1))).await;
        text
    });
    let whole = read(http_body_util::StreamBody::new(slow.map(frame).boxed()), 100).await.unwrap();
    assert_eq!(whole, "{\"a\":1}", "a slow client is a client");
    let stalled = futures::stream::iter([frame("{\"a\"")]).chain(futures::stream::pending());
    let failure = read(http_body_util::StreamBody::new(stalled), 100).await.unwrap_err();
    assert_eq!((failure.code, failure.reason), (408, "Timeout"));
}

proptest::proptest! {
    #[test]
    fn equals_plain_parsing(text in "[\\[\\]{}\":,a-c0-9 .ntruefals]*") {
        let ours = json(text.as_bytes()).ok().map(|decoded| decoded.value);
        let plain = serde_json::from_str::<Value>(&text).ok();
        proptest::prop_assert_eq!(ours, plain);
    }
}

#[test]
fn yaml_keys_that_occur_twice_are_told_with_their_lines_and_the_last_wins() {
    let text = "kind: A\nspec:\n  a: 1\n  b:\n    c: 1\n    c: 2\n  a: 3\n  b: {}\nkind: B\n";
    let decoded = yaml(text.as_bytes()).unwrap();
    assert_eq!(decoded.value, serde_json::json!({"kind": "B", "spec": {"a": 3, "b": {}}}));
    let lines = ["line 6: key \"c\"", "line 7: key \"a\"", "line 8: key \"b\"", "line 9: key \"kind\""];
    let lines: Vec<String> = lines.iter().map(|line| format!("{line} already set in map")).collect();
    assert_eq!(decoded.duplicates, [format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))]);
    assert_eq!(warnings(&decoded.duplicates[0]).collect::<Vec<_>>(), lines);
    assert_eq!(warnings("unknown field \"a\"").collect::<Vec<_>>(), ["unknown field \"a\""]);
    let json = applied(b"{\"a\":\n1,\"a\":2}").unwrap();
    assert_eq!((&json.value["a"], json.duplicates.len()), (&2.into(), 1));
    assert!(json.duplicates[0].ends_with("  line 2: key \"a\" already set in map"), "{:?}", json.duplicates);
    assert!(yaml(b"a: 1\na: [\n").is_err());
}

#[test]
fn what_nests_too_deep_is_refused_in_either_form() {
    let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    for form in ["", "---\n"] {
        let text = |levels| format!("{form}{}", nested(levels));
        assert!(yaml(text(100).as_bytes()).is_ok(), "{form:?}");
        for levels in [101, 103, 110, 127, 200, 10_000] {
            assert!(yaml(text(levels).as_bytes()).is_err(), "{form:?} {levels}");
        }
    }
    // each alias stands for more levels than it is deep
    let (open, close) = ("[".repeat(50), "]".repeat(50));
    let link = |number: usize| format!("a{number}: &a{number} {open}*a{}{close}\n", number - 1);
    let chain: Vec<String> = std::iter::once("a0: &a0 1\n".to_owned()).chain((1..200).map(link)).collect();
    assert!(yaml(chain.concat().as_bytes()).is_err());
}
