//! What the hub knows of the agent: its Secret, its namespace, its certificate's standing, and objects in trouble.

use serde_json::Value;

use super::certificates::Credentials;
use super::side::Side;
use super::{Report, State};
use crate::fleet::cluster::{Cluster, secret_name};
use crate::fleet::objects::Objects;
use crate::fleet::troubles::{Trouble, Troubles};
use crate::fleet::{AGENTS, BLOCKLIST};

/// Objects in trouble that are named; there may be thousands.
const NAMED_MAX: usize = 20;
const OF: &str = "hub";

pub(super) async fn examine(hub: &Side, credentials: &Credentials, report: &mut Report) {
    let objects = hub.objects();
    let details = credentials.agent_details.as_ref();
    let agent = details.map(|details| details.subject.common_name.clone()).filter(|name| !name.is_empty());
    if let Some(agent) = &agent {
        let record = objects.get(&format!("{AGENTS}/{agent}")).await.ok().flatten();
        examine_cluster(&objects, agent, report).await;
        examine_namespace(&objects, agent, record.as_ref(), report).await;
        examine_record(agent, record.as_ref(), report);
    }
    if let Some(details) = details {
        examine_standing(&objects, &details.fingerprint, report).await;
    }
    examine_applications(&objects, agent.as_deref(), report).await;
}

async fn examine_cluster(objects: &Objects<'_>, agent: &str, report: &mut Report) {
    let what = format!("Secret {}/{}", objects.namespace(), secret_name(agent));
    let create = format!("make it with `thane agents create {agent} --context CONTEXT`");
    match objects.secret(&secret_name(agent)).await {
        Ok(Some(secret)) => match Cluster::read(&secret).filter(|cluster| cluster.agent == agent) {
            Some(_) => report.ok(OF, "cluster", format!("{what} makes agent {agent} known")),
            None => report.wrong(OF, "cluster", format!("{what} does not name agent {agent} in its labels"), create),
        },
        Ok(None) => {
            report.wrong(OF, "cluster", format!("{what} is not there: the hub turns agent {agent} away"), create);
        }
        Err(failure) => report.failed(OF, "cluster", &failure),
    }
}

async fn examine_namespace(objects: &Objects<'_>, agent: &str, record: Option<&Value>, report: &mut Report) {
    let placement = record.and_then(|record| record["status"]["placement"].as_str());
    match objects.get(&format!("/api/v1/namespaces/{agent}")).await {
        Ok(None) if placement == Some("destination") => {
            report.ok(OF, "namespace", "the hub finds agents by destination: none needs a namespace of its name");
        }
        Ok(Some(_)) => report.ok(OF, "namespace", format!("namespace {agent} is there for the agent's Applications")),
        Ok(None) => report.wrong(
            OF,
            "namespace",
            format!("namespace {agent} is not there: no Application can be made for the agent"),
            format!("make it with `kubectl create namespace {agent}`, unless the hub finds agents by destination"),
        ),
        Err(failure) => report.failed(OF, "namespace", &failure),
    }
}

fn examine_record(agent: &str, record: Option<&Value>, report: &mut Report) {
    let Some(record) = record else {
        report.add(OF, "connection", State::Note, format!("agent {agent} has not been seen by this hub yet"));
        return;
    };
    let status = &record["status"];
    let since = status["since"].as_str().unwrap_or("some time ago");
    if status["connected"].as_bool() == Some(true) {
        let mode = status["mode"].as_str().unwrap_or_default();
        report.ok(OF, "connection", format!("agent {agent} is connected since {since}, {mode}"));
    } else {
        let next = "look at the agent's log, and call the hub as it does with --server-address";
        report.wrong(OF, "connection", format!("agent {agent} is not connected since {since}"), next);
    }
    examine_placement(status, report);
    examine_troubles(record, report);
}

