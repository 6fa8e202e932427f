//! The programs that play the roles. Both take the flags of argocd-agent, so one set of arguments serves both.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::peer::{Absence, PeerHome};

/// The namespace of Argo CD on either side.
pub(super) const NAMESPACE: &str = "argocd";

/// Whose program plays a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// argocd-agent, in Go.
    Go,
    /// Ours.
    Thane,
}

/// Where the truth about Applications is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// On the hub.
    Managed,
    /// On the agent's cluster.
    Autonomous,
}

impl Mode {
    /// As settings and flags call it.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::Autonomous => "autonomous",
        }
    }
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    go: PathBuf,
    thane: Option<PathBuf>,
}

impl Programs {
    /// Go's from the peers; ours from `THANE_PROGRAM`, or the one built beside the program that runs.
    pub fn locate(home: &PeerHome) -> Self {
        let beside = || {
            let running = std::env::current_exe().ok()?;
            // Tests are in `deps` and examples in `examples` of the folder where programs are.
            Some(running.parent()?.parent()?.join("thane"))
        };
        let thane = std::env::var_os("THANE_PROGRAM").map(PathBuf::from).or_else(beside).filter(|path| path.is_file());
        Self { go: home.program("argocd-agent"), thane }
    }

    /// Whether a program is there; if not, what a test should do about it.
    pub fn require(&self, program: Program) -> Result<(), Absence> {
        self.path(program).map(|_| ()).map_err(|error| Absence::because(error.to_string()))
    }

    /// Our own program; if it is not built, what a test should do about it.
    pub fn thane(&self) -> Result<&Path, Absence> {
        self.path(Program::Thane).map_err(|error| Absence::because(error.to_string()))
    }

    pub(super) fn path(&self, program: Program) -> Result<&Path> {
        match program {
            Program::Go => Ok(&self.go),
            Program::Thane => {
                self.thane.as_deref().context("thane is not built: run `cargo build` or set THANE_PROGRAM")
            }
        }
    }
}

/// Everything that arguments are made of.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// With the contexts `hub` and `spoke`.
    pub(super) kubeconfig: PathBuf,
    pub(super) mode: Mode,
    /// Argo CD's cache on either side, which may be the same.
    pub(super) hub_redis: u16,
    pub(super) spoke_redis: u16,
    /// Whether the hub's proxies listen, at ports that cannot be moved: 9090 and 6379.
    pub(super) live: bool,
    /// The hub's gRPC port.
    pub(super) listen: u16,
    pub(super) hub_metrics: u16,
    pub(super) hub_health: u16,
    pub(super) agent_metrics: u16,
    pub(super) agent_health: u16,
}

impl Setting {
    pub(super) fn hub(&self) -> Vec<String> {
        let mut all = vec!["principal".to_owned()];
        all.extend(self.common("hub", self.hub_metrics, self.hub_health));
        all.extend(pairs(&[
            ("--listen-host", "127.0.0.1"),
            ("--listen-port", &self.listen.to_string()),
            ("--auth", "mtls:CN=([^,]+)"),
            ("--allowed-namespaces", "*"),
            ("--redis-server-address", &format!("127.0.0.1:{}", self.hub_redis)),
        ]));
        all.extend(["--require-client-certs", "--client-cert-subject-match"].map(str::to_owned));
        if !self.live {
            all.extend(["--disable-redis-proxy", "--enable-resource-proxy=false"].map(str::to_owned));
        }
        all
    }

    pub(super) fn agent(&self) -> Vec<String> {
        let mut all = vec!["agent".to_owned()];
        all.extend(self.common("spoke", self.agent_metrics, self.agent_health));
        all.extend(pairs(&[
            ("--agent-mode", self.mode.flag()),
            ("--creds", "mtls:any"),
            ("--server-address", "127.0.0.1"),
            ("--server-port", &self.listen.to_string()),
            ("--redis-addr", &format!("127.0.0.1:{}", self.spoke_redis)),
        ]));
        all
    }

    fn common(&self, context: &str, metrics: u16, health: u16) -> Vec<String> {
        let level = std::env::var("THANE_FLEET_LOG").unwrap_or_else(|_| "info".to_owned());
        pairs(&[
            ("--kubeconfig", &self.kubeconfig.display().to_string()),
            ("--kubecontext", context),
            ("--namespace", NAMESPACE),
            ("--metrics-port", &metrics.to_string()),
            ("--healthz-port", &health.to_string()),
            ("--log-level", &level),
        ])
    }
}

fn pairs(list: &[(&str, &str)]) -> Vec<String> {
    list.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]).collect()
}
