//! Rules that no single answer shows.

use jiff::ToSpan;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Target, apply, track_update};
use super::kinds::{Bench, config_map, now, owners};
use super::{API_VERSION, custom_schema};
use crate::patch::fields::FieldSet;
use crate::patch::managed::keep_times_if_unchanged;

fn bench() -> Bench {
    Bench::new("ConfigMap", config_map())
}

#[expect(clippy::needless_pass_by_value, reason = "reads better with json! in place")]
fn with(data: Value) -> Value {
    json!({"metadata": {"name": "a"}, "data": data})
}

#[test]
fn nothing_changes_when_nothing_is_changed() {
    let mut bench = bench();
    let live = bench.apply(None, with(json!({"k": "v"})), "m1").unwrap();
    let live = bench.write(Some(&live), with(json!({"k": "v", "l": "w"})), "u1");
    bench.now = now() + 1.hour();
    assert_eq!(bench.apply(Some(&live), with(json!({"k": "v"})), "m1").unwrap(), live);
    assert_eq!(bench.write(Some(&live), live.clone(), "u1"), live);
    let mut without = live.clone();
    without["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(bench.write(Some(&live), without, "u2"), live);
}

#[test]
fn managers_can_be_reset() {
    let bench = bench();
    let live = bench.write(None, with(json!({"k": "v9", "n": "1"})), "u1");
    for reset in [json!([{}]), json!([])] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = reset;
        let live = bench.write(Some(&live), new, "u1");
        assert_eq!(owners(&live), json!({}));
        let live = bench.write(Some(&live), with(json!({"k": "v9", "n": "1", "q": "1"})), "u1");
        assert_eq!(owners(&live), json!({}), "updates are not tracked until the next apply");
        let failure = bench.apply(Some(&live), with(json!({"q": "2"})), "m1").unwrap_err();
        let message = "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.q";
        assert_eq!(failure.message, message);
        let live = bench.force(Some(&live), with(json!({"q": "2"})), "m1");
        let before = json!({"f:data": {".": {}, "f:k": {}, "f:n": {}}});
        assert_eq!(owners(&live), json!({"m1 Apply": {"f:data": {"f:q": {}}}, "before-first-apply Update": before}));
    }
}

#[test]
fn unusable_managed_fields_in_a_request_are_ignored() {
    let bench = bench();
    let live = bench.write(None, with(json!({"k": "v"})), "u1");
    for bad in [
        json!([{"manager": "x", "operation": "Zap"}]),
        json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2"}]),
        json!([{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1"}]),
        json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f": {}}}]),
        json!("x"),
    ] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = bad;
        assert_eq!(bench.write(Some(&live), new, "u1"), live);
    }
}

#[test]
fn only_so_many_updaters_are_remembered() {
    let mut bench = bench();
    let mut data = json!({});
    let mut live = None;
    for at in 0..13 {
        bench.now = now() + at.seconds();
        data[format!("k{at:02}")] = "v".into();
        live = Some(bench.write(live.as_ref(), with(data.clone()), &format!("u{at:02}")));
    }
    let owners = owners(&live.unwrap());
    assert_eq!(owners.as_object().unwrap().len(), 10);
    let ancient = json!({"f:data": {".": {}, "f:k00": {}, "f:k01": {}, "f:k02": {}, "f:k03": {}}});
    assert_eq!(owners["ancient-changes Update"], ancient);
    assert_eq!(owners["u04 Update"], json!({"f:data": {"f:k04": {}}}));
}

#[test]
fn kubectl_takes_over_what_it_applied_client_side() {
    let bench = bench();
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let body = json!({"metadata": {"name": "a", "annotations": {annotation: last.to_string()}}, "data": {"k": "v"}});
    let live = bench.write(None, body, "kubectl-client-side-apply");
    let applied = bench.apply(Some(&live), with(json!({"k": "new"})), "kubectl").unwrap();
    assert_eq!(applied["data"]["k"], "new");
    let text = applied["metadata"]["annotations"][annotation].as_str().unwrap();
    assert_eq!(
        text,
        format!(
            "{}\n",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "new"}})
        )
    );
    assert!(bench.apply(Some(&live), with(json!({"k": "new"})), "other").is_err());
    let live = bench.write(Some(&live), json!({"metadata": live["metadata"], "data": {"k": "edited"}}), "editor");
    let failure = bench.apply(Some(&live), with(json!({"k": "new"})), "kubectl").unwrap_err();
    assert_eq!(failure.message, "Apply failed with 1 conflict: conflict with \"editor\" using v1: .data.k");
}

