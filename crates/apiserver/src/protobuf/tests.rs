use proptest::prelude::*;
use serde_json::{Value, json};

use super::decode;

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Objects that Go filled at random, encoded, and wrote as JSON after decoding them again: one of every kind and list.
fn objects() -> impl Iterator<Item = (Vec<u8>, Value)> {
    include_str!("tests/objects.txt").lines().map(|line| {
        let (body, json) = line.split_once(' ').unwrap();
        (unhex(body), serde_json::from_str(json).unwrap())
    })
}

#[test]
fn every_kind_decodes_to_the_json_that_go_writes() {
    for (body, mut expected) in objects() {
        let object = decode(&body, "v1", "Any").unwrap();
        expected["apiVersion"] = object["apiVersion"].clone();
        expected["kind"] = object["kind"].clone();
        assert!(object == expected, "{}\n ours: {object}\nwants: {expected}", object["kind"]);
    }
}

/// An envelope around a message.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, raw)].concat()
}

#[test]
fn what_cannot_be_decoded_is_refused_as_in_kubernetes() {
    let check = |body: &[u8], message: &str| {
        let failure = decode(body, "v1", "ConfigMap").unwrap_err();
        assert_eq!((failure.code, failure.reason, failure.message.as_str()), (400, "BadRequest", message));
    };
    let unrecognized = |why: &str| format!("the object provided is unrecognized (must be of type ConfigMap): {why}");
    let prefix = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (68656c6c6f)";
    check(b"hello", &unrecognized(prefix));
    check(b"", &unrecognized("empty data (<empty>)"));
    check(b"k8s\0", &unrecognized("empty body (6b387300)"));
    check(b"k8s\0\xff\xff\xff", &unrecognized("unexpected EOF (6b387300ffffff)"));
    let zap = "Zap in version \"v1\" cannot be handled as a ConfigMap: no kind \"Zap\" is registered for version \
               \"v1\" in scheme \"pkg/runtime/scheme.go:110\"";
    check(&envelope("v1", "Zap", b""), zap);
    let short = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF";
    check(&envelope("v1", "ConfigMap", b"\x0a\x7f"), short);
    let failure = decode(&envelope("v1", "ConfigMap", b"\x08\x01"), "v1", "ConfigMap").unwrap_err();
    assert!(failure.message.contains("proto: wrong wireType = 0 for field"), "{failure}");
}

#[test]
fn what_is_unknown_is_passed_over() {
    let check = |raw: &[u8]| {
        let object = decode(&envelope("", "", raw), "v1", "ConfigMap").unwrap();
        assert_eq!(object, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "z"}}));
    };
    check(b"\x0a\x03\x0a\x01z");
    check(b"\x0a\x03\x0a\x01z\xf8\x01\x01");
    check(b"\x0a\x03\x0a\x01z\xfb\x01\xfc\x01");
}

#[test]
fn options_are_known_in_every_group() {
    let known = |version: &str, kind: &str| decode(&envelope(version, kind, b""), version, kind).is_ok();
    assert!(known("apps/v1", "DeleteOptions") && known("v1", "Pod") && !known("v1", "Thing"));
}

#[test]
fn a_small_body_cannot_become_a_large_object() {
    // A list of very many empty containers: two bytes each on the wire.
    let mut pod = vec![0x12];
    let containers = [0x12, 0x00].repeat(300_000);
    let mut len = containers.len();
    while len > 127 {
        pod.push(u8::try_from(len & 127).unwrap() | 128);
        len >>= 7;
    }
    pod.push(u8::try_from(len).unwrap());
    pod.extend(containers);
    let error = super::message::decode(super::Table::get(), "core.Pod", &pod).unwrap_err();
    assert_eq!(error, super::Undecodable::TooLarge);
}

proptest! {
    #[test]
    fn any_bytes_are_answered(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&body, "v1", "Pod");
        for kind in ["Pod", "Service", "Event"] {
            let _ = decode(&envelope("v1", kind, &body[..body.len().min(120)]), "v1", "Pod");
        }
    }

    #[test]
    fn damaged_objects_are_answered(which in 0..64_usize, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let Some((mut body, _)) = objects().nth(which) else { return Ok(()) };
        let at = at.index(body.len());
        body[at] = byte;
        let _ = decode(&body, "v1", "Pod");
        let _ = decode(&body[..at], "v1", "Pod");
    }
}
