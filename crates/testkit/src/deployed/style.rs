//! Whose manifests hub and agent are deployed with.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::peer::PeerHome;

/// Whose manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Those of `deploy/`.
    Ours,
    /// Those of argocd-agent, switched to us by changing the image.
    Upstream,
}

/// The files of one role.
pub(super) struct Files {
    /// The name of its Deployment, its service account and the hub's Service.
    pub(super) name: &'static str,
    /// Service account, what it may do, and kinds of its own.
    pub(super) rights: Vec<PathBuf>,
    pub(super) services: Vec<PathBuf>,
    pub(super) settings: PathBuf,
    pub(super) deployment: PathBuf,
}

impl Style {
    pub(super) fn hub(self, home: &PeerHome) -> Result<Files> {
        match self {
            Self::Ours => Ok(Files {
                name: "thane-hub",
                rights: deploy("hub", &["10-definition", "20-rights"]),
                services: deploy("hub", &["40-network"]),
                // All of them have defaults.
                settings: PathBuf::new(),
                deployment: deploy("hub", &["30-hub"]).remove(0),
            }),
            Self::Upstream => upstream(home, "principal", "argocd-agent-principal", &["grpc-service"]),
        }
    }

    pub(super) fn agent(self, home: &PeerHome) -> Result<Files> {
        match self {
            Self::Ours => Ok(Files {
                name: "thane-agent",
                rights: deploy("agent", &["20-rights"]),
                services: deploy("agent", &["40-network"]),
                settings: deploy("agent", &["10-settings"]).remove(0),
                deployment: deploy("agent", &["30-agent"]).remove(0),
            }),
            Self::Upstream => upstream(home, "agent", "argocd-agent-agent", &["metrics-service", "healthz-service"]),
        }
    }
}

/// Files below `deploy/`.
pub(super) fn deploy(role: &str, names: &[&str]) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(role);
    names.iter().map(|name| folder.join(format!("{name}.yaml"))).collect()
}

fn upstream(home: &PeerHome, role: &str, name: &'static str, services: &[&str]) -> Result<Files> {
    let folder = home.manifests("argocd-agent").join(role);
    let file = |part: &str| folder.join(format!("{role}-{part}.yaml"));
    let deployment = file("deployment");
    deployment.is_file().then_some(()).context("argocd-agent's manifests are missing: run `make peers`")?;
    Ok(Files {
        name,
        rights: ["sa", "role", "clusterrole", "rolebinding", "clusterrolebinding"].map(file).into(),
        services: services.iter().map(|part| file(part)).collect(),
        settings: file("params-cm"),
        deployment,
    })
}
