//! Built-in kinds: what kube-apiserver answered, with as much of their schemas as the cases touch.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{Target, apply, reset_fields, track_update};
use super::normal;
use crate::failure::Failure;
use crate::patch::testing::schema;
use crate::schema::Schema;

pub(super) fn now() -> Timestamp {
    "2026-11-15T16:00:00Z".parse().unwrap()
}

pub(super) fn config_map() -> Arc<Schema> {
    schema(&json!({"type": "object", "properties": {
        "data": {"type": "object", "additionalProperties": {"type": "string"}},
        "immutable": {"type": "boolean"},
    }}))
}

fn pod() -> Arc<Schema> {
    let string = json!({"type": "string"});
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
        "items": {"type": "object", "required": ["containerPort"], "properties": {
            "containerPort": {"type": "integer"}, "name": string, "protocol": {"type": "string", "default": "TCP"},
        }},
    });
    let quantities = json!({"type": "object", "additionalProperties": {"type": "string", "format": "quantity"}});
    let containers = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {
            "name": string, "image": string, "imagePullPolicy": string, "ports": ports,
            "resources": {"type": "object", "properties": {"limits": quantities}},
        }},
    });
    let conditions = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {"type": "object", "required": ["type", "status"], "properties": {
            "type": string, "status": string,
            "lastProbeTime": {"type": "string", "format": "date-time"},
        }},
    });
    let tolerations = json!({"type": "array", "items": {"type": "object", "properties": {"key": string}}});
    schema(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "containers": containers, "dnsPolicy": string, "tolerations": tolerations,
            "securityContext": {"type": "object", "properties": {"runAsUser": {"type": "integer"}}},
        }},
        "status": {"type": "object", "properties": {"phase": string, "message": string, "conditions": conditions}},
    }}))
}

/// A kind with everything an operation on it needs.
pub(super) struct Bench {
    schema: Arc<Schema>,
    kind: &'static str,
    pub(super) now: Timestamp,
}

impl Bench {
    pub(super) fn new(kind: &'static str, schema: Arc<Schema>) -> Self {
        Self { schema, kind, now: now() }
    }

