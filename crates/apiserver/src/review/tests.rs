use serde_json::json;

use super::*;
use crate::authn::TokenError;
use crate::authz::{RBAC_GROUP, RuleBook, User};

/// Ann may get pods in `ns`, and everybody authenticated may look at `/healthz`.
fn book() -> RuleBook {
    let subject = |kind: &str, name: &str| json!([{"kind": kind, "apiGroup": RBAC_GROUP, "name": name}]);
    let objects = [
        json!({"kind": "ClusterRole", "metadata": {"name": "pods"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
        json!({"kind": "ClusterRole", "metadata": {"name": "health"},
            "rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]}),
        json!({"kind": "RoleBinding", "metadata": {"name": "pods", "namespace": "ns"},
            "roleRef": {"kind": "ClusterRole", "name": "pods"}, "subjects": subject("User", "ann")}),
        json!({"kind": "ClusterRoleBinding", "metadata": {"name": "health"},
            "roleRef": {"kind": "ClusterRole", "name": "health"}, "subjects": subject("Group", "all")}),
    ];
    RuleBook::new(&objects)
}

fn ann() -> User {
    User { name: "ann".to_owned(), groups: vec!["all".to_owned()], ..User::default() }
}

fn pods(namespace: &str) -> Value {
    json!({"verb": "get", "version": "v1", "resource": "pods", "namespace": namespace})
}

#[test]
fn one_may_ask_about_oneself() {
    let ask = |spec: Value| self_subject_access_review(&book(), &ann(), &json!({"spec": spec}));
    let answer = ask(json!({"resourceAttributes": pods("ns")})).unwrap();
    assert_eq!((&answer["kind"], &answer["status"]["allowed"]), (&json!("SelfSubjectAccessReview"), &json!(true)));
    assert!(answer["status"]["reason"].as_str().unwrap().starts_with("RBAC: allowed by RoleBinding"));
    assert_eq!(answer["spec"]["resourceAttributes"]["namespace"], "ns", "the question is given back");
    assert_eq!(ask(json!({"resourceAttributes": pods("other")})).unwrap()["status"], json!({"allowed": false}));
    let path = json!({"verb": "get", "path": "/healthz"});
    assert_eq!(ask(json!({"nonResourceAttributes": path})).unwrap()["status"]["allowed"], true);
    assert_eq!(ask(json!({})).unwrap_err().code, 422, "one of the two is needed");
    let both = json!({"resourceAttributes": pods("ns"), "nonResourceAttributes": path});
    assert_eq!(ask(both).unwrap_err().code, 422);
    let labelled = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"resourceAttributes": pods("ns")}});
    assert_eq!(self_subject_access_review(&book(), &ann(), &labelled).unwrap_err().code, 422);
}

#[test]
fn one_may_ask_about_somebody() {
    let ask = |spec: Value| subject_access_review(&book(), &json!({"spec": spec}));
    let allowed = |answer: Result<Value, crate::failure::Failure>| answer.unwrap()["status"]["allowed"] == true;
    assert!(allowed(ask(json!({"user": "ann", "resourceAttributes": pods("ns")}))));
    assert!(!allowed(ask(json!({"user": "bob", "resourceAttributes": pods("ns")}))));
    assert!(allowed(ask(json!({"groups": ["all"], "nonResourceAttributes": {"verb": "get", "path": "/healthz"}}))));
    assert!(allowed(ask(json!({"user": "x", "groups": ["system:masters"], "resourceAttributes": pods("ns")}))));
    assert_eq!(ask(json!({"resourceAttributes": pods("ns")})).unwrap_err().code, 422, "nobody was named");
}

#[test]
fn a_local_question_is_about_its_namespace() {
    let ask = |namespace: &str, spec: Value| local_subject_access_review(&book(), namespace, &json!({"spec": spec}));
    let answer = ask("ns", json!({"user": "ann", "resourceAttributes": pods("ns")})).unwrap();
    assert_eq!((&answer["metadata"]["namespace"], &answer["status"]["allowed"]), (&json!("ns"), &json!(true)));
    assert_eq!(ask("ns", json!({"user": "ann", "resourceAttributes": pods("other")})).unwrap_err().code, 422);
    let paths = json!({"user": "ann", "nonResourceAttributes": {"verb": "get", "path": "/healthz"}});
    assert_eq!(ask("ns", paths).unwrap_err().code, 422);
    let elsewhere = json!({"metadata": {"namespace": "other"}, "spec": {}});
    assert_eq!(local_subject_access_review(&book(), "ns", &elsewhere).unwrap_err().code, 400);
}

#[test]
fn all_that_one_may_do_is_told() {
    let answer = self_subject_rules_review(&book(), &ann(), &json!({"spec": {"namespace": "ns"}})).unwrap();
    let expected = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    assert_eq!(answer["status"]["resourceRules"], expected);
    assert_eq!(answer["status"]["nonResourceRules"], json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]));
    assert_eq!(answer["status"]["incomplete"], false);
    assert_eq!(self_subject_rules_review(&book(), &ann(), &json!({"spec": {}})).unwrap_err().code, 400);
}

#[test]
fn a_token_is_told_with_whose_it_is_or_why_not() {
    let body = json!({"spec": {"token": "t", "audiences": ["api"]}});
    let question = TokenQuestion::from_body(&body).unwrap();
    assert_eq!((question.token.as_str(), question.audiences), ("t", vec!["api".to_owned()]));
    assert_eq!(TokenQuestion::from_body(&json!({"spec": {}})).unwrap_err().code, 400);
    let known = token_review(&body, &Ok(Verified { user: ann(), audiences: vec!["api".to_owned()] }));
    let user = json!({"username": "ann", "groups": ["all"]});
    assert_eq!(known["status"], json!({"authenticated": true, "user": user, "audiences": ["api"]}));
    let status = |errors: &[TokenError]| token_review(&body, &Err(errors.to_vec()))["status"]["error"].clone();
    assert_eq!(status(&[TokenError::Unknown]), "invalid bearer token");
    assert_eq!(status(&[TokenError::Expired]), "[invalid bearer token, service account token has expired]");
    let now = "2026-03-01T12:00:00.5Z".parse().unwrap();
    assert_eq!(self_subject_review(&ann(), now)["status"]["userInfo"]["username"], "ann");
}
