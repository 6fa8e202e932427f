//! `thane agents create`.

use clap::Args;
use serde_json::json;
use thane_api::code;
use thane_hub::registration::Registration;
use thane_runtime::config::units::Span;
use thane_runtime::pki::{LEAF_LIFETIME, Request};
use thane_runtime::{Clock, SystemClock};

use super::Common;
use crate::failure::Failure;
use crate::fleet::cluster::{check_name, secret, secret_name, server_url};
use crate::fleet::issue;
use crate::fleet::objects::Objects;
use crate::kubernetes::connection::AgentConnection;

/// Make an agent: its cluster Secret, its namespace and, with --agent-context, its certificate
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The agent's name
    name: String,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    agent: AgentConnection,
    /// Where Argo CD reaches the hub's resource proxy, as HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value = "argocd-agent-resource-proxy:9090")]
    resource_proxy_server: String,
    /// A label of its cluster Secret, as name=value; may be repeated
    #[arg(short, long = "label", value_name = "LABEL", value_delimiter = ',')]
    labels: Vec<String>,
    /// How long its certificates are valid, such as 90d
    #[arg(long, value_name = "DURATION", default_value_t = Span(LEAF_LIFETIME))]
    lifetime: Span,
    /// Make no namespace on the hub: for hubs that find agents by destination
    #[arg(long)]
    no_namespace: bool,
}

impl Create {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let hub = self.common.hub.open().await?;
        let objects = Objects::new(&hub);
        check_name(&self.name, objects.namespace())?;
        let server = server_url(&self.resource_proxy_server, &self.name)?;
        let labels = labels(&self.labels)?;
        let agent = self.common.hub.open_agent(&self.agent).await?;
        if objects.secret(&secret_name(&self.name)).await?.is_some() {
            return Err(Failure::new(code::AGENT_EXISTS, format!("there is an agent {} already", self.name)));
        }
        let (authority, now) = (issue::authority(&objects).await?, SystemClock::new().now());
        if let Some(agent) = &agent {
            // First, as it can fail where the hub has no say.
            let objects = Objects::new(agent);
            issue::give_to_agent(&objects, &self.name, &authority, now, self.lifetime.0, false).await?;
        }
        let namespace_made = !self.no_namespace && objects.ensure_namespace(&self.name).await?;
        let identity = authority.issue(&Request::proxy(&self.name), now, self.lifetime.0)?;
        let registration = Registration {
            agent: &self.name,
            namespace: objects.namespace(),
            proxy: &self.resource_proxy_server,
            ca_pem: authority.cert_pem(),
            identity: &identity,
        };
        let secret = secret(&registration, &labels);
        objects.create(&format!("/api/v1/namespaces/{}/secrets", objects.namespace()), &secret).await?;
        let report = json!({
            "agent": self.name, "secret": format!("{}/{}", objects.namespace(), secret_name(&self.name)),
            "server": server, "namespaceCreated": namespace_made, "certificateGiven": agent.is_some(),
        });
        let next = match agent {
            Some(_) => "its certificate is in its cluster",
            None => "give it a certificate with `thane pki issue agent`",
        };
        self.common.report(&report, &format!("created agent {}; {next}", self.name))
    }
}

fn labels(texts: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let bad = |text: &str| Failure::new(code::USAGE, format!("{text:?} is not a label, which is name=value"));
    let pair = |text: &String| {
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(|| bad(text))
    };
    texts.iter().map(pair).collect()
}