    fn with<T>(&self, subresource: &str, run: impl FnOnce(&Target<'_>) -> T) -> T {
        let reset = reset_fields("v1", self.kind, self.kind != "ConfigMap", subresource);
        run(&Target {
            schema: &self.schema,
            api_version: "v1",
            kind: self.kind,
            builtin: true,
            subresource,
            reset: &reset,
            other_versions: &[],
        })
    }

    fn full(&self, mut body: Value) -> Value {
        for (name, value) in [("apiVersion", "v1"), ("kind", self.kind)] {
            if body.get(name).is_none() {
                body[name] = value.into();
            }
        }
        body
    }

    pub(super) fn apply(&self, live: Option<&Value>, body: Value, manager: &str) -> Result<Value, Failure> {
        self.with("", |target| apply(target, live, &self.full(body), manager, false, self.now))
    }

    pub(super) fn force(&self, live: Option<&Value>, body: Value, manager: &str) -> Value {
        self.with("", |target| apply(target, live, &self.full(body), manager, true, self.now)).unwrap()
    }

    pub(super) fn apply_status(&self, live: &Value, body: Value, manager: &str) -> Result<Value, Failure> {
        self.with("status", |target| apply(target, Some(live), &self.full(body), manager, false, self.now))
    }

    pub(super) fn write(&self, live: Option<&Value>, body: Value, manager: &str) -> Value {
        let mut new = self.full(body);
        self.with("", |target| track_update(target, live, &mut new, manager, self.now));
        new
    }

    pub(super) fn write_status(&self, live: &Value, body: Value, manager: &str) -> Value {
        let mut new = self.full(body);
        self.with("status", |target| track_update(target, Some(live), &mut new, manager, self.now));
        new
    }
}

/// Who owns what: `manager operation subresource` to fields.
pub(super) fn owners(object: &Value) -> Value {
    let mut out = serde_json::Map::new();
    for entry in
        normal(object.clone()).pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten()
    {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        let mut key = format!("{} {}", text("manager"), text("operation"));
        if !text("subresource").is_empty() {
            key = format!("{key} {}", text("subresource"));
        }
        out.insert(key, entry["fieldsV1"].clone());
    }
    Value::Object(out)
}

#[test]
fn a_config_map_goes_from_hand_to_hand() {
    let bench = Bench::new("ConfigMap", config_map());
    let with = |data: Value| json!({"metadata": {"name": "a"}, "data": data});
    let first = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "v", "j": "w"}});
    let live = bench.apply(None, first, "m1").unwrap();
    let m1 = json!({"f:data": {"f:j": {}, "f:k": {}}, "f:metadata": {"f:labels": {"f:x": {}}}});
    assert_eq!(owners(&live), json!({"m1 Apply": m1}));

    let live = bench.apply(Some(&live), with(json!({"k": "v"})), "m2").unwrap();
    assert_eq!(owners(&live), json!({"m1 Apply": m1, "m2 Apply": {"f:data": {"f:k": {}}}}));
    let times = live["metadata"]["managedFields"].as_array().unwrap().iter().map(|entry| entry.get("time").is_some());
    assert_eq!(times.collect::<Vec<_>>(), [false, true], "who changes nothing has no time");

    let failure = bench.apply(Some(&live), with(json!({"k": "v2"})), "m2").unwrap_err();
    assert_eq!(failure.message, "Apply failed with 1 conflict: conflict with \"m1\": .data.k");
    let many = json!({"metadata": {"name": "a", "labels": {"x": "2"}}, "data": {"k": "v2", "j": "e"}});
    let failure = bench.apply(Some(&live), many, "m3").unwrap_err();
    assert_eq!(
        failure.message,
        "Apply failed with 4 conflicts: conflicts with \"m1\":\n- .data.j\n- .data.k\n- .metadata.labels.x\n\
         conflicts with \"m2\":\n- .data.k"
    );
    let causes = failure.details.unwrap().causes;
    assert_eq!((causes.len(), causes[3].reason, causes[3].field.as_str()), (4, "FieldManagerConflict", ".data.k"));

    let live = bench.force(Some(&live), with(json!({"k": "v2"})), "m2");
    let live = bench.apply(Some(&live), with(json!({"j": "w"})), "m1").unwrap();
    assert_eq!(live["data"], json!({"j": "w", "k": "v2"}));
    assert!(live["metadata"].get("labels").is_none());
    assert_eq!(owners(&live), json!({"m1 Apply": {"f:data": {"f:j": {}}}, "m2 Apply": {"f:data": {"f:k": {}}}}));

    let live = bench.write(Some(&live), with(json!({"k": "v9", "n": "1"})), "u1");
    assert_eq!(owners(&live), json!({"u1 Update": {"f:data": {"f:k": {}, "f:n": {}}}}));
}

#[test]
fn what_is_applied_must_fit() {
    let bench = Bench::new("ConfigMap", config_map());
    let live = bench.apply(None, json!({"metadata": {"name": "a"}, "data": {"k": "v"}}), "m1").unwrap();
    let check = |body: Value, code: u16, message: &str| {
        let failure = bench.apply(Some(&live), body, "m1").unwrap_err();
        assert_eq!((failure.code, failure.message.as_str()), (code, message));
    };
    let bad = |why: &str| format!("failed to create typed patch object (/a; /v1, Kind=ConfigMap): {why}");
    let with = |name: &str, value: Value| json!({"metadata": {"name": "a"}, name: value});
    check(json!({"kind": "Secret"}), 400, "invalid object type: /v1, Kind=Secret");
    check(json!({"kind": "", "apiVersion": ""}), 400, "invalid object type: /, Kind=");
    check(json!({"apiVersion": "a/b/c"}), 400, "invalid object type: /, Kind=");
    check(json!({"apiVersion": "v2"}), 400, "invalid object type: /v2, Kind=ConfigMap");
    check(json!({"metadata": {"name": "a", "managedFields": []}}), 400, "metadata.managedFields must be nil");
    let int = ".data.k: expected string, got &value.valueUnstructured{Value:1000000}";
    check(with("data", json!({"k": 1_000_000})), 500, &bad(int));
    check(
        with("data", json!({"k": true, "l": {"a": [1, "x", null]}, "m": ["a"]})),
        500,
        &bad(
            "errors:\n  .data.k: expected string, got &value.valueUnstructured{Value:true}\n  .data.l: expected string, \
              got &value.valueUnstructured{Value:map[string]interface {}{\"a\":[]interface {}{1, \"x\", interface \
              {}(nil)}}}\n  .data.m: expected string, got &value.valueUnstructured{Value:[]interface {}{\"a\"}}",
        ),
    );
    check(with("data", json!(["x", 1])), 500, &bad(".data: expected map, got &{[x 1]}"));
    check(with("immutable", json!("x")), 500, &bad(".immutable: expected boolean, got &{x}"));
    check(with("foo", json!("x")), 500, &bad(".foo: field not declared in schema"));
    let twice = json!({"metadata": {"name": "a", "finalizers": ["a/b", "a/b"]}});
    check(twice, 500, &bad(".metadata.finalizers: duplicate entries for key [=\"a/b\"]"));
}

