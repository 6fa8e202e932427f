//! The gateway as a process.

use std::sync::Arc;

use kube::Client;
use thane_api::code;
use thane_runtime::Tasks;
use thane_runtime::config::Loaded;
use thane_runtime::telemetry::LogLevels;
use thane_runtime::tls::{ClientOptions, ClientTls};
use thane_sandbox::claims::Claims;
use thane_sandbox::gateway::{self, Access, Keys, Options, Parts};
use thane_sandbox::pods::{Kubernetes, Shape};

use super::secrets::{self, Kept, Place, Remedy, Wanted};
use super::{Ending, Ground, bind, namespace};
use crate::failure::Failure;
use crate::kubernetes::connection::RoleConnection;
use crate::settings::Settings;
use crate::settings::gateway::GatewaySettings;

/// Runs the gateway until a signal, or until a part it needs fails.
pub(crate) async fn run(
    settings: Loaded<Settings>,
    levels: LogLevels,
    connection: RoleConnection,
) -> Result<(), Failure> {
    let ending = Ending { linger: settings.value.admin.linger.0, grace: settings.value.gateway.grace.0 };
    super::run(ending, async |tasks| start(&settings, levels, &connection, tasks).await).await
}

async fn start(
    settings: &Loaded<Settings>,
    levels: LogLevels,
    connection: &RoleConnection,
    tasks: Tasks,
) -> Result<(), Failure> {
    let gateway = &settings.value.gateway;
    let mut ground = Ground::open(&settings.value, gateway.health_port, tasks).await?;
    let (client, context) = connection.open().await?;
    let namespace = namespace(&gateway.namespace, context)?;
    let secrets = ground.tasks.child("secrets");
    let access = access(gateway, &namespace, &client, &secrets).await?;
    let tls = tls(gateway, &namespace, &client, &secrets).await?;
    let listener = bind(&ground.network, gateway.address, "gateway.address").await?;
    let address = listener.local_addr();
    let role = ground.tasks.child("gateway");
    let claims = Claims::start_shaped(client.clone(), shape(gateway), Arc::clone(&ground.clock), &role.child("claims"));
    claims.register(&mut ground.registry);
    let mut options = Options::new(name(), access);
    options.namespace.clone_from(&gateway.default_namespace);
    options.limits = gateway.limits();
    let parts = Parts { client, claims, tls, listener, clock: Arc::clone(&ground.clock) };
    let mut running = gateway::start(options, parts, &mut ground.registry, &role);
    let ready = ground.readiness.condition("sessions are known");
    ground.serve(settings, levels);
    role.spawn("readiness", async move {
        if running.ready().await {
            tracing::info!(%address, "clients can call");
            ready.holds();
        }
    });
    Ok(())
}

/// What Sandboxes say who claims for them: the pod's own name where there is one.
fn name() -> String {
    std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "gateway".to_owned())
}

/// What pods are made like that are made because a pool is empty.
fn shape(gateway: &GatewaySettings) -> Shape {
    if gateway.image.is_empty() {
        return Shape::Embedded;
    }
    Shape::Kubernetes(Kubernetes { image: gateway.image.clone(), secret: gateway.sidecar_secret.clone() })
}

async fn access(gateway: &GatewaySettings, namespace: &str, client: &Client, tasks: &Tasks) -> Result<Access, Failure> {
    if gateway.anonymous {
        if !gateway.address.ip().is_loopback() {
            let message = "gateway.anonymous: without keys the gateway listens on loopback only";
            return Err(Failure::new(code::CONFIG_INVALID, message));
        }
        tracing::warn!("no keys are asked for: anybody on this machine may use every sandbox");
        return Ok(Access::Local);
    }
    let remedy = Remedy("put {\"keys\": [{\"name\", \"sha256\", \"role\"}]} there as keys.json".to_owned());
    let place = Place::choose(&[&gateway.keys], namespace, &gateway.keys_secret)?;
    let what = place.to_string();
    let kept = place.open(Wanted::ClientKeys, client, &remedy, tasks).await?;
    let keys = Keys::parse(kept.text().as_bytes()).map_err(|error| secrets::unusable(&what, &error, &remedy))?;
    let changing = keys.clone();
    secrets::on_change([kept], tasks, move |[kept]: &[Kept; 1]| {
        changing.replace(kept.text().as_bytes()).map_err(|error| error.to_string())
    });
    Ok(Access::Keys(keys))
}

async fn tls(gateway: &GatewaySettings, namespace: &str, client: &Client, tasks: &Tasks) -> Result<ClientTls, Failure> {
    let remedy = Remedy("`thane operator` makes it when it starts".to_owned());
    let place = Place::choose(&[&gateway.tls.cert, &gateway.tls.key], namespace, &gateway.tls.secret)?;
    let what = place.to_string();
    let identity = place.open(Wanted::Identity, client, &remedy, tasks).await?;
    let authority = Place::choose(&[&gateway.tls.ca], namespace, &gateway.tls.ca_secret)?;
    let authorities = authority.open(Wanted::Authorities, client, &remedy, tasks).await?;
    let options = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
    let made = ClientTls::from_pem(&authorities.text(), Some(&identity.identity()), &options);
    let tls = made.map_err(|error| secrets::unusable(&what, &error, &remedy))?;
    let changing = tls.clone();
    secrets::on_change([identity, authorities], tasks, move |[identity, authorities]: &[Kept; 2]| {
        let replaced = changing.replace(&authorities.text(), Some(&identity.identity()));
        replaced.map_err(|error| error.to_string())
    });
    Ok(tls)
}
