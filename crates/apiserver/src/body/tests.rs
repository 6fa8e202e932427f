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
