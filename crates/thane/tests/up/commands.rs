//! `thane apply`, `get`, `watch` and `delete` against `thane up`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use crate::place::Place;
use crate::running::Running;

const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\ndata: {a: b}\n";
/// A kind whose only version is deprecated, which the server warns about.
const OLD_KIND: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: relics.example.com}
spec:
  group: example.com
  names: {kind: Relic, plural: relics, singular: relic, listKind: RelicList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    deprecated: true
    deprecationWarning: relics are history
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A command that goes on until it is dropped.
struct Following(Child);

impl Following {
    fn start(place: &Place, arguments: &[&str]) -> (Self, impl Iterator<Item = String> + use<>) {
        let mut child = place.command(&[], arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        (Self(child), lines)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn each_server_has_data_of_its_own() {
    let place = Place::new();
    let running = Running::start(&place, &["--clusters", "2"]);
    place.write("object.yaml", OBJECT);
    let get = |context: &str| place.run(&["get", "configmap", "kept", "--context", context, "-o", "json"]);
    let applied = stdout(&place.run(&["apply", "-f", "object.yaml", "--context", "cluster-2"]));
    assert_eq!(applied, "configmap/kept applied\n");
    let object: Value = serde_json::from_str(&stdout(&get("cluster-2"))).unwrap();
    assert_eq!(object["data"]["a"], "b");
    for other in ["hub", "cluster-1"] {
        assert_eq!(get(other).status.code(), Some(1), "{other}");
    }
    stdout(&place.run(&["delete", "-f", "object.yaml", "--context", "cluster-2"]));
    assert_eq!(get("cluster-2").status.code(), Some(1));
    running.kill();
}

#[test]
fn lists_are_tables_and_changes_are_followed() {
    let place = Place::new();
    let running = Running::start(&place, &["--clusters", "0"]);
    let namespaces = stdout(&place.run(&["get", "namespaces"]));
    assert!(namespaces.starts_with("NAME "), "{namespaces}");
    let argocd = namespaces.lines().find(|line| line.starts_with("argocd ")).unwrap();
    assert!(argocd.contains("Active"), "{namespaces}");

    place.write("object.yaml", OBJECT);
    let (getting, mut rows) = Following::start(&place, &["get", "configmaps", "-w"]);
    let (watching, mut lines) = Following::start(&place, &["watch", "configmaps", "--json"]);
    // Both show what is there first, so what follows is a change.
    assert!(rows.next().unwrap().starts_with("NAME "));
    assert!(rows.next().unwrap().starts_with("kube-root-ca.crt "));
    assert!(lines.next().unwrap().contains("kube-root-ca.crt"));
    stdout(&place.run(&["apply", "-f", "object.yaml"]));
    assert!(rows.next().unwrap().starts_with("kept "));
    stdout(&place.run(&["delete", "configmap", "kept"]));
    let kinds: Vec<String> = lines
        .by_ref()
        .map(|line| serde_json::from_str::<Value>(&line).unwrap())
        .filter(|event| event["object"]["metadata"]["name"] == "kept")
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .take(2)
        .collect();
    assert_eq!(kinds, ["ADDED", "DELETED"]);
    drop((getting, watching));
    running.kill();
}

#[test]
fn the_servers_warnings_are_shown_once_and_beside_the_data() {
    let place = Place::new();
    let running = Running::start(&place, &["--clusters", "0"]);
    place.write("kind.yaml", OLD_KIND);
    place.write("relic.yaml", "apiVersion: example.com/v1\nkind: Relic\nmetadata: {name: vase}\n");
    let applied = place.run(&["apply", "-f", "kind.yaml", "-f", "relic.yaml"]);
    let warning = "warning: relics are history\n";
    assert_eq!(String::from_utf8_lossy(&applied.stderr), warning);
    assert_eq!(
        stdout(&applied),
        "customresourcedefinition.apiextensions.k8s.io/relics.example.com applied\nrelic.example.com/vase applied\n"
    );
    let shown = place.run(&["get", "relics", "-o", "name"]);
    assert_eq!((stdout(&shown).as_str(), shown.stderr.as_slice()), ("relic.example.com/vase\n", warning.as_bytes()));
    running.kill();
}
