//! Real systems, started on free loopback ports and stopped without a trace.

mod consul;
mod embedded;
mod kubernetes;
mod network;
mod node;
mod pki;
mod process;
mod thane;

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use consul::Consul;
pub use embedded::EmbeddedApi;
pub use kubernetes::KubeApiServer;
pub use network::in_own_network;
pub(crate) use node::tail;
pub use node::{Image, Node};
pub use process::Guarded;
pub use thane::Thane;

/// The folder that `make peers` fills.
#[derive(Debug, Clone)]
pub struct PeerHome {
    folder: PathBuf,
}

/// What a test does when peers are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// Say why, loudly, and pass.
    Skip(String),
    /// Fail: someone asked for the peers by `THANE_PEERS_REQUIRED=1`.
    Fail(String),
}

impl PeerHome {
    /// `THANE_PEERS_HOME`, or `thane-peers` in the user's cache folder.
    pub fn locate() -> Self {
        let folder = std::env::var_os("THANE_PEERS_HOME").map_or_else(
            || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/thane-peers"),
            PathBuf::from,
        );
        Self { folder }
    }

    /// The path of a built program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// A folder of custom resource definitions: `argo-cd` or `argo-workflows`.
    pub fn definitions(&self, of: &str) -> PathBuf {
        self.folder.join("crds").join(of)
    }

    /// A folder of manifests: the settings of `argo-cd`, its `argo-cd-controller`, or everything of `argocd-agent`.
    pub fn manifests(&self, of: &str) -> PathBuf {
        self.folder.join("manifests").join(of)
    }

    /// The archive of an image that was packed, such as `standin`.
    pub fn image(&self, name: &str) -> PathBuf {
        self.folder.join("images").join(format!("{name}.tar"))
    }

    /// Whether all these programs are built; if not, what a test should do about it.
    pub fn require(&self, programs: &[&str]) -> Result<(), Absence> {
        let missing: Vec<&str> = programs.iter().copied().filter(|name| !self.program(name).is_file()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Absence::because(format!(
            "{} not built in {}: run `make peers`",
            missing.join(", "),
            self.folder.display()
        )))
    }
}

impl Absence {
    /// What to do about a reason, as the environment says.
    pub fn because(why: String) -> Self {
        let required = std::env::var_os("THANE_PEERS_REQUIRED").is_some_and(|value| value == "1");
        if required { Self::Fail(why) } else { Self::Skip(why) }
    }

    /// Says loudly that nothing was tested.
    ///
    /// # Panics
    /// When the peers are required.
    pub fn tell(self) {
        match self {
            // Past the test harness, which would keep the words of a test that passes to itself.
            Self::Skip(why) => drop(writeln!(std::io::stderr(), "SKIPPED, nothing was tested: {why}")),
            Self::Fail(why) => panic!("{why}"),
        }
    }
}

/// A real Kubernetes with its controllers, or `None` after saying loudly why there is none.
///
/// # Panics
/// When it does not start, or is missing although `THANE_PEERS_REQUIRED=1`.
pub async fn kubernetes_or_skip(more: &[&str]) -> Option<(PeerHome, KubeApiServer)> {
    let home = home_or_skip(&[KubeApiServer::programs(), more].concat())?;
    let started = KubeApiServer::start(&home, true).await;
    Some((home, started.unwrap_or_else(|error| panic!("{error:#}"))))
}

/// The peers, or `None` after saying loudly which are missing.
///
/// # Panics
/// When some are missing although `THANE_PEERS_REQUIRED=1`.
pub fn home_or_skip(programs: &[&str]) -> Option<PeerHome> {
    let home = PeerHome::locate();
    match home.require(programs) {
        Ok(()) => Some(home),
        Err(absence) => {
            absence.tell();
            None
        }
    }
}

/// A client for the current context of a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let file = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

/// A port that was free a moment ago on loopback.
///
/// Two callers get different ports because the listeners are all held until the last port is known.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port on loopback")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Free ports below those that the system hands out, for programs that refuse port 32768 and above.
pub fn low_ports<const N: usize>() -> Result<[u16; N]> {
    const LOWEST: u16 = 10_000;
    const HIGHEST: u16 = 32_767;
    // Somebody else's search most likely begins elsewhere.
    let [start] = free_ports::<1>()?;
    let mut candidates =
        (0..HIGHEST - LOWEST).map(|step| LOWEST + start.wrapping_mul(7).wrapping_add(step) % (HIGHEST - LOWEST));
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = candidates.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
        let listener = listener.context("no free low port on loopback")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_ports_are_low_free_and_different() {
        let ports = low_ports::<8>().unwrap();
        let different: std::collections::BTreeSet<u16> = ports.into();
        assert_eq!(different.len(), ports.len());
        assert!(ports.iter().all(|port| (10_000..32_768).contains(port)), "{ports:?}");
    }
}
