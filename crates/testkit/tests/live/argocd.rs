//! Real Argo CD: its API server on the hub shows and changes what its controller runs behind our agent.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use thane_testkit::argo::{self, Argo, Repository, Server, Stores};
use thane_testkit::fleet::object::text;
use thane_testkit::fleet::{LivePair, Program};
use thane_testkit::peer::{PeerHome, in_own_network};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{PATIENCE, talker};

/// The Application as Argo CD's command calls it.
const APP: &str = "agent-one/shop";
/// An action of our own: what a cluster without Deployments can be asked to do.
const ACTIONS: &str = r#"discovery.lua: |
  return {repaint = {}}
definitions:
- name: repaint
  action.lua: |
    obj.data.colour = "blue"
    return obj
"#;

#[test]
fn argo_cd_on_the_hub_sees_the_cluster_behind_the_agent() {
    let home = PeerHome::locate();
    if let Err(absence) = LivePair::require(&home).and_then(|()| home.require(&argo::PROGRAMS)) {
        return absence.tell();
    }
    if !in_own_network(&["--exact", "argocd::argo_cd_on_the_hub_sees_the_cluster_behind_the_agent", "--nocapture"]) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let pair = LivePair::start(&home, Program::Thane, Program::Thane).await;
        let pair = pair.unwrap_or_else(|error| panic!("{error:#}"));
        let outcome = scenario(&home, &pair).await;
        outcome.unwrap_or_else(|error| panic!("{}\n{error:#}", pair.last_words()));
        pair.stop().await.unwrap();
    });
}

async fn scenario(home: &PeerHome, pair: &LivePair) -> Result<()> {
    let redis = SocketAddr::from((Ipv4Addr::LOCALHOST, pair.redis[1]));
    let argo = Argo::start(home, &pair.spoke, Stores::start_with(home, redis).await?)?;
    settings(pair).await?;
    let server = Server::start(home, &pair.hub, pair.redis_proxy(), argo.stores()).await?;
    let repository = Repository::create()?;
    deploy(pair, &repository).await.with_context(|| argo.last_words())?;
    shown(&server).await?;
    // The trees are the agent's, and came through the proxy.
    let metrics = pair.hub_metrics().await?;
    let asked = |command: &str| {
        let of =
            format!("argocd_principal_redis_proxy_requests_total{{agent_name=\"agent-one\",command=\"{command}\"}}");
        metrics.get(&of).copied().unwrap_or_default()
    };
    ensure!(asked("get") >= 1.0, "the agent's Redis was not asked: {:?}", metrics.keys());
    followed(&server).await?;
    changed(&server, pair).await
}

async fn settings(pair: &LivePair) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(pair.hub_side().client(), "argocd");
    let data = json!({"data": {"resource.customizations.actions.ConfigMap": ACTIONS}});
    maps.patch("argocd-cm", &PatchParams::default(), &Patch::Merge(data)).await?;
    // Its server makes one of this name that allows less, unless there is one.
    let any = json!({
        "sourceRepos": ["*"], "sourceNamespaces": ["*"],
        "destinations": [{"name": "*", "namespace": "*", "server": "*"}],
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
    });
    let project = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "default"}, "spec": any});
    pair.hub_side().projects().create(&project).await?;
    Ok(())
}

/// An Application with a pod and its settings, from the hub to the cluster.
async fn deploy(pair: &LivePair, repository: &Repository) -> Result<()> {
    let mut pod = talker();
    pod["metadata"] = json!({"name": "talker"});
    let settings =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "green"}});
    repository.commit(
        "first",
        &[("app/pod.yaml".to_owned(), pod.to_string()), ("app/settings.yaml".to_owned(), settings.to_string())],
    )?;
    let hub = pair.hub_side();
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "shop", "namespace": pair.agent_name()},
        "spec": {
            "project": "default",
            "source": {"repoURL": repository.url(), "path": "app", "targetRevision": "main"},
            "destination": {"name": pair.agent_name(), "namespace": "shop"},
            "syncPolicy": {"syncOptions": ["CreateNamespace=true"], "automated": {}},
        },
    });
    hub.applications().create(&application).await?;
    let settled =
        |app: &Value| text(app, "/status/sync/status") == "Synced" && text(app, "/status/health/status") == "Healthy";
    hub.applications().until("shop", "synced and healthy", settled).await?;
    Ok(())
}

/// What each command must say.
async fn shown(server: &Server) -> Result<()> {
    let cases: [(&[&str], &[&str]); 7] = [
        (&["cluster", "list"], &["agent-one", "Successful"]),
        (&["app", "list"], &[APP, "Synced", "Healthy"]),
        (&["app", "get", APP], &["pod/talker created", "configmap/settings created"]),
        (&["app", "resources", APP], &["ConfigMap", "Pod", "talker"]),
        (&["app", "get", APP, "--output", "tree=detailed"], &["Pod/talker", "ConfigMap/settings"]),
        (&["app", "get-resource", APP, "--kind", "ConfigMap", "--resource-name", "settings"], &["green", "uid"]),
        (&["app", "manifests", APP, "--source", "live"], &["colour: green", "phase: Running"]),
    ];
    for (command, words) in cases {
        // What is in Redis comes a moment after the Application's status.
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let said = server.says(command).await;
            let missing = said
                .as_ref()
                .map_or(words.to_vec(), |said| words.iter().copied().filter(|word| !said.contains(word)).collect());
            if missing.is_empty() {
                break;
            }
            ensure!(std::time::Instant::now() < deadline, "{command:?} says nothing of {missing:?}: {said:?}");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
    let log = server.says(&["app", "logs", APP, "--kind", "Pod", "--name", "talker"]).await?;
    ensure!(log.starts_with("line 1\nline 2\n"), "{log}");
    Ok(())
}

async fn followed(server: &Server) -> Result<()> {
    let mut command = server.command(&["app", "logs", APP, "--kind", "Pod", "--name", "talker", "--follow"]);
    let mut following = command.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(following.stdout.take().context("its output")?).lines();
    let reading = async {
        for number in 1..=30 {
            let line = lines.next_line().await?.context("the log ended")?;
            ensure!(line == format!("line {number}"), "{number}: {line}");
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, reading).await??;
    following.kill().await?;
    Ok(())
}

/// An action, what it made different, a deletion, and a sync that makes all well again.
async fn changed(server: &Server, pair: &LivePair) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(pair.spoke_client(), "shop");
    let colour = async || {
        let data = maps.get_opt("settings").await?.and_then(|map| map.data).unwrap_or_default();
        anyhow::Ok(data.get("colour").cloned())
    };
    let of_settings = ["--kind", "ConfigMap", "--resource-name", "settings"];
    let actions = server.says(&["app", "actions", "list", APP, "--kind", "ConfigMap"]).await?;
    ensure!(actions.contains("repaint"), "{actions}");
    server.says(&[&["app", "actions", "run", APP, "repaint"], &of_settings[..]].concat()).await?;
    ensure!(colour().await?.as_deref() == Some("blue"), "the action did nothing");
    server.says(&[&["app", "delete-resource", APP], &of_settings[..]].concat()).await?;
    ensure!(colour().await?.is_none(), "the resource is there");
    server.says(&["app", "sync", APP]).await?;
    ensure!(colour().await?.as_deref() == Some("green"), "the sync did nothing");
    Ok(())
}
