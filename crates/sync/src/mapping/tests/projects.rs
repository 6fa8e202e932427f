//! Which agents get projects and repositories, and their copies there.

use serde_json::{Value, json};

use super::*;
use crate::object::{IGNORE_SYNC, Kind, MISMATCH_POLICY, SECRET_TYPE};

fn project(destinations: &Value, sources: &Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": { "name": "web", "namespace": "argocd", "uid": "p-uid", "resourceVersion": "3", "labels": { "a": "b" } },
        "spec": {
            "destinations": destinations,
            "sourceNamespaces": sources,
            "sourceRepos": ["*"],
            "roles": [{ "name": "dev", "policies": [] }],
            "newField": { "x": 1 },
        },
        "status": { "jwtTokensByRole": {} },
    })
}

fn repository() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": { "name": "repo", "namespace": "argocd", "uid": "r-uid", "labels": { SECRET_TYPE: "repository" } },
        "data": { "project": "d2Vi", "url": "aHR0cHM6Ly94" },
    })
}

#[test]
fn a_project_goes_where_its_destinations_are() {
    let all = json!(["*"]);
    for (destinations, sources, by_namespace, by_destination) in [
        (json!([{ "name": "spoke" }]), all.clone(), true, true),
        (json!([{ "name": "sp*" }]), all.clone(), true, true),
        (json!([{ "name": "other" }]), all.clone(), false, false),
        (json!([{ "server": "*" }]), all.clone(), true, true),
        (json!([{ "name": "", "server": "*" }]), all.clone(), true, true),
        (json!([{ "name": "other", "server": "*" }]), all.clone(), false, false),
        (json!([{ "server": "https://proxy:9090?agentName=spoke" }]), all.clone(), true, true),
        (json!([{ "server": "https://proxy:9090?x=1&agentName=sp%2A" }]), all.clone(), true, true),
        (json!([{ "server": "https://proxy:9090?agentName=other" }]), all.clone(), false, false),
        (json!([{ "server": "https://proxy:9090?agentName=" }]), all.clone(), false, false),
        (json!([{ "server": "https://kubernetes.default.svc" }]), all.clone(), false, false),
        (json!([{ "name": "*" }, { "name": "!spoke" }]), all.clone(), false, false),
        (json!([{ "name": "!sp*" }, { "name": "*" }]), all.clone(), false, false),
        (json!([{ "name": "*" }, { "name": "!other" }]), all.clone(), true, true),
        (json!([{ "name": "!other" }]), all.clone(), false, false),
        (json!([{ "name": "spoke" }]), json!(["other"]), false, true),
        (json!([{ "name": "spoke" }]), json!([]), false, true),
        (json!([{ "name": "spoke" }]), json!(["/^spo.e$/"]), true, true),
        (json!([]), all.clone(), false, false),
        (json!("text"), all.clone(), false, false),
        (json!([5, null, "x"]), all, false, false),
    ] {
        let project = project(&destinations, &sources);
        assert_eq!(project_goes_to(&hub_side(), &project, "spoke"), by_namespace, "{destinations} {sources}");
        assert_eq!(
            project_goes_to(&hub_by_destination(), &project, "spoke"),
            by_destination,
            "{destinations} {sources}"
        );
    }
}

#[test]
fn an_agent_gets_its_part_of_a_project() {
    let destinations = json!([
        { "name": "spoke", "namespace": "web", "extra": 1 },
        { "name": "other", "namespace": "x" },
        { "server": "*", "namespace": "*" },
    ]);
    let project = project(&destinations, &json!(["spoke"]));
    let own = json!([
        { "name": "in-cluster", "server": "https://kubernetes.default.svc", "namespace": "web", "extra": 1 },
        { "name": "in-cluster", "server": "https://kubernetes.default.svc", "namespace": "*" },
    ]);
    let part = project_for_agent(&hub_side(), &project, "spoke");
    assert_eq!(part["spec"], json!({ "destinations": own, "sourceRepos": ["*"], "newField": { "x": 1 } }));
    assert_eq!(part.get("status"), None);
    let part = project_for_agent(&hub_by_destination(), &project, "spoke");
    assert_eq!(part["spec"]["sourceNamespaces"], json!(["spoke"]));
}

