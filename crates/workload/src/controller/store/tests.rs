use serde_json::json;

use super::*;
use crate::engine::Sources;

fn key() -> Key {
    ("ns".to_owned(), "wf".to_owned())
}

fn workflow(uid: &str, version: &str) -> Stored {
    Stored::read(json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"name": "wf", "namespace": "ns", "uid": uid, "resourceVersion": version}, "spec": {}}))
}

fn owners(uid: &str) -> Value {
    json!([{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": uid}])
}

fn pod(uid: &str, owner: &str) -> Pod {
    serde_json::from_value(
        json!({"metadata": {"name": "wf-1", "namespace": "ns", "uid": uid, "labels": {WORKFLOW: "wf"},
        "annotations": {NODE_ID: "wf-1"}, "ownerReferences": owners(owner)}}),
    )
    .unwrap()
}

fn result(uid: &str, owner: &str) -> TaskResult {
    serde_json::from_value(json!({"metadata": {"name": "wf-1", "namespace": "ns", "uid": uid,
        "labels": {WORKFLOW: "wf", "workflows.argoproj.io/report-outputs-completed": "true"},
        "ownerReferences": owners(owner)}}))
    .unwrap()
}

#[test]
fn a_namesake_has_nothing_of_what_an_earlier_one_left() {
    let store = Store::default();
    store.put(workflow("old", "1"));
    store.put_pod(pod("p", "old"));
    store.put_result(result("r", "old"));
    store.remember(&key(), Memory { based_on: "1".to_owned(), ..Memory::default() });
    assert!(store.has_result(&key(), "wf-1"));
    // Deleted and made again, while pods and results still wait for the garbage collector.
    store.put(workflow("new", "2"));
    let view = store.view(&key()).unwrap();
    assert_eq!((view.pods.len(), view.results.len(), view.memory.based_on.as_str()), (0, 0, ""));
    assert!(!store.has_result(&key(), "wf-1"));
    store.put_all(&key(), vec![pod("p", "old")], vec![result("r", "old")]);
    assert!(store.view(&key()).unwrap().pods.is_empty());
    store.put_all(&key(), vec![pod("q", "new")], vec![result("s", "new")]);
    let view = store.view(&key()).unwrap();
    assert_eq!((view.pods.len(), view.results.len()), (1, 1));
    assert!(store.has_result(&key(), "wf-1"));
    // The collector comes to the old ones late.
    store.remove_pod(&pod("p", "old"));
    store.remove_result(&result("r", "old"));
    let view = store.view(&key()).unwrap();
    assert_eq!((view.pods.len(), view.results.len()), (1, 1));
}

#[test]
fn what_no_list_names_is_forgotten_but_what_came_while_it_was_made() {
    let store = Store::default();
    store.put(workflow("1", "1"));
    store.put_result(result("r", "1"));
    store.doubt_results();
    store.retain_results();
    assert!(!store.has_result(&key(), "wf-1"));
    store.doubt_results();
    store.put_result(result("r", "1"));
    store.retain_results();
    assert!(store.has_result(&key(), "wf-1"));

    let (own, clusters) = (("ns".to_owned(), "t".to_owned()), (String::new(), "t".to_owned()));
    store.put_template(own.clone(), "1", Some(WorkflowSpec::default()));
    store.put_template(clusters, "1", Some(WorkflowSpec::default()));
    store.retain_templates(true, &BTreeSet::new());
    assert!(Within::new(&store, "ns").cluster_template("t").is_none());
    assert!(Within::new(&store, "ns").workflow_template("t").is_some());
    store.retain_templates(false, &BTreeSet::from([own]));
    assert!(Within::new(&store, "ns").workflow_template("t").is_some());
    store.retain_templates(false, &BTreeSet::new());
    assert!(Within::new(&store, "ns").workflow_template("t").is_none());

    let map = json!({"metadata": {"name": "settings", "namespace": "ns"}, "data": {"colour": "blue"}});
    store.put_settings(&serde_json::from_value(map).unwrap(), true);
    assert!(Within::new(&store, "ns").config_value("settings", "colour").is_some());
    store.retain_settings(&BTreeSet::new());
    assert!(Within::new(&store, "ns").config_value("settings", "colour").is_none());
}

#[test]
fn the_last_workflow_of_a_namespace_is_known() {
    let store = Store::default();
    store.put(workflow("1", "1"));
    let other =
        json!({"metadata": {"name": "other", "namespace": "ns", "uid": "2", "resourceVersion": "2"}, "spec": {}});
    let other = store.put(Stored::read(other));
    assert!(!store.remove(&key()));
    assert!(store.remove(&other));
}

#[test]
fn what_the_api_told_is_not_undone_by_a_watch_that_is_behind() {
    let store = Store::default();
    let key = ("ns".to_owned(), "t".to_owned());
    let named = |name: &str| Some(WorkflowSpec { entrypoint: name.to_owned(), ..WorkflowSpec::default() });
    let known = || Within::new(&store, "ns").workflow_template("t").map(|spec| spec.entrypoint.clone());
    store.put_template(key.clone(), "9", named("new"));
    store.put_template(key.clone(), "7", named("old"));
    store.put_template(key.clone(), "8", None);
    assert_eq!(known().as_deref(), Some("new"));
    store.put_template(key, "10", None);
    assert_eq!(known(), None);
}
