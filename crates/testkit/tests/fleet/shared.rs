//! What Applications need goes before them: projects and repositories, by their rules.

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use thane_testkit::fleet::Pair;
use thane_testkit::fleet::object::{source_uid, text, uid};

use crate::managed::settled;
use crate::suite::{Scenario, scenario};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(project),
        scenario!(project_for_others),
        scenario!(project_that_no_longer_matches),
        scenario!(project_tampered_with),
        scenario!(repository),
        scenario!(repository_credentials),
        scenario!(repository_without_project),
    ]
}

/// A project for the agents that a pattern matches.
fn project_for(name: &str, pattern: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": name},
        "spec": {
            "sourceRepos": ["*"],
            "sourceNamespaces": ["*"],
            "destinations": [{"name": pattern, "namespace": "guestbook", "server": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
            "roles": [{"name": "reader", "policies": [format!("p, proj:{name}:reader, applications, get, {name}/*, allow")]}],
        },
    })
}

pub(crate) async fn distributed(pair: &Pair, name: &str) -> Result<Value> {
    let made = pair.hub.projects().create(&project_for(name, "agent-*")).await?;
    pair.spoke.projects().until(name, "a copy", |copy| source_uid(copy) == uid(&made)).await
}

async fn project(pair: &mut Pair) -> Result<()> {
    let copy = distributed(pair, "project").await?;
    let destinations =
        json!([{"name": "in-cluster", "namespace": "guestbook", "server": "https://kubernetes.default.svc"}]);
    ensure!(copy["spec"]["destinations"] == destinations, "{copy}");
    ensure!(copy["spec"]["sourceRepos"] == json!(["*"]), "{copy}");
    ensure!(copy.pointer("/spec/roles/0").is_none(), "{copy}");
    let change = json!({"spec": {"description": "changed", "sourceRepos": ["https://git.example.com/*"]}});
    pair.hub.projects().patch("project", &change).await?;
    let changed = |it: &Value| {
        text(it, "/spec/description") == "changed" && it["spec"]["sourceRepos"] == json!(["https://git.example.com/*"])
    };
    pair.spoke.projects().until("project", "changed", changed).await?;
    pair.hub.projects().delete("project").await?;
    pair.spoke.projects().until_gone("project").await
}

async fn project_for_others(pair: &mut Pair) -> Result<()> {
    pair.hub.projects().create(&project_for("project-others", "other-*")).await?;
    let mut refused = project_for("project-refused", "*");
    refused["spec"]["destinations"] =
        json!([{"name": "*", "namespace": "*", "server": "*"}, {"name": "!agent-*", "namespace": "*", "server": "*"}]);
    pair.hub.projects().create(&refused).await?;
    distributed(pair, "project-after-others").await?;
    settled(pair, "after-project-others").await?;
    pair.spoke.projects().ensure_absent("project-others").await?;
    pair.spoke.projects().ensure_absent("project-refused").await
}

async fn project_that_no_longer_matches(pair: &mut Pair) -> Result<()> {
    distributed(pair, "project-moved").await?;
    let elsewhere = json!({"spec": {"destinations": [{"name": "other-*", "namespace": "*", "server": "*"}]}});
    pair.hub.projects().patch("project-moved", &elsewhere).await?;
    pair.spoke.projects().until_gone("project-moved").await
}

async fn project_tampered_with(pair: &mut Pair) -> Result<()> {
    let copy = distributed(pair, "project-tampered").await?;
    let theirs = json!({"spec": {"sourceRepos": ["https://evil.example.com"]}});
    pair.spoke.projects().patch("project-tampered", &theirs).await?;
    let reverted = |it: &Value| it["spec"] == copy["spec"];
    pair.spoke.projects().until("project-tampered", "as the hub has it", reverted).await?;
    pair.spoke.projects().delete("project-tampered").await?;
    let again = |it: &Value| uid(it) != uid(&copy) && source_uid(it) == source_uid(&copy);
    pair.spoke.projects().until("project-tampered", "made again", again).await?;
    Ok(())
}

pub(crate) fn secret(name: &str, kind: &str, project: Option<&str>, password: &str) -> Value {
    let mut data = json!({
        "url": STANDARD.encode("https://git.example.com/apps.git"),
        "password": STANDARD.encode(password),
    });
    if let Some(project) = project {
        data["project"] = json!(STANDARD.encode(project));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {"argocd.argoproj.io/secret-type": kind}},
        "data": data,
    })
}

async fn life_of_a_secret(pair: &Pair, name: &str, kind: &str) -> Result<()> {
    let project = format!("project-of-{name}");
    distributed(pair, &project).await?;
    let made = pair.hub.secrets().create(&secret(name, kind, Some(&project), "one")).await?;
    let copied = |it: &Value| source_uid(it) == uid(&made) && it["data"] == made["data"];
    let copy = pair.spoke.secrets().until(name, "a copy", copied).await?;
    ensure!(copy["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == kind, "{copy}");
    let changed = json!({"data": {"password": STANDARD.encode("two")}});
    pair.hub.secrets().patch(name, &changed).await?;
    let has_new = |it: &Value| text(it, "/data/password") == STANDARD.encode("two");
    pair.spoke.secrets().until(name, "changed", has_new).await?;
    pair.hub.secrets().delete(name).await?;
    pair.spoke.secrets().until_gone(name).await
}

async fn repository(pair: &mut Pair) -> Result<()> {
    life_of_a_secret(pair, "repository", "repository").await
}

async fn repository_credentials(pair: &mut Pair) -> Result<()> {
    life_of_a_secret(pair, "credentials", "repo-creds").await
}

async fn repository_without_project(pair: &mut Pair) -> Result<()> {
    pair.hub.secrets().create(&secret("repository-unscoped", "repository", None, "one")).await?;
    life_of_a_secret(pair, "repository-scoped", "repository").await?;
    pair.spoke.secrets().ensure_absent("repository-unscoped").await
}
