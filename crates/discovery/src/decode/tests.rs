use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::command::{CatalogVerb, KvVerb, Refusal, TxnOp};
use crate::model::{Behavior, Status};

fn refused<T: std::fmt::Debug>(result: Result<T, Refusal>) -> String {
    result.err().map_or_else(String::new, |refusal| refusal.to_string())
}

/// What Consul 1.22 says to the bodies of `agent/service/register`; empty: it takes them.
#[test]
fn services_are_refused_in_consuls_words() {
    let cases = [
        (r#"{"Name":"a","Port":"x"}"#, "json: cannot unmarshal string into Go struct field .Alias.Port of type int"),
        (r#"{"Name":"a","Foo":1}"#, r#"json: unknown field "Foo""#),
        (
            r#"{"Name":"a","Port":1.5}"#,
            "json: cannot unmarshal number 1.5 into Go struct field .Alias.Port of type int",
        ),
        (r#"{"Name":1}"#, "json: cannot unmarshal number into Go struct field .Alias.Name of type string"),
        (
            r#"{"Name":"a","Tags":"x"}"#,
            "json: cannot unmarshal string into Go struct field .Alias.Tags of type []string",
        ),
        (
            r#"{"Name":"a","Tags":["x",3]}"#,
            "json: cannot unmarshal number into Go struct field .Alias.Tags of type string",
        ),
        (
            r#"{"Name":"a","Meta":{"a":1}}"#,
            "json: cannot unmarshal number into Go struct field .Alias.Meta of type string",
        ),
        (
            r#"{"Name":"a","Meta":[1]}"#,
            "json: cannot unmarshal array into Go struct field .Alias.Meta of type map[string]string",
        ),
        (r#"{"Name":"a","TaggedAddresses":{"lan":{"Address":"x","Foo":1}}}"#, r#"json: unknown field "Foo""#),
        (
            r#"{"Name":"a","tagged_addresses":{"lan":{"address":"x","port":"y"}}}"#,
            "json: cannot unmarshal string into Go struct field ServiceAddress.tagged_addresses.Port of type int",
        ),
        (
            r#"{"Name":"a","enable_tag_override":"yes"}"#,
            "json: cannot unmarshal string into Go struct field .enable_tag_override of type bool",
        ),
        (r#"{"Name":"a","Check":{"Interval":"x"}}"#, r#"time: invalid duration "x""#),
        (r#"{"Name":"a","Check":{"Interval":"10"}}"#, r#"time: missing unit in duration "10""#),
        (r#"{"Name":"a","Check":{"Foo":"10"}}"#, r#"json: unknown field "Foo""#),
        (
            r#"{"Name":"a","Check":{"Header":{"a":"b"}}}"#,
            "json: cannot unmarshal string into Go struct field .Alias.Check.Alias.Header of type []string",
        ),
        (
            r#"{"Name":"a","Checks":[{"HTTP":5}]}"#,
            "json: cannot unmarshal number into Go struct field .Alias.Checks.Alias.HTTP of type string",
        ),
        (
            r#"{"Name":"a","Checks":{"HTTP":5}}"#,
            "json: cannot unmarshal object into Go struct field .Alias.Checks of type structs.CheckTypes",
        ),
        (
            r#"{"Name":"a","Weights":{"Passing":"1"}}"#,
            "json: cannot unmarshal string into Go struct field Weights.Alias.Weights.Passing of type int",
        ),
        (
            r#"{"Name":"a","Weights":5}"#,
            "json: cannot unmarshal number into Go struct field .Alias.Weights of type structs.Weights",
        ),
        (r#"{"Name":"a","Namespace":"x"}"#, r#"json: unknown field "Namespace""#),
    ];
    for (body, why) in cases {
        assert_eq!(refused(service(body.as_bytes())), format!("Request decode failed: {why}"), "{body}");
    }
}

#[test]
fn what_is_no_json_is_refused_in_gos_words() {
    let cases = [
        ("", "EOF"),
        (r#"{"Name":"a""#, "unexpected EOF"),
        (r#"{"Name":a}"#, "invalid character 'a' looking for beginning of value"),
        (r#"{"Name" "a"}"#, "invalid character '\"' after object key"),
        (r#"{Name:"a"}"#, "invalid character 'N' looking for beginning of object key string"),
        (r#"{"Name":"a",}"#, "invalid character '}' looking for beginning of object key string"),
        (r#"{"Name":"a\x"}"#, "invalid character 'x' in string escape code"),
        ("{\"Name\":\"a\tb\"}", "invalid character '\\t' in string literal"),
        ("tru5", "invalid character '5' in literal true (expecting 'e')"),
        ("-x", "invalid character 'x' in numeric literal"),
    ];
    for (body, why) in cases {
        assert_eq!(refused(service(body.as_bytes())), format!("Request decode failed: {why}"), "{body}");
    }
}

#[test]
fn services_that_are_read_but_make_no_sense_are_refused() {
    let others = [
        ("{}", "Missing service name"),
        ("null", "Missing service name"),
        (r#"{"Name":"a","Address":"0.0.0.0"}"#, "Invalid service address"),
        (r#"{"Name":"a","Weights":{"Passing":0}}"#, "Invalid Weights: Passing must be greater than 0"),
        (
            r#"{"Name":"a","Meta":{"consul-x":"y"}}"#,
            "Invalid Service Meta: Couldn't load metadata pair ('consul-x', 'y'): Key prefix 'consul-' is reserved for internal use",
        ),
        (
            r#"{"Name":"a","Check":{"HTTP":"http://x"}}"#,
            "Invalid check: Interval must be > 0 for Script, HTTP, H2PING, TCP, UDP or OSService checks",
        ),
        (
            r#"{"Name":"a","Check":{"TTL":"10s","Interval":"5s"}}"#,
            "Invalid check: Interval and TTL cannot both be specified",
        ),
        (r#"{"Name":"a","Checks":[{}]}"#, "Invalid check: TTL must be > 0 for TTL checks"),
        (
            r#"{"Name":"a","Check":{"UDP":"a:1"}}"#,
            "Invalid check: Interval must be > 0 for Script, HTTP, H2PING, TCP, UDP or OSService checks",
        ),
        (
            r#"{"Name":"a","Check":{"OSService":"a","Interval":"1s"}}"#,
            "Invalid check: os_service checks are not supported",
        ),
        (
            r#"{"Name":"a","Check":{"docker_container_id":"x","args":["x"],"Interval":"1s"}}"#,
            "Invalid check: docker checks are not supported",
        ),
        (
            r#"{"Name":"a","Check":{"TTL":"10s","Status":"well"}}"#,
            "Status for checks must 'passing', 'warning', 'critical'",
        ),
        (
            r#"{"Name":"a","Check":{"TTL":"1s","FailuresBeforeWarning":3,"FailuresBeforeCritical":2}}"#,
            "Invalid check: FailuresBeforeWarning can't be higher than FailuresBeforeCritical",
        ),
        (r#"{"Name":"a","Port":70000}"#, "Validation failed: port 70000 is not between 0 and 65535"),
        (r#"{"Name":"a"} and more"#, ""),
        (r#"{"Name":"a\ud800b","Check":null,"Port":null,"Tags":null}"#, ""),
        (r#"{"Name":"a","Check":{}}"#, ""),
        (r#"{"Name":"a","Connect":{"Native":true},"Proxy":null}"#, ""),
    ];
    for (body, why) in others {
        assert_eq!(refused(service(body.as_bytes())), why, "{body}");
    }
}

#[test]
fn a_service_as_python_writes_it() {
    let body = r#"{"name": "web", "id": "web1", "address": "10.0.0.1", "port": 80, "tags": ["a", "b"], "meta": {"v": "1"},
        "weights": {"passing": 10, "warning": 2}, "enabletagoverride": true,
        "tagged_addresses": {"lan": {"address": "10.0.0.2", "port": 81}},
        "checks": [{"http": "http://x/", "interval": "10s", "timeout": "1s", "header": {"A": ["b", "c"]},
                    "tls_skip_verify": true, "DeregisterCriticalServiceAfter": "1m"},
                   {"ttl": 1500000000, "status": "passing", "name": "beat", "checkid": "own",
                    "failures_before": 1}]}"#;
    assert_eq!(refused(service(body.as_bytes())), r#"Request decode failed: json: unknown field "failures_before""#);
    let body = body.replace("\"failures_before\": 1", "\"FailuresBeforeCritical\": 4");
    let (service, checks) = service(body.as_bytes()).unwrap();
    assert_eq!((service.id.as_str(), service.name.as_str(), service.port), ("web1", "web", 80));
    assert_eq!(service.tagged_addresses["lan"].port, 81);
    assert_eq!((service.weights.passing, service.weights.warning), (10, 2));
    assert!(service.enable_tag_override);
    let [http, beat] = checks.as_slice() else { panic!("two checks") };
    assert_eq!(
        (http.id.as_str(), http.name.as_str(), http.kind.as_str()),
        ("service:web1:1", "Service 'web' check", "http")
    );
    assert_eq!(http.status, Status::Critical);
    assert_eq!(http.definition.header["A"], ["b", "c"]);
    assert_eq!(http.definition.deregister_after, Duration::from_mins(1));
    assert!(http.definition.tls_skip_verify);
    assert_eq!((beat.id.as_str(), beat.name.as_str(), beat.kind.as_str()), ("own", "beat", "ttl"));
    assert_eq!((beat.status, beat.definition.ttl), (Status::Passing, Duration::from_millis(1500)));
    assert_eq!(beat.definition.failures_before_critical, 4);
    assert_eq!((beat.service_id.as_str(), beat.service_tags.len()), ("web1", 2));
}

#[test]
fn checks() {
    let found = check(br#"{"Name":"a","service_id":"web","script_args":["x","y"],"Interval":"1m30s"}"#).unwrap();
    assert_eq!((found.id.as_str(), found.service_id.as_str(), found.kind.as_str()), ("a", "web", "script"));
    assert_eq!(found.definition.args, ["x", "y"]);
    assert_eq!(found.definition.interval, Duration::from_secs(90));
    let cases = [
        (r#"{"TTL":"1s"}"#, "Missing check name"),
        (r#"{"Name":"a","TTL":"1s","Status":"x"}"#, "Bad check status"),
        (r#"{"Name":"a","CheckID":"x"}"#, r#"Request decode failed: json: unknown field "CheckID""#),
        (r#"{"Name":"a","TTL":"5"}"#, r#"Request decode failed: time: missing unit in duration "5""#),
        (r#"{"Name":"a","TTL":"5q"}"#, r#"Request decode failed: time: unknown unit "q" in duration "5q""#),
        (r#"{"Name":"a"}"#, "Invalid check: TTL must be > 0 for TTL checks"),
        (r#"{"Name":"a","TTL":"-5s"}"#, "Invalid check: TTL must be > 0 for TTL checks"),
        (r#"{"Name":"a","AliasService":"x","TTL":"5s"}"#, "Invalid check: TTL must be not be set for Alias checks"),
    ];
    for (body, why) in cases {
        assert_eq!(refused(check(body.as_bytes())), why, "{body}");
    }
    assert_eq!(check_update(br#"{"status":"warning","OUTPUT":"hm"}"#).unwrap(), (Status::Warning, String::from("hm")));
    assert_eq!(refused(check_update(b"{}")), "Invalid check status: ''");
}

#[test]
fn catalog() {
    let body = br#"{"Datacenter":"dc1","Node":"n","Address":"10.0.0.9","NodeMeta":{"a":"b"},"TaggedAddresses":{"lan":"x"},
        "Service":{"Service":"db","Port":5432,"Tags":["m"]},"SkipNodeUpdate":true,
        "Check":{"Name":"up","Status":"passing","ServiceID":"db","Definition":{"TCP":"x:1","Interval":"5s","Unknown":1}}}"#;
    let found = register(body).unwrap();
    assert_eq!((found.node.name.as_str(), found.node.meta["a"].as_str(), found.keep_node), ("n", "b", true));
    assert_eq!(found.service.unwrap().id, "db");
    assert_eq!((found.checks[0].id.as_str(), found.checks[0].kind.as_str()), ("up", "tcp"));
    let cases = [
        (
            r#"{"Node":"a","Address":5}"#,
            "Request decode failed: json: cannot unmarshal number into Go struct field RegisterRequest.Address of type string",
        ),
        (
            r#"{"Node":"a","Service":{"Service":"x","Port":"y"}}"#,
            "Request decode failed: json: cannot unmarshal string into Go struct field NodeService.Service.Port of type int",
        ),
        (
            r#"{"Node":"a","Service":{"Service":"x","Name":"y"}}"#,
            r#"Request decode failed: json: unknown field "Name""#,
        ),
        (
            r#"{"ID":5}"#,
            "Request decode failed: json: cannot unmarshal number into Go struct field RegisterRequest.ID of type types.NodeID",
        ),
        (
            r#"{"Namespace":"x"}"#,
            r#"Request decode failed: json: unknown field "Namespace" - Namespaces are a Consul Enterprise feature"#,
        ),
        (r#"{"Address":"x"}"#, "Must provide node"),
        (r#"{"Node":"a"}"#, "Must provide address if SkipNodeUpdate is not set"),
        (
            r#"{"Node":"a","Address":"x","Service":{"ID":"x"}}"#,
            "Must provide service name (Service.Service) when service ID is provided",
        ),
        (r#"{"Node":"a","Address":"x","Check":{"Node":"b","Name":"c"}}"#, r#"check node "b" does not match node "a""#),
    ];
    for (body, why) in cases {
        assert_eq!(refused(register(body.as_bytes())), why, "{body}");
    }
    let (what, datacenter) = deregister(br#"{"Datacenter":"d","Node":"n","ServiceID":"s","Address":"old"}"#).unwrap();
    assert_eq!(
        (what.node.as_str(), what.service_id.as_deref(), what.check_id, datacenter.as_str()),
        ("n", Some("s"), None, "d")
    );
    assert_eq!(refused(deregister(b"{}")), "Must provide node");
}

#[test]
fn sessions() {
    let made = session(b"", "here").unwrap();
    assert_eq!(
        (made.node.as_str(), made.lock_delay, made.behavior, made.ttl),
        ("here", Duration::from_secs(15), Behavior::Release, None)
    );
    assert_eq!(made.node_checks, [AGENT_CHECK]);
    // As Patroni asks for one.
    let made =
        session(br#"{"name":"p","ttl":"30s","lockdelay":"1ms","checks":[],"behavior":"delete","what":1}"#, "here")
            .unwrap();
    assert_eq!((made.ttl, made.lock_delay), (Some(Duration::from_secs(30)), Duration::from_millis(1)));
    assert!(made.node_checks.is_empty() && made.behavior == Behavior::Delete);
    assert_eq!(session(br#"{"LockDelay":5}"#, "n").unwrap().lock_delay, Duration::from_secs(5));
    assert_eq!(session(br#"{"NodeChecks":["a"],"ServiceChecks":[{"ID":"b"}]}"#, "n").unwrap().node_checks, ["a"]);
    assert_eq!(session(br#"{"Checks":["a"]}"#, "n").unwrap().node_checks, [AGENT_CHECK, "a"]);
    assert!(session(br#"{"NodeChecks":[]}"#, "n").unwrap().node_checks.is_empty());
    let cases = [
        (
            r#"{"TTL":5}"#,
            "Request decode failed: json: cannot unmarshal number into Go struct field .Alias.TTL of type string",
        ),
        (r#"{"LockDelay":"x"}"#, r#"Request decode failed: time: invalid duration "x""#),
        (r#"{"TTL":"x"}"#, r#"Session TTL 'x' invalid: time: invalid duration "x""#),
        (r#"{"TTL":"1s"}"#, "Invalid Session TTL '1000000000', must be between [10s=24h0m0s]"),
        (r#"{"Behavior":"x"}"#, "Invalid Behavior setting 'x'"),
        (
            r#"{"ServiceChecks":["x"]}"#,
            "Request decode failed: json: cannot unmarshal string into Go struct field .Alias.ServiceChecks of type structs.ServiceCheck",
        ),
    ];
    for (body, why) in cases {
        assert_eq!(refused(session(body.as_bytes(), "n")), why, "{body}");
    }
}

#[test]
fn transactions() {
    let body = br#"[{"KV":{"Verb":"cas","Key":"a","Value":"aGk=","Flags":5,"Index":3,"Session":"x"}},{},null,
        {"Node":{"Verb":"get","Node":{"Node":"n"}}},
        {"service":{"verb":"set","node":"n","service":{"service":"web","port":1}}},
        {"Check":{"Verb":"delete-cas","Check":{"Node":"n","CheckID":"c","ModifyIndex":9}}}]"#;
    let operations = txn(body).unwrap().unwrap();
    let [
        TxnOp::Kv(kv),
        TxnOp::Node(CatalogVerb::Get, ..),
        TxnOp::Service(CatalogVerb::Set, on, ..),
        TxnOp::Check(CatalogVerb::DeleteCas, _, _, 9),
    ] = operations.as_slice()
    else {
        panic!("{operations:?}")
    };
    assert_eq!(
        (kv.verb, kv.value.as_ref(), kv.flags, kv.index, on.as_str()),
        (KvVerb::Cas, b"hi".as_slice(), 5, 3, "n")
    );
    let cases = [
        (r#"{"KV":1}"#, "json: cannot unmarshal object into Go value of type api.TxnOps"),
        (r#"[{"KV":{"Verb":"set","Key":"a","Value":"!!"}}]"#, "illegal base64 data at input byte 0"),
        (r#"[{"KV":{"Verb":"set","Key":"a","Value":"aGk"}}]"#, "illegal base64 data at input byte 0"),
        (
            r#"[{"KV":{"Value":5}}]"#,
            "json: cannot unmarshal number into Go struct field KVTxnOp.KV.Value of type []uint8",
        ),
        (
            r#"[{"KV":{"Flags":-5}}]"#,
            "json: cannot unmarshal number -5 into Go struct field KVTxnOp.KV.Flags of type uint64",
        ),
        (r#"[{"Foo":1}]"#, r#"json: unknown field "Foo""#),
    ];
    for (body, why) in cases {
        assert_eq!(refused(txn(body.as_bytes())), format!("Failed to parse body: {why}"), "{body}");
    }
    let many = format!("[{}]", vec!["{}"; OPERATIONS_MAX + 1].join(","));
    assert_eq!(refused(txn(many.as_bytes())), "Transaction contains too many operations (129 > 128)");
    let errors = txn(br#"[{"KV":{"Verb":"get","Key":"a"}},{"KV":{"Verb":"fly","Key":"a"}}]"#).unwrap().unwrap_err();
    assert_eq!((errors[0].op, errors[0].what.as_str()), (1, "unknown KV operation: fly"));
}

#[test]
fn durations_are_gos() {
    let cases = [
        ("0", Ok(0)),
        ("1.5h", Ok(5_400_000_000_000)),
        ("1h2m3.004s", Ok(3_723_004_000_000)),
        ("-1ms", Ok(-1_000_000)),
        ("+5us", Ok(5_000)),
        ("2µs", Ok(2_000)),
        (".5s", Ok(500_000_000)),
        ("", Err(r#"time: invalid duration """#)),
        (".s", Err(r#"time: invalid duration ".s""#)),
        ("3000000h", Err(r#"time: invalid duration "3000000h""#)),
        ("1d", Err(r#"time: unknown unit "d" in duration "1d""#)),
    ];
    for (text, wanted) in cases {
        assert_eq!(
            duration::nanos(text).as_ref().map_err(String::as_str),
            wanted.as_ref().map_err(|why| *why),
            "{text}"
        );
    }
    let printed = [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (10_000_000, "10ms"),
        (1_500_000_000, "1.5s"),
        (90_000_000_000, "1m30s"),
        (86_400_000_000_000, "24h0m0s"),
    ];
    for (nanos, text) in printed {
        assert_eq!(duration::print(Duration::from_nanos(nanos)), text);
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<i32>().prop_map(|number| (f64::from(number) / 4.0).into()),
        "\\PC{0,8}".prop_map(Into::into),
    ];
    let key = prop_oneof![
        "[a-zA-Z]{1,6}",
        Just(String::from("Check")),
        Just(String::from("checks")),
        Just(String::from("KV")),
        Just(String::from("Service")),
        Just(String::from("Name")),
        Just(String::from("TTL")),
    ];
    leaf.prop_recursive(4, 30, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn everything(body: &[u8]) {
    let _ = service(body);
    let _ = check(body);
    let _ = check_update(body);
    let _ = register(body);
    let _ = deregister(body);
    let _ = session(body, "n");
    let _ = txn(body);
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(body in proptest::collection::vec(any::<u8>(), 0..80)) {
        everything(&body);
    }

    #[test]
    fn nor_is_any_json(value in any_json(), cut in 0usize..200) {
        let body = value.to_string();
        everything(body.as_bytes());
        everything(&body.as_bytes()[..cut.min(body.len())]);
    }

    #[test]
    fn json_is_read_as_others_read_it(value in any_json()) {
        let ours = json::parse(value.to_string().as_bytes()).unwrap();
        prop_assert_eq!(back(&ours), value);
    }

    #[test]
    fn a_printed_duration_is_read_back(nanos in 0..i64::MAX) {
        let printed = duration::print(Duration::from_nanos(nanos.unsigned_abs()));
        // Go's own reading of long fractions is a float's as well.
        prop_assert!((duration::nanos(&printed).unwrap() - nanos).abs() <= 1);
    }

    #[test]
    fn what_is_registered_is_what_was_meant(name in "[a-z]{1,8}", tags in proptest::collection::vec("\\PC{0,5}", 0..4), port: u16, upper: bool) {
        let body = serde_json::json!({"Name": name, "Tags": tags, "Port": port}).to_string();
        let body = if upper { body.replace("\"Name\"", "\"NAME\"").replace("\"Tags\"", "\"tags\"") } else { body };
        let (found, checks) = service(body.as_bytes()).unwrap();
        prop_assert_eq!((found.name, found.tags, found.port, checks.len()), (name, tags, port, 0));
    }
}

fn back(value: &json::Json) -> serde_json::Value {
    use serde_json::Value;
    match value {
        json::Json::Null => Value::Null,
        json::Json::Bool(flag) => (*flag).into(),
        json::Json::Number(number) => serde_json::from_str(number).unwrap(),
        json::Json::Text(text) => text.clone().into(),
        json::Json::List(items) => items.iter().map(back).collect::<Vec<_>>().into(),
        json::Json::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), back(value))).collect())
        }
    }
}
