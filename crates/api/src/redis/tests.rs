use super::*;

#[test]
fn keys_about_applications_are_told_from_others() {
    let cases = [
        ("app|managed-resources|cluster-1_shop|1.8.3", Some((Some("cluster-1"), "shop", false))),
        ("app|resources-tree|cluster-1_shop|1.8.3.gz", Some((Some("cluster-1"), "shop", false))),
        ("app|resources-tree|cluster-1_shop|2|1.8.3.gz", Some((Some("cluster-1"), "shop", true))),
        ("app|resources-tree|shop|1.8.3", Some((None, "shop", false))),
        ("app|resources-tree|a_b_c|1.8.3", Some((Some("a"), "b_c", false))),
        ("app|resources-tree|shop", None),
        ("app|resources-tree|shop|1|2|3", None),
        ("app|resources-treeish|shop|1", None),
        ("cluster|info|https://kubernetes.default.svc|1.8.3", None),
        ("mfst|annotation:app.kubernetes.io/instance|cluster-1_shop|1.8.3", None),
        ("", None),
    ];
    for (key, expected) in cases {
        let read = AppKey::read(key);
        assert_eq!(read.map(|read| (read.namespace, read.name, read.is_shard)), expected, "{key}");
        if let Some(read) = read {
            let plain = read.without_namespace();
            assert_eq!(plain, key.replacen(&format!("{}_", read.namespace.unwrap_or_default()), "", 1));
        }
    }
}

/// As argocd-agent writes them.
#[test]
fn bodies_are_those_of_argocd_agent() {
    let request = |ask| Request { id: "u".to_owned(), connection: "c".to_owned(), ask };
    let requests = [
        (request(Ask::Get("k".to_owned())), r#"{"uuid":"u","connectionUuid":"c","body":{"get":{"key":"k"}}}"#),
        (
            request(Ask::Subscribe("k".to_owned())),
            r#"{"uuid":"u","connectionUuid":"c","body":{"subscribe":{"channel":"k"}}}"#,
        ),
        (request(Ask::Ping), r#"{"uuid":"u","connectionUuid":"c","body":{"ping":{}}}"#),
    ];
    for (request, text) in requests {
        let event = request.event();
        assert_eq!(event.data, text);
        assert_eq!((event.resource_id.as_str(), event.event_id.as_str()), ("u", "u"));
        assert_eq!(Request::read(text.as_bytes()).unwrap(), request);
    }
    let response = |said| Response { id: "u".to_owned(), connection: "c".to_owned(), said };
    let responses = [
        (Said::Hit(Bytes::from_static(&[0, 255])), r#"{"get":{"bytes":"AP8=","cacheHit":true,"error":""}}"#),
        (Said::Miss, r#"{"get":{"bytes":null,"cacheHit":false,"error":""}}"#),
        (Said::Failed("no".to_owned()), r#"{"get":{"bytes":null,"cacheHit":false,"error":"no"}}"#),
        (Said::Subscribed, r#"{"subscribeResponse":{"error":""}}"#),
        (Said::Refused("no".to_owned()), r#"{"subscribeResponse":{"error":"no"}}"#),
        (Said::Message("k".to_owned()), r#"{"pushFromSubscribe":{"channelName":"k"}}"#),
        (Said::Pong, r#"{"pong":{}}"#),
    ];
    for (said, body) in responses {
        let text = format!(r#"{{"uuid":"u","connectionUuid":"c","body":{body}}}"#);
        let event = response(said.clone()).event("r".to_owned());
        assert_eq!(event.data, text);
        assert_eq!((event.resource_id.as_str(), event.event_id.as_str()), ("r", "u"));
        assert_eq!(Response::read(text.as_bytes()).unwrap(), response(said));
    }
    // A value without bytes was found, too.
    let empty = r#"{"uuid":"u","connectionUuid":"c","body":{"get":{"bytes":null,"cacheHit":true,"error":""}}}"#;
    assert_eq!(Response::read(empty.as_bytes()).unwrap().said, Said::Hit(Bytes::new()));
    for bad in ["", "{}", r#"{"uuid":"u","connectionUuid":"c","body":{}}"#, r#"{"uuid":"u","connectionUuid":"c"}"#] {
        assert!(Request::read(bad.as_bytes()).is_err() && Response::read(bad.as_bytes()).is_err(), "{bad}");
    }
}
