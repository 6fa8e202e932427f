//! Documents about the API, where argocd-agent has only one: the list of all groups.

use http::Response;
use serde_json::{Value, json};
use thane_api::live::ResourceResponse;

use super::answer::{of_agent, refusal, text};
use super::path::Document;
use crate::proxy::Body;

const JSON: &str = "application/json";

/// A version, which no agent tells; the one upstream's proxy claims.
pub(super) fn version() -> Response<Body> {
    let version = json!({
        "major": "1", "minor": "28", "gitVersion": "1.28.5+argocd-agent", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
    });
    text(200, JSON, version.to_string())
}

/// The document that was asked for, made of an agent's list of groups.
pub(super) fn document(answer: ResourceResponse, document: &Document) -> Response<Body> {
    if answer.status != 200 {
        return of_agent(answer, false);
    }
    let Ok(list) = serde_json::from_str::<Value>(&answer.resource) else {
        return refusal(502, "the agent's list of groups cannot be read");
    };
    match of(&list, document) {
        Some(found) => text(200, JSON, found.to_string()),
        None => refusal(404, "there is no such group"),
    }
}

fn of(list: &Value, document: &Document) -> Option<Value> {
    let all = list["groups"].as_array()?;
    let named = |group: &&Value| group["name"].as_str().is_some_and(|name| !name.is_empty());
    match document {
        Document::Core => {
            let core = all.iter().find(|group| !named(group))?;
            let versions: Vec<&Value> = core["versions"].as_array()?.iter().map(|one| &one["version"]).collect();
            Some(json!({"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": []}))
        }
        Document::Groups => {
            let groups: Vec<&Value> = all.iter().filter(named).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        Document::Group(name) => {
            let mut group = all.iter().find(|group| group["name"] == name.as_str())?.clone();
            group["kind"] = json!("APIGroup");
            group["apiVersion"] = json!("v1");
            Some(group)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_list_makes_all_documents() {
        let version = |text: &str| json!({"groupVersion": text, "version": text});
        let apps = json!({"name": "apps", "versions": [version("apps/v1")]});
        let list = json!({"groups": [{"name": "", "versions": [version("v1")]}, apps]});
        assert_eq!(of(&list, &Document::Core).unwrap()["versions"], json!(["v1"]));
        assert_eq!(of(&list, &Document::Groups).unwrap()["groups"], json!([apps]));
        assert_eq!(of(&list, &Document::Group("apps".to_owned())).unwrap()["kind"], "APIGroup");
        for missing in [Document::Group("batch".to_owned()), Document::Group(String::new() + "x")] {
            assert_eq!(of(&list, &missing), None);
        }
        assert_eq!(of(&json!([]), &Document::Core), None);
        assert_eq!(of(&json!({"groups": [apps]}), &Document::Core), None);
    }
}
