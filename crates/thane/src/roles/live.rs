//! Live access to agents' clusters, on the hub.

use std::sync::Arc;

use kube::Client;
use serde_json::Value;
use thane_api::code;
use thane_hub::gate::Gate;
use thane_hub::live::Events;
use thane_hub::proxy::{self, Authorities, Bodies, People, Policy, Proxy, Rule, Tunnels, listener, policy};
use thane_runtime::Tasks;
use thane_runtime::metrics::PREFIX;
use thane_runtime::tls::{ClientAuth, ServerOptions, ServerTls};
use tokio::sync::watch;

use super::secrets::{self, Kept, Place, Remedy, Wanted};
use super::{Ground, bind, listen_address};
use crate::failure::Failure;
use crate::settings::hub::HubSettings;

/// Where an API server says whose client certificates it believes.
const CLIENT_AUTHORITY: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// What the hub has for it.
pub(super) struct Live<'a> {
    pub(super) client: &'a Client,
    pub(super) gate: &'a Arc<Gate>,
    pub(super) tunnels: &'a Tunnels,
    pub(super) events: &'a Events,
    pub(super) namespace: &'a str,
}

/// Starts the proxy, unless it is switched off or has no certificate.
pub(super) async fn start(hub: &HubSettings, live: Live<'_>, ground: &mut Ground) -> Result<(), Failure> {
    let wanted = &hub.proxy;
    let policy = policy(&wanted.rules)?;
    let place = Place::choose(&[&wanted.cert, &wanted.key], live.namespace, &wanted.secret)?;
    if !wanted.enabled || !is_there(&place, live.client).await? {
        tracing::info!(certificate = %place, "no live access: it is switched off or has no certificate");
        return Ok(());
    }
    let tasks = ground.tasks.child("proxy");
    let remedy = Remedy(format!("make it with `thane pki issue resource-proxy --namespace {}`", live.namespace));
    let what = place.to_string();
    let identity = place.open(Wanted::Identity, live.client, &remedy, &tasks).await?;
    let authority = Place::choose(&[&wanted.ca], live.namespace, &wanted.ca_secret)?;
    let fleet = authority.open(Wanted::Authorities, live.client, &remedy, &tasks).await?;
    let people = client_authority(live.client, &tasks).await;
    let known = people.text();
    let known = Some(known.as_str()).filter(|known| !known.is_empty());
    let options = ServerOptions {
        versions: hub.tls.min_version.into(),
        client_auth: ClientAuth::Asked,
        protocols: vec!["h2", "http/1.1"],
    };
    let bundle = bundle(&fleet.text(), known);
    let made = ServerTls::from_pem(&identity.identity(), Some(&bundle), &options);
    let tls = made.map_err(|error| secrets::unusable(&what, &error, &remedy))?;
    let metrics = proxy::Metrics::default();
    metrics.register(ground.registry.sub_registry_with_prefix(PREFIX));
    let proxy = Arc::new(Proxy {
        gate: Arc::clone(live.gate),
        people: People::new(live.client.clone(), Arc::clone(&ground.clock)),
        authorities: Authorities::new(&fleet.text(), known)?,
        tunnels: live.tunnels.clone(),
        events: Some(Arc::new(live.events.clone())),
        policy,
        bodies: Bodies::default(),
        metrics,
        clock: Arc::clone(&ground.clock),
    });
    let (changing, replaced) = (tls.clone(), Arc::clone(&proxy));
    secrets::on_change([identity, fleet, people], &tasks, move |[identity, fleet, people]: &[Kept; 3]| {
        let (fleet, people) = (fleet.text(), people.text());
        let people = Some(people.as_str()).filter(|people| !people.is_empty());
        let bundle = self::bundle(&fleet, people);
        changing.replace(&identity.identity(), Some(&bundle)).map_err(|error| error.to_string())?;
        replaced.authorities.replace(&fleet, people).map_err(|error| error.to_string())
    });
    let address = listen_address(&wanted.listen_host, wanted.listen_port)?;
    let listener = bind(&ground.network, address, "--resource-proxy-port").await?;
    tracing::info!(address = %listener.local_addr(), "live access to agents' clusters");
    tasks.spawn_essential("listener", listener::serve(listener, tls, proxy, tasks.child("connections")));
    Ok(())
}

/// What the configuration lets pass.
pub(crate) fn policy(rules: &[Rule]) -> Result<Policy, Failure> {
    policy::check(rules).map_err(|invalid| {
        let failure = Failure::new(code::CONFIG_INVALID, format!("hub.proxy.rules: {invalid}"));
        failure.with_hint("see \"What may pass\" in docs/live.md")
    })?;
    Ok(Policy::configured(rules))
}

/// Whether a certificate was made for it: a fleet without live access needs none.
async fn is_there(place: &Place, client: &Client) -> Result<bool, Failure> {
    let Place::Secret { namespace, name } = place else { return Ok(true) };
    match get(client, &format!("/api/v1/namespaces/{namespace}/secrets/{name}")).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(Failure::from(error).about(&place.to_string())),
    }
}

/// Whose certificates the hub's API believes, from now on; no text while it does not say, and then people need tokens.
async fn client_authority(client: &Client, tasks: &Tasks) -> Kept {
    let (namespace, name) = CLIENT_AUTHORITY;
    let read = get(client, &format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).await;
    if let Err(error) = &read {
        tracing::info!(%error, "client certificates of people are not accepted for live access; tokens are");
    }
    let is_forbidden = matches!(&read, Err(kube::Error::Api(status)) if status.code == 403);
    let first = read.ok().as_ref().and_then(authority);
    let (sender, texts) = watch::channel(vec![first.unwrap_or_default()]);
    if is_forbidden {
        // Tokens alone, as it is meant: a watch would be refused again and again.
        let stop = tasks.token();
        tasks.spawn("authority", async move {
            stop.cancelled().await;
            drop(sender);
        });
        return Kept { texts };
    }
    secrets::follow_one(client, namespace, "configmaps", name, tasks, move |object| match object.and_then(authority) {
        Some(text) => {
            sender.send_if_modified(|texts| {
                let is_new = texts.first() != Some(&text);
                *texts = vec![text];
                is_new
            });
        }
        None => tracing::debug!("the hub's API does not say whose certificates it believes; what is known stays"),
    });
    Kept { texts }
}

/// The authority that the hub's API says it believes.
fn authority(object: &Value) -> Option<String> {
    object["data"]["client-ca-file"].as_str().map(str::to_owned)
}

async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

fn bundle(fleet: &str, people: Option<&str>) -> String {
    format!("{fleet}\n{}", people.unwrap_or_default())
}