#[test]
fn a_change_of_times_alone_is_no_change() {
    let mut bench = bench();
    let live = bench.write(None, with(json!({"k": "v"})), "u1");
    bench.now = now() + 1.minute();
    let mut again = bench.write(None, with(json!({"k": "v"})), "u1");
    assert_ne!(again, live);
    keep_times_if_unchanged(&live, &mut again);
    assert_eq!(again, live);
    let mut other = bench.write(None, with(json!({"k": "w"})), "u1");
    let before = other.clone();
    keep_times_if_unchanged(&live, &mut other);
    assert_eq!(other, before);
}

#[test]
fn versions_that_are_gone_are_forgotten_and_others_are_honoured() {
    let schema = custom_schema();
    let reset = FieldSet::new();
    let old_version = [("patchprobe.example.com/v0".to_owned(), std::sync::Arc::clone(&schema))];
    let target = |api_version, other_versions| Target {
        schema: &schema,
        api_version,
        kind: "Thing",
        builtin: false,
        subresource: "",
        reset: &reset,
        other_versions,
    };
    let object = |api_version: &str, name: &str| json!({"apiVersion": api_version, "kind": "Thing", "metadata": {"name": "t"}, "spec": {"name": name}});
    let mut live = object("patchprobe.example.com/v0", "1");
    track_update(&target("patchprobe.example.com/v0", &[]), None, &mut live, "u0", now());
    let mut live_now = live.clone();
    live_now["apiVersion"] = API_VERSION.into();
    let failure =
        apply(&target(API_VERSION, &old_version), Some(&live_now), &object(API_VERSION, "2"), "m", false, now());
    assert_eq!(
        failure.unwrap_err().message,
        "Apply failed with 1 conflict: conflict with \"u0\" using patchprobe.example.com/v0: .spec.name"
    );
    let made = apply(&target(API_VERSION, &[]), Some(&live_now), &object(API_VERSION, "2"), "m", false, now()).unwrap();
    assert_eq!(owners(&made), json!({"m Apply": {"f:spec": {"f:name": {}}}}));
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..4i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("spec"),
        Just("items"),
        Just("name"),
        Just("tags"),
        Just("sub"),
        Just("a"),
        Just("b"),
        Just("free"),
        Just("whole"),
        Just("fixed"),
        Just("metadata"),
        Just("labels"),
        Just("finalizers"),
        Just("managedFields"),
        Just("status"),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_is_answered(live in value(), body in value(), force in any::<bool>()) {
        let schema = custom_schema();
        let reset = FieldSet::of(&["status"]);
        let target = Target {
            schema: &schema, api_version: API_VERSION, kind: "Thing", builtin: false, subresource: "", reset: &reset,
            other_versions: &[],
        };
        let mut new = body.clone();
        track_update(&target, Some(&live), &mut new, "u", now());
        track_update(&target, None, &mut new, "u", now());
        let mut applied = body;
        if let Some(fields) = applied.as_object_mut() {
            fields.insert("apiVersion".into(), API_VERSION.into());
            fields.insert("kind".into(), "Thing".into());
        }
        if let Ok(once) = apply(&target, Some(&live), &applied, "m", force, now()) {
            let again = apply(&target, Some(&once), &applied, "m", force, now() + 1.hour());
            prop_assert_eq!(again.unwrap(), once, "applying the same again changes nothing");
        }
    }
}
