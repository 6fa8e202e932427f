//! The Kubernetes API that one role works on.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::Value;

use super::side::PATIENCE;
use crate::endpoint::Endpoint;
use crate::peer::{EmbeddedApi, KubeApiServer, PeerHome};

/// Which implementation of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKind {
    /// The real kube-apiserver with etcd and the controller manager.
    Kubernetes,
    /// Ours, in this process.
    Thane,
}

/// A running API; dropping it ends it.
pub(crate) enum FleetApi {
    Kubernetes(Box<KubeApiServer>),
    Thane(Box<EmbeddedApi>),
}

impl FleetApi {
    /// Starts one on loopback and gives it Argo CD's kinds.
    pub(super) async fn start(home: &PeerHome, kind: ApiKind) -> Result<Self> {
        Self::start_at(home, kind, Ipv4Addr::LOCALHOST).await
    }

    /// The same at an address where others reach it.
    pub(crate) async fn start_at(home: &PeerHome, kind: ApiKind, host: Ipv4Addr) -> Result<Self> {
        let api = match kind {
            ApiKind::Kubernetes => Self::Kubernetes(Box::new(KubeApiServer::start_at(home, host, true).await?)),
            ApiKind::Thane => Self::Thane(Box::new(EmbeddedApi::start_at(host).await?)),
        };
        define(&api.client().await?, &home.definitions("argo-cd")).await?;
        Ok(api)
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        match self {
            Self::Kubernetes(server) => server.endpoint(),
            Self::Thane(server) => server.endpoint(),
        }
    }

    pub(crate) async fn client(&self) -> Result<kube::Client> {
        match self {
            Self::Kubernetes(server) => server.client().await,
            Self::Thane(server) => server.client().await,
        }
    }

    /// Stops it; ours says whether something had failed.
    pub(crate) async fn stop(self) -> Result<()> {
        match self {
            Self::Kubernetes(_) => Ok(()),
            Self::Thane(server) => server.stop().await,
        }
    }
}

/// Applies the definitions of a folder and waits until they are in use.
pub(crate) async fn define(client: &kube::Client, folder: &Path) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)?;
        let definition: Value =
            serde_saphyr::from_str(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        let name = definition.pointer("/metadata/name").and_then(Value::as_str).context("a definition has a name")?;
        let applying = PatchParams::apply("testkit").force();
        definitions.patch(name, &applying, &Patch::Apply(&definition)).await?;
        let established = await_condition(definitions.clone(), name, conditions::is_crd_established());
        tokio::time::timeout(PATIENCE, established).await.with_context(|| format!("{name} is not established"))??;
    }
    Ok(())
}

/// Makes a namespace.
pub(super) async fn make_namespace(client: &kube::Client, name: &str) -> Result<()> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    Ok(())
}
