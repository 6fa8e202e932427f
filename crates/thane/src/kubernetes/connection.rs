//! Which API server, as whom, in which namespace.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde::de::DeserializeOwned;
use serde_json::Value;
use thane_api::code;
use thane_runtime::config::units::Span;
use tower::util::MapResponseLayer;

use super::catalog::Catalog;
use super::warnings::Warnings;
use crate::failure::Failure;

/// What `thane up` writes.
const DEFAULT_KUBECONFIG: &str = ".thane/kubeconfig";
/// Where hub and agents keep what is theirs.
const FLEET_NAMESPACE: &str = "argocd";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Flags of commands that talk to an API server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Kubeconfig file; else $KUBECONFIG, else ./.thane/kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; else its current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace; else the context's
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Longest wait for one answer
    #[arg(long, value_name = "DURATION", default_value_t = Span(Duration::from_mins(1)))]
    request_timeout: Span,
}

/// A connection in use.
pub(crate) struct Session {
    pub(crate) client: kube::Client,
    pub(crate) namespace: String,
    /// Whether the namespace was asked for rather than taken from the context.
    pub(crate) namespace_given: bool,
    server: String,
    timeout: Duration,
}

impl Connection {
    /// Whether an API server was named, for commands that need none.
    pub(crate) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    pub(crate) async fn open(&self) -> Result<Session, Failure> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = Config::from_custom_kubeconfig(self.read()?, &options).await?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // A watch may be silent for long; each request has its own timeout instead.
        config.read_timeout = None;
        let server = config.cluster_url.to_string();
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        check_segment("namespace", &namespace)?;
        let warnings = Warnings::default();
        let layer = MapResponseLayer::new(move |answer| warnings.tell(answer));
        Ok(Session {
            client: ClientBuilder::try_from(config)?.with_layer(&layer).build(),
            namespace,
            namespace_given: self.namespace.is_some(),
            server,
            timeout: self.request_timeout.0,
        })
    }

    fn read(&self) -> Result<Kubeconfig, Failure> {
        if let Some(path) = &self.kubeconfig {
            return read_file(path);
        }
        if let Some(kubeconfig) = Kubeconfig::from_env()? {
            return Ok(kubeconfig);
        }
        let default = Path::new(DEFAULT_KUBECONFIG);
        if !default.exists() {
            let message =
                format!("neither --kubeconfig nor $KUBECONFIG is set, and there is no {DEFAULT_KUBECONFIG} here");
            return Err(Failure::new(code::KUBECONFIG_UNUSABLE, message));
        }
        read_file(default)
    }
}

/// The hub's API, for those who administer a fleet.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct HubConnection {
    /// Kubeconfig file; else $KUBECONFIG, else ./.thane/kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The hub's context of the kubeconfig; else its current one
    #[arg(long, aliases = ["hub-context", "principal-context"], value_name = "NAME")]
    context: Option<String>,
    /// The hub's own namespace
    #[arg(short, long, alias = "principal-namespace", value_name = "NAME", default_value = FLEET_NAMESPACE)]
    namespace: String,
    /// Longest wait for one answer
    #[arg(long, value_name = "DURATION", default_value_t = Span(Duration::from_mins(1)))]
    request_timeout: Span,
}

/// An agent's API.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
#[expect(clippy::struct_field_names, reason = "the fields are flags")]
pub(crate) struct AgentConnection {
    /// Kubeconfig file of the agent's cluster; else the same as the hub's
    #[arg(long, value_name = "FILE")]
    agent_kubeconfig: Option<PathBuf>,
    /// The agent's context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    agent_context: Option<String>,
    /// The agent's namespace
    #[arg(long, value_name = "NAME", default_value = FLEET_NAMESPACE)]
    agent_namespace: String,
}

impl HubConnection {
    /// Whether an API was asked for at all.
    pub(crate) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    pub(crate) async fn open(&self) -> Result<Session, Failure> {
        self.connection(self.kubeconfig.clone(), self.context.clone(), &self.namespace).open().await
    }

    /// Who the kubeconfig in use says one is, with files read in: what a kubeconfig elsewhere needs.
    pub(crate) fn credentials(&self) -> Result<Value, Failure> {
        let kubeconfig = self.connection(self.kubeconfig.clone(), None, &self.namespace).read()?;
        inlined(kubeconfig, self.context.as_deref())
    }

    /// A connection to an agent's API, if one was named.
    pub(crate) async fn open_agent(&self, agent: &AgentConnection) -> Result<Option<Session>, Failure> {
        if agent.agent_kubeconfig.is_none() && agent.agent_context.is_none() {
            return Ok(None);
        }
        let kubeconfig = agent.agent_kubeconfig.clone().or_else(|| self.kubeconfig.clone());
        let connection = self.connection(kubeconfig, agent.agent_context.clone(), &agent.agent_namespace);
        connection.open().await.map(Some)
    }

    fn connection(&self, kubeconfig: Option<PathBuf>, context: Option<String>, namespace: &str) -> Connection {
        let request_timeout = self.request_timeout;
        Connection { kubeconfig, context, namespace: Some(namespace.to_owned()), request_timeout }
    }
}