#[test]
fn only_the_hubs_own_are_handed_out() {
    let mine = project(&json!([]), &json!([]));
    let ignored = json!({ IGNORE_SYNC: "true", SECRET_TYPE: "repository" });
    assert!(is_distributed_project(&hub_side(), &mine));
    assert!(!is_distributed_project(&hub_side(), &annotated(mine.clone(), SOURCE_UID, "u")));
    assert!(!is_distributed_project(&hub_side(), &with(mine.clone(), &[("/metadata/namespace", json!("x"))])));
    assert!(!is_distributed_project(&hub_side(), &with(mine, &[("/metadata/labels", ignored.clone())])));
    for (label, expected) in [("repository", true), ("repo-creds", true), ("cluster", false), ("", false)] {
        let secret = with(repository(), &[("/metadata/labels", json!({ SECRET_TYPE: label }))]);
        assert_eq!(is_distributed_repository(&hub_side(), &secret), expected, "{label}");
    }
    assert!(!is_distributed_repository(&hub_side(), &with(repository(), &[("/metadata/labels", ignored)])));
    for (data, expected) in [
        (json!({ "project": "d2Vi" }), Some("web".to_owned())),
        (json!({ "project": "" }), None),
        (json!({ "project": "%" }), None),
        (json!({ "project": "/w==" }), None),
        (json!({}), None),
        (json!(null), None),
    ] {
        assert_eq!(repository_project(&json!({ "data": data })), expected);
    }
}

#[test]
fn projects_and_repositories_are_copied() {
    let incoming = project(&json!([]), &json!([]));
    let Plan::Create(made) = managed_project(&agent_side(), &incoming, None) else { panic!("it is made") };
    assert_eq!(made["spec"], incoming["spec"]);
    assert_eq!(
        made["metadata"],
        json!({ "name": "web", "namespace": "argocd", "labels": { "a": "b" }, "annotations": { SOURCE_UID: "p-uid" } })
    );
    let Plan::Create(secret) = managed_repository(&agent_side(), &repository(), None) else { panic!("it is made") };
    assert_eq!((secret["data"].clone(), secret["type"].clone()), (repository()["data"].clone(), json!("Opaque")));

    let there = stored(made, "own", "1");
    let secret = stored(secret, "own", "1");
    let newer = |object: Value| with(object, &[("/metadata/uid", json!("newer"))]);
    let unowned = |object: Value| with(object, &[("/metadata/annotations", Value::Null)]);
    let changed = with(incoming.clone(), &[("/spec/newField", json!(2))]);
    let rekeyed = with(repository(), &[("/data/url", json!("eA==")), ("/type", json!("other"))]);
    for (name, plan, expected) in [
        ("as it is", managed_project(&agent_side(), &incoming, Some(&there)), "nothing"),
        ("changed", managed_project(&agent_side(), &changed, Some(&there)), "replace"),
        ("made anew", managed_project(&agent_side(), &newer(incoming.clone()), Some(&there)), "recreate"),
        (
            "made anew, upsert",
            managed_project(
                &agent_side(),
                &annotated(newer(incoming.clone()), MISMATCH_POLICY, "upsert"),
                Some(&there),
            ),
            "replace",
        ),
        ("there before", managed_project(&agent_side(), &incoming, Some(&unowned(there.clone()))), "recreate"),
        ("being deleted on the hub", managed_project(&agent_side(), &deleting(incoming.clone()), None), "nothing"),
        (
            "without spec",
            managed_project(&agent_side(), &with(incoming.clone(), &[("/spec", Value::Null)]), None),
            "refuse: invalid",
        ),
        ("autonomous", managed_project(&autonomous_side(), &incoming, None), "refuse: wrong_mode"),
        ("secret as it is", managed_repository(&agent_side(), &repository(), Some(&secret)), "nothing"),
        ("secret changed", managed_repository(&agent_side(), &rekeyed, Some(&secret)), "replace"),
        ("secret made anew", managed_repository(&agent_side(), &newer(repository()), Some(&secret)), "recreate"),
        (
            "somebody else's secret",
            managed_repository(&agent_side(), &repository(), Some(&unowned(secret.clone()))),
            "refuse: not_adopted",
        ),
        ("not a secret", managed_repository(&agent_side(), &incoming, None), "refuse: invalid"),
        (
            "secret gone",
            managed_delete(&agent_side(), Kind::Repository, &repository(), Some(&secret)),
            "delete background",
        ),
        ("project gone", managed_delete(&agent_side(), Kind::AppProject, &incoming, Some(&there)), "delete background"),
    ] {
        assert_eq!(word(&plan), expected, "{name}");
        if let Plan::Replace(wanted) = plan {
            assert_ne!(wanted["type"], "other", "the type of a Secret cannot be changed");
        }
    }
    let tampered = with(secret.clone(), &[("/data/url", json!("bWluZQ=="))]);
    let Plan::Replace(back) = revert_tampering(Kind::Repository, &secret, &tampered) else { panic!("it is undone") };
    assert_eq!(back["data"], secret["data"]);
}
