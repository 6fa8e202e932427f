//! Sandboxes on a real node: pools, sessions and what becomes of them when something is taken away.

mod escape;
mod session;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use http::StatusCode;
use serde_json::{Value, json};
use thane_testkit::deployed::Sandboxes;
use thane_testkit::peer::{Node, PeerHome};

use crate::plain;
use session::Session;

/// The pool of all sessions.
const POOL: &str = "tools";
/// How many of it wait.
const REPLICAS: i64 = 2;
/// So many claims are timed; more where figures are all that is wanted.
const CLAIMS: usize = 10;
const CLAIMS_FOR_SPEED: usize = 100;
/// The longest anything may take to come true.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) async fn run(home: &PeerHome, node: &Node) -> Result<()> {
    let started = Instant::now();
    let site = Sandboxes::deploy(home, node).await?;
    eprintln!("ok {:5.1} s operator and gateway in pods", started.elapsed().as_secs_f32());
    let outcome = async {
        plain("the webhook refuses", refused(&site)).await?;
        plain("a pool fills", fills(&site)).await?;
        if std::env::var("NODE_CASE").is_ok_and(|case| case == "speed") {
            return plain("claims", claimed(&site, CLAIMS_FOR_SPEED)).await;
        }
        plain("pods are restricted", restricted(&site)).await?;
        plain("claims are quick", claimed(&site, CLAIMS)).await?;
        plain("a session: steps, environment, files", used(&site)).await?;
        plain("restore and fork run the steps again", replayed(&site)).await?;
        plain("attempts to get out", escape::contained(&site)).await?;
        plain("a Sandbox made by kubectl is a session", by_hand(&site)).await?;
        plain("an idle session ends", idle(&site)).await?;
        plain("a pod deleted under its session", pod_lost(&site)).await?;
        plain("other pods of operator and gateway", replaced(&site)).await?;
        plain("a node that was restarted", node_restarted(&site, node)).await?;
        plain("nobody complains", site.quiet()).await
    };
    match outcome.await {
        Ok(()) => plain("nothing stays", site.remove()).await,
        Err(error) => Err(error.context(site.last_words().await)),
    }
}

/// What only the webhook can know is refused, by kubectl and by the gateway.
async fn refused(site: &Sandboxes) -> Result<()> {
    let pool = json!({
        "apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool", "metadata": {"name": "wrong"},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "main"}]}}},
    });
    // Until the API knows whom to believe, it refuses everything.
    until("the webhook answers", async || {
        let said = site.apply(&pool).await.err().map(|error| format!("{error:#}")).unwrap_or_default();
        if said.contains("containers[0].image: it must have one") { Ok(true) } else { Err(anyhow!("{said}")) }
    })
    .await
}

async fn fills(site: &Sandboxes) -> Result<()> {
    let body = json!({"name": POOL, "image": Node::BUSYBOX, "replicas": REPLICAS});
    site.asked("POST", "/v1/pools", &body).await?;
    full(site).await
}

/// Waits until as many wait as should.
async fn full(site: &Sandboxes) -> Result<()> {
    until("the pool is full", async || {
        let pool = site.asked("GET", &format!("/v1/pools/{POOL}"), &Value::Null).await?;
        let is_full = pool["readyReplicas"] == REPLICAS;
        if is_full { Ok(true) } else { Err(anyhow!("{pool}")) }
    })
    .await
}