/// Whether both sides find the namespaces of Applications in the same way; older agents do not say.
fn examine_placement(status: &Value, report: &mut Report) {
    let (Some(hub), Some(agent)) = (status["placement"].as_str(), status["agentPlacement"].as_str()) else { return };
    if hub == agent {
        return report.ok("pair", "mapping", format!("both sides find Applications by {hub}"));
    }
    report.wrong(
        "pair",
        "mapping",
        format!("the hub finds Applications by {hub}, the agent by {agent}"),
        "give both or neither --destination-based-mapping",
    );
}

/// What both sides have told that they cannot do.
fn examine_troubles(record: &Value, report: &mut Report) {
    let Troubles { named, unnamed } = Troubles::read(record);
    if named.is_empty() && unnamed == 0 {
        report.ok(OF, "troubles", "neither side has met with anything it may not do");
    }
    for Trouble { of, message, next } in named {
        report.wrong(of, "troubles", message, next);
    }
    if unnamed > 0 {
        report.add(OF, "troubles", State::Note, format!("{unnamed} more objects are in trouble"));
    }
}

async fn examine_standing(objects: &Objects<'_>, fingerprint: &str, report: &mut Report) {
    let mark: String = fingerprint.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_uppercase();
    match objects.get(&objects.path("configmaps", BLOCKLIST)).await {
        Ok(Some(list)) if list["data"].get(&mark).is_some() => report.wrong(
            OF,
            "blocklist",
            "the agent's certificate is blocked",
            "give it a new one with `thane agents rotate`, or believe it again with `thane agents unblock`",
        ),
        Ok(_) => report.ok(OF, "blocklist", "the agent's certificate is not blocked"),
        Err(failure) => report.failed(OF, "blocklist", &failure),
    }
}

async fn examine_applications(objects: &Objects<'_>, agent: Option<&str>, report: &mut Report) {
    let applications = match objects.list("/apis/argoproj.io/v1alpha1/applications").await {
        Ok(applications) => applications.unwrap_or_default(),
        Err(failure) => return report.failed(OF, "objects", &failure),
    };
    let concerned = applications.iter().filter(|app| agent.is_none_or(|agent| is_of(app, agent)));
    let troubles: Vec<String> = concerned.filter_map(trouble).collect();
    for trouble in troubles.iter().take(NAMED_MAX) {
        let next = "correct what it names; the agent tries again by itself";
        report.wrong(OF, "objects", trouble.clone(), next);
    }
    if troubles.len() > NAMED_MAX {
        report.add(OF, "objects", State::Note, format!("{} more are in trouble", troubles.len() - NAMED_MAX));
    }
    if troubles.is_empty() {
        report.ok(OF, "objects", "no Application is in trouble");
    }
}

fn is_of(app: &Value, agent: &str) -> bool {
    app["metadata"]["namespace"] == agent || app["spec"]["destination"]["name"] == agent
}

/// The first complaint about an Application, if there is one.
fn trouble(app: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = app["status"]["conditions"].as_array()?;
    let bad = conditions.iter().find(|condition| text(&condition["type"]).contains("Error"))?;
    let (namespace, name) = (text(&app["metadata"]["namespace"]), text(&app["metadata"]["name"]));
    Some(format!("Application {namespace}/{name}: {}", text(&bad["message"])))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mapping_that_differs_is_wrong() {
        let wrong = |status: &Value| {
            let mut report = Report::default();
            examine_placement(status, &mut report);
            (report.wrong, report.findings.len())
        };
        assert_eq!(wrong(&json!({"placement": "destination", "agentPlacement": "namespace"})), (1, 1));
        assert_eq!(wrong(&json!({"placement": "destination", "agentPlacement": "destination"})), (0, 1));
        assert_eq!(wrong(&json!({"placement": "destination"})), (0, 0));
    }

    #[test]
    fn only_errors_are_trouble() {
        let app = |kind: &str| {
            json!({
                "metadata": {"namespace": "blue", "name": "shop"},
                "status": {"conditions": [{"type": kind, "message": "no such project"}]},
            })
        };
        assert_eq!(trouble(&app("AgentError")).as_deref(), Some("Application blue/shop: no such project"));
        assert_eq!(trouble(&app("OrphanedResourceWarning")), None);
        assert_eq!(trouble(&json!({})), None);
    }
}
