use proptest::collection::{btree_map, hash_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::event::SENT_AT;
use crate::wire::events;
use prost::Message;

fn event() -> Event {
    Event {
        target: Target::Application,
        kind: Type::SpecUpdate,
        resource_id: "app_uid".to_owned(),
        event_id: "app_uid_7".to_owned(),
        subject: Some("argocd/app".to_owned()),
        data: Bytes::from_static(b"{}"),
        extensions: BTreeMap::from([(SENT_AT.to_owned(), "2026-01-01T00:00:00Z".to_owned())]),
    }
}

fn attribute(attr: Attr) -> CloudEventAttributeValue {
    CloudEventAttributeValue { attr: Some(attr) }
}

fn read(wire: &CloudEvent, name: &str) -> Option<Attr> {
    wire.attributes.get(name).and_then(|value| value.attr.clone())
}

#[test]
fn the_envelope_is_the_one_of_argocd_agent() {
    let wire = event().into_wire("thane://hub");
    let envelope = (&*wire.id, &*wire.source, &*wire.spec_version, &*wire.r#type);
    assert_eq!(envelope, ("", "thane://hub", "1.0", "io.argoproj.argocd-agent.event.spec-update"));
    let expected = [
        ("dataschema", Attr::CeUri("application".into())),
        ("datacontenttype", Attr::CeString("application/json".into())),
        ("subject", Attr::CeString("argocd/app".into())),
        ("resourceid", Attr::CeString("app_uid".into())),
        ("eventid", Attr::CeString("app_uid_7".into())),
        ("sentat", Attr::CeString("2026-01-01T00:00:00Z".into())),
    ];
    assert_eq!(wire.attributes.len(), expected.len());
    for (name, value) in expected {
        assert_eq!(read(&wire, name), Some(value), "{name}");
    }
    assert_eq!(wire.data, Some(Data::BinaryData(Bytes::from_static(b"{}"))));
}

#[test]
fn an_event_without_payload_has_empty_data_and_no_content_type() {
    let wire = event().acknowledgement().into_wire("");
    assert_eq!(wire.data, Some(Data::BinaryData(Bytes::new())));
    assert_eq!((read(&wire, "datacontenttype"), read(&wire, "subject")), (None, None));
    assert_eq!(read(&wire, "dataschema"), Some(Attr::CeUri("eventProcessed".into())));
    assert!(read(&wire, "sentat").is_some(), "an acknowledgement repeats what the event carried");
}

#[test]
fn other_ways_to_write_the_same_are_understood() {
    let mut wire = event().into_wire("");
    wire.attributes.insert("dataschema".into(), attribute(Attr::CeString("application".into())));
    wire.attributes.insert("time".into(), attribute(Attr::CeTimestamp(prost_types::Timestamp::default())));
    wire.data = Some(Data::TextData("{}".into()));
    assert_eq!(Event::from_wire(wire), Ok(event()));
    let mut wire = event().into_wire("");
    for (name, attr) in [
        ("flag", Attr::CeBoolean(true)),
        ("number", Attr::CeInteger(-3)),
        ("bytes", Attr::CeBytes(Bytes::from_static(b"\x00\xff"))),
        ("at", Attr::CeTimestamp(prost_types::Timestamp { seconds: 0, nanos: 5 })),
    ] {
        wire.attributes.insert(name.into(), attribute(attr));
    }
    let extensions = Event::from_wire(wire).unwrap().extensions;
    let read = |name: &str| extensions[name].clone();
    assert_eq!((read("flag"), read("number"), read("bytes")), ("true".into(), "-3".into(), "AP8=".into()));
    assert_eq!(read("at"), "1970-01-01T00:00:00.000000005Z");
}

#[test]
fn what_is_wrong_is_said_and_can_be_acknowledged() {
    type Change = fn(&mut CloudEvent);
    let cases: [(Change, Fault); 9] = [
        (|wire| wire.r#type.clear(), Fault::Missing("type")),
        (|wire| drop(wire.attributes.remove("dataschema")), Fault::Missing("target")),
        (|wire| wire.r#type = "x".repeat(NAME_MAX + 1), Fault::TooLong("type")),
        (|wire| wire.data = Some(Data::ProtoData(prost_types::Any::default())), Fault::Payload),
        (|wire| drop(wire.attributes.insert("a".into(), CloudEventAttributeValue { attr: None })), Fault::Attribute),
        (
            |wire| {
                let far = prost_types::Timestamp { seconds: i64::MAX, nanos: i32::MIN };
                wire.attributes.insert("a".into(), attribute(Attr::CeTimestamp(far)));
            },
            Fault::Attribute,
        ),
        (
            |wire| drop(wire.attributes.insert("a".into(), attribute(Attr::CeString("x".repeat(VALUE_MAX + 1))))),
            Fault::TooLong("attribute"),
        ),
        (
            |wire| drop(wire.attributes.insert("x".repeat(1000), attribute(Attr::CeInteger(1)))),
            Fault::TooLong("name of an attribute"),
        ),
        (
            |wire| {
                for n in 0..=ATTRIBUTES_MAX {
                    wire.attributes.insert(format!("a{n}"), attribute(Attr::CeInteger(1)));
                }
            },
            Fault::TooMany(ATTRIBUTES_MAX + 5),
        ),
    ];
    for (change, fault) in cases {
        let mut wire = event().into_wire("");
        change(&mut wire);
        let error = Event::from_wire(wire).unwrap_err();
        assert_eq!(error.fault, fault);
        let ack = error.acknowledgement().unwrap();
        assert_eq!((&*ack.resource_id, &*ack.event_id, &ack.kind), ("app_uid", "app_uid_7", &Type::Processed));
    }
}

#[test]
fn an_event_that_says_not_which_it_is_cannot_be_acknowledged() {
    for (name, words) in [("resourceid", "resource id"), ("eventid", "event id")] {
        for value in [None, Some(""), Some("long")] {
            let mut wire = event().into_wire("");
            wire.attributes.remove(name);
            let long = "x".repeat(VALUE_MAX + 1);
            let value = value.map(|value| if value == "long" { long.as_str() } else { value });
            if let Some(value) = value {
                wire.attributes.insert(name.into(), attribute(Attr::CeString(value.into())));
            }
            let error = Event::from_wire(wire).unwrap_err();
            let expected = if value == Some(&long) { Fault::TooLong(words) } else { Fault::Missing(words) };
            assert_eq!((error.fault.clone(), error.acknowledgement()), (expected, None));
        }
    }
}

#[test]
fn reserved_names_cannot_be_smuggled_in_as_extensions() {
    let mut smuggler = event();
    for name in RESERVED {
        smuggler.extensions.insert(name.to_owned(), "other".to_owned());
    }
    assert_eq!(Event::from_wire(smuggler.into_wire("")), Ok(event()));
}

fn attr() -> impl Strategy<Value = Option<Attr>> {
    option::of(prop_oneof![
        any::<bool>().prop_map(Attr::CeBoolean),
        any::<i32>().prop_map(Attr::CeInteger),
        ".{0,20}".prop_map(Attr::CeString),
        ".{0,20}".prop_map(Attr::CeUri),
        ".{0,20}".prop_map(Attr::CeUriRef),
        vec(any::<u8>(), 0..20).prop_map(|bytes| Attr::CeBytes(bytes.into())),
        (any::<i64>(), any::<i32>())
            .prop_map(|(seconds, nanos)| Attr::CeTimestamp(prost_types::Timestamp { seconds, nanos })),
    ])
}

fn cloud_event() -> impl Strategy<Value = CloudEvent> {
    let name = prop_oneof![proptest::sample::select(&RESERVED[..]).prop_map(str::to_owned), "[a-z]{0,6}"];
    let data = option::of(prop_oneof![
        vec(any::<u8>(), 0..20).prop_map(|bytes| Data::BinaryData(bytes.into())),
        ".{0,20}".prop_map(Data::TextData),
        Just(Data::ProtoData(prost_types::Any::default())),
    ]);
    let attributes = hash_map(name, attr().prop_map(|attr| CloudEventAttributeValue { attr }), 0..80);
    (".{0,8}", ".{0,8}", ".{0,150}", attributes, data).prop_map(|(id, source, kind, attributes, data)| CloudEvent {
        id,
        source,
        spec_version: "0.3".into(),
        r#type: kind,
        attributes,
        data,
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let target = prop_oneof![Just("application"), Just("resourceResync"), Just("invented")];
    let kind = prop_oneof![
        Just("io.argoproj.argocd-agent.event.create"),
        Just("dev.thane.event.digest"),
        Just("PATCH"),
        Just("invented"),
    ];
    let extensions = btree_map("x[a-z]{0,8}", ".{0,20}", 0..5);
    let data = vec(any::<u8>(), 0..50);
    (target, kind, ".{1,20}", ".{1,20}", option::of(".{0,9}"), data, extensions).prop_map(
        |(target, kind, resource_id, event_id, subject, data, extensions)| Event {
            target: Target::of_name(target),
            kind: Type::of_name(kind),
            resource_id,
            event_id,
            subject,
            data: data.into(),
            extensions,
        },
    )
}

proptest! {
    #[test]
    fn any_cloud_event_is_read_or_refused(wire in cloud_event()) {
        if let Ok(event) = Event::from_wire(wire) {
            prop_assert_eq!(Event::from_wire(event.clone().into_wire("x")), Ok(event));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(events::Event { event: Some(wire) }) = events::Event::decode(bytes.as_slice()) {
            let _ = Event::from_wire(wire);
        }
    }

    #[test]
    fn an_event_survives_the_wire(event in any_event()) {
        let bytes = events::Event { event: Some(event.clone().into_wire("thane://hub")) }.encode_to_vec();
        let wire = events::Event::decode(bytes.as_slice()).unwrap().event.unwrap();
        prop_assert_eq!(Event::from_wire(wire), Ok(event));
    }
}
