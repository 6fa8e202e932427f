//! Sandboxes of every API whose pods run here, and a gateway for the hub's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use prometheus_client::registry::Registry;
use thane_api::code;
use thane_apiserver::ApiServer;
use thane_node::Node;
use thane_runtime::pki::store::{Paths, create_directory};
use thane_runtime::pki::{Request, Subject, kept};
use thane_runtime::tls::{ClientAuth, ClientOptions, ClientTls, ServerOptions, ServerTls};
use thane_sandbox::claims::Claims;
use thane_sandbox::direct::Direct;
use thane_sandbox::gateway::{self, Access};
use thane_sandbox::names::SIDECAR_NAME;
use thane_sandbox::operator;
use thane_sandbox::pods::Shape;
use thane_sandbox::sidecar::Sidecars;

use super::fleet::Place;
use super::install::{self, Account};
use super::{HUB, listen};
use crate::failure::Failure;
use crate::settings::UpSettings;

/// What the roles may do, here as on Kubernetes.
const RIGHTS: &str = include_str!("../../../../deploy/sandbox/20-rights.yaml");
/// Where the roles have their accounts.
pub(super) const NAMESPACE: &str = "thane-sandboxes";
const OPERATOR: Account = Account { namespace: NAMESPACE, name: "thane-operator", may: "/api/v1/pods?limit=1" };
const GATEWAY: Account = Account { namespace: NAMESPACE, name: "thane-gateway", may: "/api/v1/pods?limit=1" };

/// An API whose pods run here.
pub(super) struct Runner<'a> {
    pub(super) name: &'a str,
    pub(super) server: &'a ApiServer,
    pub(super) node: Node,
}

/// How operator and gateway, and sidecars, know each other.
struct Certificates {
    sidecars: ServerTls,
    clients: ClientTls,
}

impl Certificates {
    fn keep(directory: &Path, now: Timestamp) -> Result<Self, Failure> {
        create_directory(directory)?;
        let authority = kept::authority(&Paths::new(directory, "ca"), "thane-sandboxes", now)?;
        let wanted = Request::server(SIDECAR_NAME, [SIDECAR_NAME]);
        let (sidecar, _) = kept::identity(&Paths::new(directory, "sidecar"), &authority, &wanted, now)?;
        let wanted = Request::client(Subject { common_name: "gateway".to_owned(), ..Subject::default() });
        let (client, _) = kept::identity(&Paths::new(directory, "gateway"), &authority, &wanted, now)?;
        let serving =
            ServerOptions { client_auth: ClientAuth::Required, protocols: vec!["h2"], ..ServerOptions::default() };
        let calling = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
        Ok(Self {
            sidecars: ServerTls::from_pem(&sidecar, Some(authority.cert_pem()), &serving)?,
            clients: ClientTls::from_pem(authority.cert_pem(), Some(&client), &calling)?,
        })
    }
}

/// Sandboxes of every API whose pods run here.
pub(super) struct Sandboxes {
    /// Where the gateway is, if the hub's pods run here.
    pub(super) gateway: Option<String>,
    claims: BTreeMap<String, Claims>,
    tls: ClientTls,
}

impl Sandboxes {
    /// Those of one API, for other parts of this process.
    pub(super) async fn direct(&self, place: &Place<'_>, runner: &Runner<'_>) -> Result<Arc<Direct>, Failure> {
        let Some(claims) = self.claims.get(runner.name) else {
            return Err(Failure::new(code::BUG, format!("{} has no sandboxes", runner.name)));
        };
        let client = install::entitled(runner.server, &GATEWAY).await?;
        let tasks = place.tasks.child(format!("lodging-{}", runner.name));
        let clock = Arc::clone(place.clock);
        Ok(Arc::new(Direct::new(client, claims.clone(), self.tls.clone(), clock, "thane-workflows", &tasks)))
    }
}

/// Keeps pools and sandboxes of every API, with a gateway if the hub's pods run here.
pub(super) async fn start(
    up: &UpSettings,
    place: &Place<'_>,
    runners: &[Runner<'_>],
    registry: &mut Registry,
) -> Result<Sandboxes, Failure> {
    let (directory, now) = (place.directory.join("sandboxes"), place.clock.now());
    let made = tokio::task::spawn_blocking(move || Certificates::keep(&directory, now)).await;
    let certificates = made.map_err(|error| Failure::new(code::BUG, format!("make certificates: {error}")))??;
    let (mut gateway, mut all) = (None, BTreeMap::new());
    for runner in runners {
        let own = registry.sub_registry_with_label(("server".into(), runner.name.to_owned().into()));
        let claims = keep(place, runner, &certificates, own).await?;
        all.insert(runner.name.to_owned(), claims.clone());
        if runner.name == HUB {
            let listener = place.network.bind(listen(up.gateway_address, up.ephemeral_ports)).await?;
            gateway = Some(format!("http://{}", listener.local_addr()));
            let parts = gateway::Parts {
                client: install::entitled(runner.server, &GATEWAY).await?,
                claims,
                tls: certificates.clients.clone(),
                listener,
                clock: Arc::clone(place.clock),
            };
            let options = gateway::Options::new("thane-up", Access::Local);
            gateway::start(options, parts, registry, &place.tasks.child("gateway")).ready().await;
        }
    }
    Ok(Sandboxes { gateway, claims: all, tls: certificates.clients })
}

/// The operator and the sidecars of one API.
async fn keep(
    place: &Place<'_>,
    runner: &Runner<'_>,
    certificates: &Certificates,
    registry: &mut Registry,
) -> Result<Claims, Failure> {
    let tasks = place.tasks.child(format!("sandboxes-{}", runner.name));
    install::grant(&runner.server.client(install::process(), NAMESPACE), RIGHTS).await?;
    let client = install::entitled(runner.server, &OPERATOR).await?;
    let sidecars = Sidecars::start(
        client.clone(),
        Arc::new(runner.node.clone()),
        certificates.sidecars.clone(),
        Arc::clone(place.network),
        Arc::clone(place.clock),
        &tasks.child("sidecars"),
    );
    sidecars.metrics().register(registry);
    let claims = Claims::start(client.clone(), Arc::clone(place.clock), &tasks.child("claims"));
    claims.register(registry);
    let options = operator::Options {
        shape: Shape::Embedded,
        sidecars: certificates.clients.clone(),
        lease: None,
        certificates: None,
        claims: Some(claims.clone()),
        managed_unused: operator::MANAGED_UNUSED,
    };
    operator::start(client, options, Arc::clone(place.clock), &tasks, registry);
    Ok(claims)
}