/// What every pod of a pool must be like, and who may talk to it.
async fn restricted(site: &Sandboxes) -> Result<()> {
    let pods = site.read(&["pods", "--selector=arl.infra.io/pool"]).await?;
    let pods = pods["items"].as_array().context("a list")?;
    ensure!(!pods.is_empty(), "there are pods");
    for pod in pods {
        let spec = &pod["spec"];
        ensure!(spec["automountServiceAccountToken"] == false, "{spec}");
        ensure!(spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", "{spec}");
        let lists = [&spec["containers"], &spec["initContainers"]];
        for container in lists.into_iter().filter_map(Value::as_array).flatten() {
            let context = &container["securityContext"];
            ensure!(context["allowPrivilegeEscalation"] == false && context["runAsNonRoot"] == true, "{container}");
            ensure!(context["capabilities"] == json!({"drop": ["ALL"]}), "{container}");
            let mounts = container["volumeMounts"].to_string();
            ensure!(!mounts.contains("serviceaccount"), "{mounts}");
        }
    }
    let policy = site.read(&["networkpolicy", "thane-sandboxes"]).await?;
    ensure!(policy["spec"]["podSelector"]["matchExpressions"][0]["key"] == "arl.infra.io/pool", "{policy}");
    ensure!(policy["spec"]["egress"].is_null() && policy["spec"]["policyTypes"] == json!(["Ingress", "Egress"]));
    Ok(())
}

/// How long it takes to have a pod that waits is told; the machine may be busy, so nothing fails for it.
async fn claimed(site: &Sandboxes, count: usize) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..count {
        full(site).await?;
        let began = Instant::now();
        let session = Session::begin(site, POOL, &json!({})).await?;
        times.push(began.elapsed());
        session.end().await?;
    }
    times.sort_unstable();
    let percentile = |percent: usize| times[(count * percent).div_ceil(100) - 1];
    eprintln!(
        "   {count} claims of pods that waited: p50 {:.1?}, p99 {:.1?} (aim 100 ms), slowest {:.1?}",
        percentile(50),
        percentile(99),
        times[count - 1]
    );
    Ok(())
}

async fn used(site: &Sandboxes) -> Result<()> {
    let bound = json!({
        "env": {"WHO": "me"},
        "files": [{"path": "/workspace/given", "content": "Z2l2ZW4K", "mode": "0640"}],
    });
    let session = Session::begin(site, POOL, &bound).await?;
    ensure!(session.said("echo $WHO; cat given; id -u; pwd").await? == "me\ngiven\n65532\n/workspace\n");
    let failed = session.step("echo no >&2; exit 7").await?;
    ensure!(failed["output"]["exit_code"] == 7 && failed["output"]["stderr"] == "no\n", "{failed}");
    ensure!(failed["error"].is_null() && failed["snapshot_id"].is_null(), "files are not kept here: {failed}");
    let late = session.step_with("sleep 60", &json!({"timeoutSeconds": 1})).await?;
    ensure!(late["error"]["kind"] == "timeout" && late["output"]["exit_code"] == 124, "{late}");
    session.upload("/workspace/sent", &[0, 255, 10]).await?;
    ensure!(session.said("od -An -tx1 sent").await?.trim() == "00 ff 0a");
    ensure!(session.download("/workspace/sent").await?[..] == [0, 255, 10]);
    full(site).await?;
    session.end().await
}

/// Files are the kubelet's: what led to a state is run again in another pod.
async fn replayed(site: &Sandboxes) -> Result<()> {
    let session = Session::begin(site, POOL, &json!({"env": {"WHO": "me"}})).await?;
    session.said("echo $WHO one > note").await?;
    session.said("echo two > note").await?;
    session.upload("/workspace/sent", b"sent\n").await?;
    session.said("cp sent copy; rm note sent").await?;
    let restored = session.ask("POST", "restore", &json!({"snapshotID": "2"})).await?;
    ensure!(restored["stepsReplayed"] == 3, "{restored}");
    let before = session.info().await?;
    let restored = session.ask("POST", "restore", &json!({"snapshotID": "0"})).await?;
    ensure!(restored["stepsReplayed"] == 1, "{restored}");
    ensure!(session.info().await?["podName"] != before["podName"], "another pod");
    ensure!(session.said("cat note; ls").await? == "me one\nnote\n");
    let history = session.ask("GET", "history", &Value::Null).await?;
    let indexes: Vec<&Value> = history.as_array().into_iter().flatten().map(|step| &step["index"]).collect();
    ensure!(indexes == [&json!(0), &json!(3)], "{history}");
    let forked = session.ask("POST", "fork", &json!({"snapshotID": "1", "count": 1})).await?;
    let fork = Session::of(site, forked["sessions"][0]["id"].as_str().context("a session")?);
    ensure!(fork.said("cat note").await? == "two\n");
    fork.end().await?;
    session.end().await
}

