//! The whole thing with real programs: Argo CD on a Kubernetes with a node, our hub on another API, our agent between them.
//!
//! Hub and agent are pods, from the image of `make image` and the manifests of `deploy/`. `make test-node` runs this;
//! `NODE_CASE=discovery` runs one part of it: discovery, live, managed, autonomous, switched, sandboxes, workflows,
//! gates or pipeline; and only by name, since it shows figures and proves nothing, speed.
#![expect(clippy::print_stderr, reason = "whoever waits for minutes wants to see how far it is")]

mod autonomous;
mod discovery;
mod live;
mod managed;
mod pipeline;
mod pods;
mod sandboxes;
mod workflows;
mod workload;

use std::net::Ipv4Addr;
use std::time::Instant;

use anyhow::{Context, Result};
use thane_testkit::argo::{self, Argo, Repository, Stores};
use thane_testkit::deployed::{Deployed, Programs, Style, Workloads, argo_images};
use thane_testkit::fleet::ApiKind;
use thane_testkit::peer::{Absence, Image, Node, PeerHome};

/// What every scenario stands on.
struct Stage<'a> {
    home: &'a PeerHome,
    node: &'a Node,
    fleet: Deployed<'a>,
    repository: Repository,
}

impl<'a> Stage<'a> {
    async fn set(home: &'a PeerHome, node: &'a Node, programs: &Programs, kind: ApiKind, style: Style) -> Result<Self> {
        let started = Instant::now();
        let fleet = Deployed::start(home, node, programs, kind, style).await?;
        eprintln!(
            "ok {:5.1} s a hub in a pod, its API {kind:?}, its manifests {style:?}",
            started.elapsed().as_secs_f32()
        );
        Ok(Self { home, node, fleet, repository: Repository::create()? })
    }

    /// Starts Argo CD for the node's cluster.
    async fn argo(&self) -> Result<Argo> {
        let stores = Stores::start(self.home, Ipv4Addr::LOCALHOST).await?;
        Argo::start(self.home, self.fleet.spoke_endpoint(), stores)
    }

    /// The same with the controller in a pod, as its own manifests have it, and its stores outside the cluster.
    async fn shared_argo(&self) -> Result<Argo> {
        let argo = Argo::deployed(Stores::start(self.home, self.node.host()).await?);
        self.step("Argo CD's controller in a pod", &argo, self.fleet.deploy_controller(self.home, argo.stores()))
            .await?;
        Ok(argo)
    }

    /// Runs one step and says how it went; a step that fails says what everybody has to say.
    async fn step(&self, what: &str, argo: &Argo, step: impl Future<Output = Result<()>>) -> Result<()> {
        let started = Instant::now();
        let outcome = step.await;
        let seconds = started.elapsed().as_secs_f32();
        match outcome {
            Ok(()) => {
                eprintln!("ok {seconds:5.1} s {what}");
                Ok(())
            }
            Err(error) => {
                let words = self.fleet.last_words().await + &argo.last_words();
                Err(error.context(format!("{words}\nFAILED {seconds:5.1} s {what}")))
            }
        }
    }
}

/// Runs one step that Argo CD has no part in, and says how long it took.
async fn plain(what: &str, step: impl Future<Output = Result<()>>) -> Result<()> {
    let started = Instant::now();
    step.await.with_context(|| format!("FAILED {:5.1} s {what}", started.elapsed().as_secs_f32()))?;
    eprintln!("ok {:5.1} s {what}", started.elapsed().as_secs_f32());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applications_of_the_hub_run_on_the_node() {
    let home = PeerHome::locate();
    let programs = match programs(&home) {
        Ok(programs) => programs,
        Err(absence) => return absence.tell(),
    };
    let started = Instant::now();
    let node = start_node(&home, &programs).await.unwrap_or_else(|error| panic!("{error:#}"));
    eprintln!("ok {:5.1} s a node", started.elapsed().as_secs_f32());
    let outcome = scenarios(&home, &node, &programs).await;
    let words = if outcome.is_err() { node.last_words() } else { String::new() };
    // Whatever happened, nothing stays behind.
    let stopped = node.stop();
    outcome.unwrap_or_else(|error| panic!("{words}\n{error:#}"));
    stopped.unwrap_or_else(|error| panic!("{error:#}"));
}

async fn start_node(home: &PeerHome, programs: &Programs) -> Result<Node> {
    let path = home.program("argocd");
    let controller = Image::Program { name: argo::CONTROLLER, tag: argo::CONTROLLER_IMAGE, path };
    let mut images = vec![Image::Archive(&programs.image), controller];
    if has_workflows() {
        images.extend(argo_images(home));
    }
    let agents = pipeline::image().ok().filter(|_| is_wanted("pipeline"));
    images.extend(agents.as_deref().map(Image::Archive));
    Node::start(home, &images).await
}

fn programs(home: &PeerHome) -> Result<Programs, Absence> {
    let programs = Programs::locate()?;
    home.require(&argo::PROGRAMS)?;
    home.require(&Workloads::PROGRAMS)?;
    Node::require(home)?;
    Ok(programs)
}

/// Whether a case is asked for; all are, unless `NODE_CASE` names one.
fn is_wanted(case: &str) -> bool {
    std::env::var("NODE_CASE").map_or(true, |only| only == case)
}

/// Whether a case is asked for that runs Workflows.
fn has_workflows() -> bool {
    is_wanted("workflows") || is_wanted("pipeline") || is_wanted("gates") || is_wanted("speed")
}

async fn scenarios(home: &PeerHome, node: &Node, programs: &Programs) -> Result<()> {
    if is_wanted("discovery") || is_wanted("live") || is_wanted("managed") {
        let stage = Stage::set(home, node, programs, ApiKind::Thane, Style::Ours).await?;
        if is_wanted("discovery") {
            discovery::run(&stage).await?;
        }
        if is_wanted("live") {
            live::run(&stage).await?;
        }
        if is_wanted("managed") {
            managed::run(&stage).await?;
        }
        stage.fleet.stop().await?;
    }
    if is_wanted("autonomous") {
        // The same hub elsewhere: its rights have to do on the real thing, too.
        let stage = Stage::set(home, node, programs, ApiKind::Kubernetes, Style::Ours).await?;
        autonomous::run(&stage).await?;
        stage.fleet.stop().await?;
    }
    if is_wanted("switched") {
        let stage = Stage::set(home, node, programs, ApiKind::Thane, Style::Upstream).await?;
        managed::run_switched(&stage).await?;
        stage.fleet.stop().await?;
    }
    if is_wanted("sandboxes") || is_wanted("speed") {
        sandboxes::run(home, node).await?;
    }
    if has_workflows() {
        workflows::run(home, node, programs).await?;
    }
    Ok(())
}
