//! `thane pki issue`.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use thane_api::code;
use thane_runtime::config::units::Span;
use thane_runtime::pki::{LEAF_LIFETIME, Request, Subject, store};

use super::{AUTHORITY, Place, replaceable, report_secret};
use crate::failure::Failure;
use crate::fleet::cluster::check_name;
use crate::fleet::objects::Objects;
use crate::fleet::{self, CLIENT_TLS, PRINCIPAL_TLS, PROXY_TLS};
use crate::kubernetes::connection::{AgentConnection, HubConnection};

/// Issue a certificate
///
/// In files, or with --kubeconfig or --context in Secrets: principal in argocd-agent-principal-tls, resource-proxy in
/// argocd-agent-resource-proxy-tls, agent in argocd-agent-client-tls of the cluster that --agent-context names.
#[derive(Debug, Args)]
pub(crate) struct Issue {
    /// What the certificate is for
    profile: Profile,
    /// Common name, and name of the files; the hub and the resource proxy have one already
    name: Option<String>,
    #[command(flatten)]
    place: Place,
    /// DNS name or IP address of a server; may be repeated
    #[arg(long = "san", aliases = ["dns", "ip"], value_delimiter = ',', value_name = "NAME")]
    names: Vec<String>,
    /// Organization: to Kubernetes the user's group
    #[arg(long, value_name = "O")]
    organization: Option<String>,
    /// Organizational unit
    #[arg(long, value_name = "OU")]
    unit: Option<String>,
    /// How long it is valid, such as 90d
    #[arg(long, value_name = "DURATION", default_value_t = Span(LEAF_LIFETIME))]
    lifetime: Span,
    /// Replace what is already there
    #[arg(long, alias = "upsert", short_alias = 'u')]
    force: bool,
    #[command(flatten)]
    hub: HubConnection,
    #[command(flatten)]
    agent: AgentConnection,
}

/// What a certificate is for.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Profile {
    /// A server; needs at least one --san
    Server,
    /// A client, such as a user of the API
    Client,
    /// An agent
    Agent,
    /// The hub; needs at least one --san
    #[value(alias = "hub")]
    Principal,
    /// The resource proxy; needs at least one --san
    ResourceProxy,
}

impl Issue {
    pub(super) fn run(&self, now: Timestamp) -> Result<(), Failure> {
        let paths = self.place.free(self.name()?, self.force)?;
        let authority = store::load_authority(&self.place.paths(AUTHORITY)?)
            .map_err(|error| Failure::from(error).with_hint("create an authority with `thane pki init`"))?;
        let identity = authority.issue(&self.request()?, now, self.lifetime.0)?;
        store::save(&paths, &identity)?;
        self.place.report("issued", &paths, &identity.cert_pem)
    }

    pub(super) fn is_on_api(&self) -> bool {
        self.hub.is_given()
    }

    pub(super) async fn run_on_api(&self, now: Timestamp) -> Result<(), Failure> {
        let hub = self.hub.open().await?;
        let objects = Objects::new(&hub);
        let secret = match self.profile {
            Profile::Principal => PRINCIPAL_TLS,
            Profile::ResourceProxy => PROXY_TLS,
            Profile::Agent => return self.give_to_agent(&objects, now).await,
            Profile::Server | Profile::Client => {
                let message = "only principal, resource-proxy and agent are kept in Secrets";
                return Err(Failure::new(code::USAGE, message));
            }
        };
        let authority = fleet::issue::authority(&objects).await?;
        let identity = authority.issue(&self.request()?, now, self.lifetime.0)?;
        fleet::issue::save(&objects, secret, &identity, self.force).await.map_err(replaceable)?;
        report_secret(self.place.output, "issued", &objects, secret, &identity.cert_pem)
    }

    async fn give_to_agent(&self, hub: &Objects<'_>, now: Timestamp) -> Result<(), Failure> {
        let name = self.name()?;
        check_name(name, hub.namespace())?;
        let agent = self.hub.open_agent(&self.agent).await?;
        let agent = agent.ok_or_else(|| {
            Failure::new(code::USAGE, "an agent's certificate goes to its own cluster")
                .with_hint("give --agent-context")
        })?;
        let objects = Objects::new(&agent);
        let authority = fleet::issue::authority(hub).await?;
        let given = fleet::issue::give_to_agent(&objects, name, &authority, now, self.lifetime.0, self.force).await;
        let identity = given.map_err(replaceable)?;
        report_secret(self.place.output, "issued", &objects, CLIENT_TLS, &identity.cert_pem)
    }

    fn name(&self) -> Result<&str, Failure> {
        match (&self.name, self.profile) {
            (Some(name), _) => Ok(name),
            (None, Profile::Principal) => Ok("argocd-agent-principal"),
            (None, Profile::ResourceProxy) => Ok("argocd-agent-resource-proxy"),
            (None, _) => Err(Failure::new(code::USAGE, "a name is needed")),
        }
    }

    fn request(&self) -> Result<Request, Failure> {
        let name = self.name()?;
        let subject = Subject {
            common_name: name.to_owned(),
            organization: self.organization.clone(),
            organizational_unit: self.unit.clone(),
        };
        let request = match self.profile {
            Profile::Server | Profile::Principal | Profile::ResourceProxy => {
                Request { subject, ..Request::server("", Vec::<String>::new()) }
            }
            Profile::Client => Request::client(subject),
            Profile::Agent => {
                let agent = Request::agent(name);
                let organizational_unit = self.unit.clone().or(agent.subject.organizational_unit);
                Request::client(Subject { organizational_unit, ..subject })
            }
        };
        Ok(Request { names: self.names.clone(), ..request })
    }
}
