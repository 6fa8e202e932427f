//! What kube-apiserver 1.34 answered for the same definitions.

use serde_json::{Value, json};

use super::*;

fn apply(base: &Value, patch: &Value) -> Value {
    let mut crd = base.clone();
    for step in patch.as_array().unwrap() {
        let at = step["path"].as_str().unwrap();
        let (parent, key) = at.rsplit_once('/').unwrap();
        let parent = crd.pointer_mut(parent).unwrap();
        if step["remove"] == json!(true) {
            parent.as_object_mut().unwrap().remove(key);
        } else {
            parent[key] = step["value"].clone();
        }
    }
    crd
}

/// Everything wrong with a new definition, in the form of a refusal.
fn refusal(crd: &Value) -> String {
    let mut crd = crd.clone();
    default(&mut crd);
    prepare_create(&mut crd);
    let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
    let at = Path::new("metadata").child("name");
    let mut errors: Vec<_> =
        name_errors(&crd, &name).into_iter().map(|why| FieldError::invalid(&at, name.as_str(), why)).collect();
    errors.extend(validate(&crd));
    match errors.as_slice() {
        [] => String::new(),
        [one] => one.to_string(),
        many => format!("[{}]", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

#[test]
fn definitions_are_refused_as_kubernetes_refuses_them() {
    let data: Value = serde_json::from_str(include_str!("testdata/refused.json")).unwrap();
    let mut wrong = Vec::new();
    for case in data["cases"].as_array().unwrap() {
        let crd = apply(&data["base"], &case["patch"]);
        let found = refusal(&crd);
        let expected = case["answer"].as_str().unwrap();
        if found != expected {
            wrong.push(format!("{}\n  ours:   {found}\n  theirs: {expected}", case["label"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_webhook_is_refused_where_it_would_have_to_be_called() {
    let data: Value = serde_json::from_str(include_str!("testdata/refused.json")).unwrap();
    let mut one = data["base"].clone();
    let client = json!({"service": {"name": "a", "namespace": "b"}});
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": client});
    one["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
    assert_eq!(refusal(&one), "", "with one version there is nothing to convert");
    let mut two = one.clone();
    let mut second = two["spec"]["versions"][0].clone();
    second["name"] = json!("v7");
    second["storage"] = json!(false);
    two["spec"]["versions"].as_array_mut().unwrap().push(second);
    let why = "spec.conversion.strategy: Unsupported value: \"Webhook\": supported values: \"None\"";
    assert_eq!(refusal(&two), why);
    let (one, two) = (established(one), established(two));
    let errors = |new: &Value, old: &Value| -> Vec<String> {
        validate_update(new, old).iter().map(ToString::to_string).collect()
    };
    assert_eq!(errors(&two, &one), [why]);
    assert_eq!(errors(&two, &two), Vec::<String>::new(), "what an older version let in can be changed, and can go");
}

/// The definition as it is stored once it is served.
fn established(mut crd: Value) -> Value {
    let now = "2024-01-01T00:00:00Z".parse().unwrap();
    default(&mut crd);
    prepare_create(&mut crd);
    assert!(accept(&mut crd, &Names::default(), now));
    assert!(establish(&mut crd, now));
    crd
}

#[test]
fn an_established_definition_keeps_its_scope_and_kind() {
    let data: Value = serde_json::from_str(include_str!("testdata/refused.json")).unwrap();
    let mut old = data["base"].clone();
    default(&mut old);
    prepare_create(&mut old);
    let now = "2024-01-01T00:00:00Z".parse().unwrap();
    assert!(accept(&mut old, &Names::default(), now));
    assert!(establish(&mut old, now));
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["group"] = json!("other.io");
    let errors = validate_update(&new, &old).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        errors,
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.group: Invalid value: \"other.io\": field is immutable",
        ]
    );
    let mut gone = old.clone();
    gone["spec"]["versions"][0]["name"] = json!("v2");
    prepare_update(&mut gone, &old);
    let errors = validate_update(&gone, &old).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        errors,
        ["status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage \
          version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 \
          and removes v1 from status.storedVersions"]
    );
}

#[test]
fn names_in_use_are_not_accepted() {
    let now = "2024-01-01T00:00:00Z".parse().unwrap();
    let mut first = json!({"spec": {"group": "a.io", "names": {"plural": "xs", "singular": "x", "kind": "X", "listKind": "XList", "shortNames": ["s"]}}});
    accept(&mut first, &Names::default(), now);
    assert_eq!(first["status"]["acceptedNames"], first["spec"]["names"]);
    let mut used = Names::default();
    used.add(&first["status"]["acceptedNames"]);
    let mut second = json!({"spec": {"group": "a.io", "names": {"plural": "ys", "singular": "y", "kind": "X", "listKind": "YList", "shortNames": ["s"]}}});
    assert!(accept(&mut second, &used, now));
    assert_eq!(
        second["status"]["conditions"],
        json!([
            {"lastTransitionTime": "2024-01-01T00:00:00Z", "message": "\"X\" is already in use", "reason": "KindConflict", "status": "False", "type": "NamesAccepted"},
            {"lastTransitionTime": "2024-01-01T00:00:00Z", "message": "not all names are accepted", "reason": "NotAccepted", "status": "False", "type": "Established"},
        ])
    );
    assert_eq!(second["status"]["acceptedNames"], json!({"plural": "ys", "singular": "y", "listKind": "YList"}));
    assert!(!establish(&mut second, now));
    assert!(!accept(&mut second, &used, now));
}

#[test]
fn the_compiled_form_has_what_serving_needs() {
    let mut crd: Value = serde_json::from_str(include_str!("../schema/testdata/widget.json")).unwrap();
    crd["spec"]["versions"][0]["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.n"});
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "N", "type": "integer", "jsonPath": ".spec.count"},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "L", "type": "string", "jsonPath": ".spec.list"},
    ]);
    default(&mut crd);
    let kind = CustomKind::new(&crd).unwrap();
    assert_eq!((kind.list_kind.as_str(), kind.singular.as_str(), kind.namespaced), ("WidgetList", "widget", true));
    let version = kind.storage().unwrap();
    assert!(version.status && version.served);
    let object =
        json!({"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"}, "spec": {"count": -1, "list": ["a", "b"]}});
    let now = "2024-01-01T00:05:30Z".parse().unwrap();
    let cells = version.printer.cells(&object, now);
    assert_eq!(cells, [json!(""), json!(-1), json!("5m30s"), json!("[\"a\",\"b\"]")]);
    assert_eq!(
        version.scale_errors(&object, false).iter().map(ToString::to_string).collect::<Vec<_>>(),
        [".spec.count: Invalid value: -1: should be a non-negative integer"]
    );
}

#[test]
fn unknown_formats_are_warned_of() {
    let mut crd: Value = serde_json::from_str(include_str!("../schema/testdata/widget.json")).unwrap();
    let field = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/need").unwrap();
    field["format"] = json!("zip");
    assert_eq!(warnings(&crd, None), ["unrecognized format \"zip\""]);
    assert_eq!(warnings(&crd, Some(&crd)), Vec::<String>::new());
}