/// The API a role works on: that of a kubeconfig, or that of the cluster this process is a pod of.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct RoleConnection {
    /// Kubeconfig file; else $KUBECONFIG, else the pod's own cluster, else ./.thane/kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; else its current one
    #[arg(long, alias = "kubecontext", value_name = "NAME")]
    context: Option<String>,
}

impl RoleConnection {
    /// A client, and the namespace of the context or the pod.
    pub(crate) async fn open(&self) -> Result<(kube::Client, String), Failure> {
        let mut config = match self.read()? {
            Some(kubeconfig) => {
                let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
                Config::from_custom_kubeconfig(kubeconfig, &options).await?
            }
            None => Config::incluster().map_err(|error| Failure::new(code::KUBECONFIG_UNUSABLE, error.to_string()))?,
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // A watch may be silent for long, and each write has a limit of its own.
        config.read_timeout = None;
        let namespace = config.default_namespace.clone();
        Ok((ClientBuilder::try_from(config)?.build(), namespace))
    }

    /// None is the cluster this process is a pod of.
    fn read(&self) -> Result<Option<Kubeconfig>, Failure> {
        if let Some(path) = &self.kubeconfig {
            return read_file(path).map(Some);
        }
        if let Some(kubeconfig) = Kubeconfig::from_env()? {
            return Ok(Some(kubeconfig));
        }
        if self.context.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
            return Ok(None);
        }
        let default = Path::new(DEFAULT_KUBECONFIG);
        if default.exists() { read_file(default).map(Some) } else { Ok(Some(Kubeconfig::read()?)) }
    }
}

/// The user of a context, with what is in files instead of their names.
fn inlined(kubeconfig: Kubeconfig, context: Option<&str>) -> Result<Value, Failure> {
    let unusable = |what: String| Failure::new(code::KUBECONFIG_UNUSABLE, what);
    let context = context.map(str::to_owned).or(kubeconfig.current_context);
    let context = context.ok_or_else(|| unusable("the kubeconfig has no current context".to_owned()))?;
    let named = kubeconfig.contexts.into_iter().find(|named| named.name == context);
    let user = named.and_then(|named| named.context).and_then(|context| context.user).unwrap_or_default();
    let found = kubeconfig.auth_infos.into_iter().find(|named| named.name == user);
    let info = found.and_then(|named| named.auth_info);
    let info = info.ok_or_else(|| unusable(format!("context {context} of the kubeconfig has no user")))?;
    let mut user = serde_json::to_value(info).map_err(|error| unusable(error.to_string()))?;
    for (file, data, encoded) in [
        ("client-certificate", "client-certificate-data", true),
        ("client-key", "client-key-data", true),
        ("tokenFile", "token", false),
    ] {
        let Some(path) = user.as_object_mut().and_then(|user| user.remove(file)) else { continue };
        let (Some(path), true) = (path.as_str(), user[data].is_null()) else { continue };
        let bytes = std::fs::read(path).map_err(|error| unusable(format!("{path}: {error}")))?;
        let text = if encoded { STANDARD.encode(&bytes) } else { String::from_utf8_lossy(&bytes).trim().to_owned() };
        user[data] = text.into();
    }
    Ok(user)
}

fn read_file(path: &Path) -> Result<Kubeconfig, Failure> {
    Kubeconfig::read_from(path).map_err(|error| match error {
        kube::config::KubeconfigError::ReadConfig(reason, path) => {
            Failure::new(code::KUBECONFIG_UNUSABLE, format!("{}: {reason}", path.display()))
        }
        other => Failure::from(other).about(&path.display().to_string()),
    })
}

impl Session {
    /// Sends one request and waits for the answer, but not for ever.
    pub(crate) async fn request<T: DeserializeOwned, E: Display>(
        &self,
        request: Result<http::Request<Vec<u8>>, E>,
    ) -> Result<T, Failure> {
        let request = request.map_err(|error| Failure::new(code::USAGE, error.to_string()))?;
        self.within(self.client.request(request)).await
    }

    /// The kinds the server has.
    pub(crate) async fn catalog(&self) -> Result<Catalog, Failure> {
        let core = self.within(self.client.list_core_api_versions_aggregated()).await?;
        let groups = self.within(self.client.list_api_groups_aggregated()).await?;
        Ok(Catalog::new(core.items.into_iter().chain(groups.items)))
    }

    /// An error of the connection, with the server's address.
    pub(crate) fn failure(&self, error: kube::Error) -> Failure {
        let failure = Failure::from(error);
        if failure.code() == code::UNREACHABLE { failure.about(&self.server) } else { failure }
    }

    async fn within<T>(&self, answer: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
        let answered = tokio::time::timeout(self.timeout, answer).await.map_err(|_| {
            let message = format!("{} did not answer within {}", self.server, Span(self.timeout));
            Failure::new(code::TIMED_OUT, message)
        })?;
        answered.map_err(|error| self.failure(error))
    }
}

/// Refuses names that would lead to another path.
pub(crate) fn check_segment(what: &str, name: &str) -> Result<(), Failure> {
    let bad = |c: char| "/%?#".contains(c) || c.is_whitespace() || c.is_control();
    if name.is_empty() || name == "." || name == ".." || name.contains(bad) {
        return Err(Failure::new(code::USAGE, format!("{name:?} is not a valid {what}")));
    }
    Ok(())
}