async fn by_hand(site: &Sandboxes) -> Result<()> {
    let sandbox = json!({
        "apiVersion": "arl.infra.io/v1alpha1", "kind": "Sandbox", "metadata": {"name": "mine"},
        "spec": {"poolRef": POOL, "keepAlive": true},
    });
    site.apply(&sandbox).await?;
    site.kubectl(&["wait", "sandbox/mine", "--for=jsonpath={.status.phase}=Ready", "--timeout=60s"]).await?;
    let session = Session::of(site, "mine");
    ensure!(session.said("echo hello").await? == "hello\n");
    site.kubectl(&["delete", "sandbox/mine"]).await?;
    let (status, answer) = session.try_step("true").await?;
    ensure!(status == StatusCode::NOT_FOUND || status == StatusCode::GONE, "{status} {answer}");
    let mut once = sandbox;
    (once["metadata"]["name"], once["spec"]["keepAlive"]) = (json!("once"), json!(false));
    site.apply(&once).await?;
    site.kubectl(&["wait", "sandbox/once", "--for=jsonpath={.status.phase}=Ready", "--timeout=60s"]).await?;
    ensure!(Session::of(site, "once").said("echo hello").await? == "hello\n");
    until("it goes after one execution", async || {
        let left = site.read(&["sandboxes"]).await?;
        Ok(left["items"].as_array().is_some_and(|all| all.iter().all(|one| one["metadata"]["name"] != "once")))
    })
    .await
}

async fn idle(site: &Sandboxes) -> Result<()> {
    let session = Session::begin(site, POOL, &json!({"idleTimeoutSeconds": 3})).await?;
    // Longer than that, but busy.
    session.said("sleep 5").await?;
    let pod = session.info().await?["podName"].as_str().context("a pod")?.to_owned();
    until("the session is over", async || {
        let (status, answer) = session.try_info().await?;
        let is_over = status == StatusCode::NOT_FOUND || answer["phase"] == "Failed";
        if is_over { Ok(true) } else { Err(anyhow!("{status} {answer}")) }
    })
    .await?;
    gone(site, &pod).await
}

async fn pod_lost(site: &Sandboxes) -> Result<()> {
    let session = Session::begin(site, POOL, &json!({})).await?;
    session.said("true").await?;
    let pod = session.info().await?["podName"].as_str().context("a pod")?.to_owned();
    site.kubectl(&["delete", "pod", &pod, "--grace-period=0", "--force"]).await?;
    lost(&session).await?;
    session.end().await?;
    full(site).await
}

/// Waits until a session says that its sandbox is gone; what is asked to go may still answer for a moment.
async fn lost(session: &Session<'_>) -> Result<()> {
    until("the session is lost", async || {
        let (status, answer) = session.try_step("true").await?;
        let is_lost = status == StatusCode::GONE && answer["kind"] == "infra";
        if is_lost { Ok(true) } else { Err(anyhow!("{status} {answer}")) }
    })
    .await
}

async fn replaced(site: &Sandboxes) -> Result<()> {
    let session = Session::begin(site, POOL, &json!({"env": {"WHO": "me"}})).await?;
    session.said("echo $WHO > note").await?;
    site.restart().await?;
    ensure!(session.said("cat note; echo $WHO").await? == "me\nme\n");
    session.end().await?;
    full(site).await
}

/// Everything on the node ends; sessions say so, and the pool is full again.
async fn node_restarted(site: &Sandboxes, node: &Node) -> Result<()> {
    let session = Session::begin(site, POOL, &json!({})).await?;
    session.said("true").await?;
    // A kubelet that goes down while it starts a pod never finishes that one.
    full(site).await?;
    let before = idle_pods(site).await?;
    node.restart().await?;
    lost(&session).await?;
    until("the pool has other pods", async || {
        let now = idle_pods(site).await?;
        Ok(now.len() == before.len() && now.iter().all(|pod| !before.contains(pod)))
    })
    .await?;
    full(site).await?;
    let next = Session::begin(site, POOL, &json!({})).await?;
    ensure!(next.said("echo back").await? == "back\n");
    next.end().await?;
    session.end().await
}

async fn idle_pods(site: &Sandboxes) -> Result<Vec<String>> {
    let chosen = "--selector=arl.infra.io/status=idle";
    let pods = site.read(&["pods", chosen, "--field-selector=status.phase=Running"]).await?;
    let names = pods["items"].as_array().into_iter().flatten();
    Ok(names.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

async fn gone(site: &Sandboxes, pod: &str) -> Result<()> {
    site.kubectl(&["wait", &format!("pod/{pod}"), "--for=delete", "--timeout=60s"]).await.map(|_| ())
}

/// Asks until it is so; the last reason why it is not is told.
async fn until(what: &str, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let last = is_so().await;
        if matches!(last, Ok(true)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(last.err().unwrap_or_else(|| anyhow!("not so"))).with_context(|| what.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
