//! A hub alone: whoever has a certificate of its authority and is registered may be an agent.

use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use tempfile::TempDir;

use super::api::{ApiKind, FleetApi, make_namespace};
use super::pair::{setting, start_redis, two_contexts};
use super::program::{Mode, NAMESPACE, Program, Programs};
use super::role::{Role, Stop};
use super::secrets;
use crate::peer::{Guarded, PeerHome};

/// Where argocd-agent's tool keeps the authority.
const AUTHORITY: &str = "argocd-agent-ca";

/// A hub process on an API of its own; dropping it ends everything and removes its files.
pub struct LoneHub {
    /// The hub's API.
    pub client: kube::Client,
    /// Where agents call.
    pub port: u16,
    metrics: u16,
    /// The authority's certificate and key.
    pub authority: [String; 2],
    role: Role,
    _redis: Guarded,
    _api: FleetApi,
    _folder: TempDir,
}

impl LoneHub {
    /// Starts the API and makes the secrets; the hub itself is not started yet.
    pub async fn prepare(home: &PeerHome, program: Program, api: ApiKind) -> Result<Self> {
        let programs = Programs::locate(home);
        let folder = tempfile::Builder::new().prefix("thane-hub-").tempdir()?;
        let root = folder.path();
        let api = FleetApi::start(home, api).await?;
        let client = api.client().await?;
        make_namespace(&client, NAMESPACE).await?;
        let kubeconfig = root.join("kubeconfig");
        std::fs::write(&kubeconfig, two_contexts(api.endpoint(), api.endpoint())?)?;
        secrets::make_hub(home, root, &kubeconfig).await?;
        let authority = authority(&client).await?;
        let setting = setting(kubeconfig, Mode::Managed)?;
        let redis = start_redis(home, root, setting.hub_redis)?;
        let program: &Path = programs.path(program)?;
        let role = Role::new("hub", program, setting.hub(), setting.hub_health, root);
        Ok(Self {
            client,
            port: setting.listen,
            metrics: setting.hub_metrics,
            authority,
            role,
            _redis: redis,
            _api: api,
            _folder: folder,
        })
    }

    /// Starts the hub and waits until it listens.
    pub async fn start(&mut self) -> Result<()> {
        self.role.start()?;
        let healthy = self.role.healthy().await;
        healthy.with_context(|| self.role.last_words())
    }

    /// Ends the hub as when its machine dies.
    pub async fn kill(&mut self) -> Result<()> {
        self.role.stop(Stop::Killed).await
    }

    /// Ids of the hub's processes, for measurements.
    pub fn processes(&self) -> Vec<u32> {
        self.role.processes()
    }

    /// The sum of a metric's samples that begin so and have that label.
    pub async fn counted(&self, start: &str, label: &str) -> Result<f64> {
        let answer = super::role::ask(self.metrics, "/metrics").await?;
        let samples = answer.lines().filter(|line| line.starts_with(start) && line.contains(label));
        Ok(samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// The end of the hub's log.
    pub fn last_words(&self) -> String {
        self.role.last_words()
    }
}

async fn authority(client: &kube::Client) -> Result<[String; 2]> {
    let secret = Api::<Secret>::namespaced(client.clone(), NAMESPACE).get(AUTHORITY).await?;
    let data = secret.data.unwrap_or_default();
    let part = |name: &str| {
        let bytes = data.get(name).with_context(|| format!("{AUTHORITY} has no {name}"))?;
        String::from_utf8(bytes.0.clone()).context("PEM is text")
    };
    Ok([part("tls.crt")?, part("tls.key")?])
}