#[test]
fn a_new_pod_is_owned_by_its_creator() {
    let bench = Bench::new("Pod", pod());
    let containers = json!([{"name": "a", "image": "i", "imagePullPolicy": "Always", "resources": {},
        "ports": [{"containerPort": 80, "protocol": "TCP"}]}]);
    let spec = json!({"containers": containers, "dnsPolicy": "ClusterFirst", "securityContext": {}});
    let body = json!({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Pending"}});
    let live = bench.write(None, body, "c1");
    let c1 = json!({"f:spec": {
        "f:containers": {"k:{\"name\":\"a\"}": {
            ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {},
            "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}":
                {".": {}, "f:containerPort": {}, "f:protocol": {}}},
        }},
        "f:dnsPolicy": {}, "f:securityContext": {},
    }});
    assert_eq!(owners(&live), json!({"c1 Update": c1}));

    let with = |containers: Value| json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    let check = |containers: Value, why: &str| {
        let failure = bench.apply(Some(&live), with(containers), "m1").unwrap_err();
        assert_eq!(failure.message, why);
    };
    let bad = |why: &str| format!("failed to create typed patch object (/p; /v1, Kind=Pod): .spec.containers: {why}");
    check(json!([{"image": "i"}, {"image": "j"}]), &bad("duplicate entries for key [name=\"\"]"));
    check(json!([{"name": "a"}, {"name": "a"}]), &bad("duplicate entries for key [name=\"a\"]"));
    check(json!([null]), &bad("element 0: associative list with keys may not have a null element"));
    check(json!(["x"]), &bad("element 0: associative list with keys may not have non-map elements"));
    check(
        json!([{"name": "a", "image": "j", "ports": [{"containerPort": 80}]}]),
        "Apply failed with 1 conflict: conflict with \"c1\" using v1: .spec.containers[name=\"a\"].image",
    );
    let applied =
        bench.force(Some(&live), with(json!([{"name": "a", "image": "i2", "ports": [{"containerPort": 80}]}])), "m1");
    let m1 = json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
        ".": {}, "f:image": {}, "f:name": {},
        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
    }}}});
    assert_eq!(owners(&applied)["m1 Apply"], m1);
    let numbers = bench.force(Some(&live), with(json!([{"name": "a", "resources": {"limits": {"cpu": 1}}}])), "m1");
    assert_eq!(numbers["spec"]["containers"][0]["resources"]["limits"]["cpu"], 1, "a quantity may be a number");
}

#[test]
fn status_has_owners_of_its_own() {
    let bench = Bench::new("Pod", pod());
    let live = bench.write(None, json!({"metadata": {"name": "p"}, "spec": {"dnsPolicy": "x"}}), "c1");
    let mut new = live.clone();
    new["spec"]["dnsPolicy"] = "y".into();
    new["status"] = json!({"phase": "Running", "conditions":
        [{"type": "Ready", "status": "True", "lastProbeTime": null}]});
    let live = bench.write_status(&live, new, "st");
    let st = json!({"f:status": {"f:phase": {}, "f:conditions": {".": {}, "k:{\"type\":\"Ready\"}":
        {".": {}, "f:lastProbeTime": {}, "f:status": {}, "f:type": {}}}}});
    assert_eq!(owners(&live), json!({"c1 Update": {"f:spec": {"f:dnsPolicy": {}}}, "st Update status": st}));
    let failure = bench.apply_status(&live, json!({"status": {"phase": "Failed"}}), "st2").unwrap_err();
    assert_eq!(
        failure.message,
        "Apply failed with 1 conflict: conflict with \"st\" with subresource \"status\" using v1: .status.phase"
    );
    let live = bench.apply_status(&live, json!({"status": {"message": "x"}}), "st2").unwrap();
    assert_eq!(owners(&live)["st2 Apply status"], json!({"f:status": {"f:message": {}}}));
    let live = bench.apply(Some(&live), json!({"metadata": {"name": "p"}, "status": {"message": "x"}}), "m").unwrap();
    assert!(owners(&live).get("m Apply").is_none(), "the object itself cannot own status");
}
