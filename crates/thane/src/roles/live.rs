//! Live access to agents' clusters, on the hub.

use std::sync::Arc;

use kube::Client;
use serde_json::Value;
use thane_hub::gate::Gate;
use thane_hub::live::Events;
use thane_hub::proxy::policy::default_rules;
use thane_hub::proxy::{self, Authorities, People, Policy, Proxy, Rule, Tunnels, listener};
use thane_runtime::metrics::PREFIX;
use thane_runtime::tls::{ClientAuth, ServerOptions, ServerTls};

use super::secrets::{self, Kept, Place, Remedy, Wanted};
use super::{Ground, bind, listen_address};
use crate::failure::Failure;
use crate::settings::hub::HubSettings;

/// Where an API server says whose client certificates it believes.
const CLIENT_AUTHORITY: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

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
    let people = client_authority(live.client).await;
    let options = ServerOptions {
        versions: hub.tls.min_version.into(),
        client_auth: ClientAuth::Asked,
        protocols: vec!["h2", "http/1.1"],
    };
    let bundle = bundle(&fleet.text(), people.as_deref());
    let made = ServerTls::from_pem(&identity.identity(), Some(&bundle), &options);
    let tls = made.map_err(|error| secrets::unusable(&what, &error, &remedy))?;
    let metrics = proxy::Metrics::default();
    metrics.register(ground.registry.sub_registry_with_prefix(PREFIX));
    let proxy = Arc::new(Proxy {
        gate: Arc::clone(live.gate),
        people: People::new(live.client.clone(), Arc::clone(&ground.clock)),
        authorities: Authorities::new(&fleet.text(), people.as_deref())?,
        tunnels: live.tunnels.clone(),
        events: Some(Arc::new(live.events.clone())),
        policy: policy(&wanted.rules),
        metrics,
        clock: Arc::clone(&ground.clock),
    });
    let (changing, replaced) = (tls.clone(), Arc::clone(&proxy));
    secrets::on_change([identity, fleet], &tasks, move |[identity, fleet]: &[Kept; 2]| {
        let fleet = fleet.text();
        let bundle = self::bundle(&fleet, people.as_deref());
        changing.replace(&identity.identity(), Some(&bundle)).map_err(|error| error.to_string())?;
        replaced.authorities.replace(&fleet, people.as_deref()).map_err(|error| error.to_string())
    });
    let address = listen_address(&wanted.listen_host, wanted.listen_port)?;
    let listener = bind(&ground.network, address, "--resource-proxy-port").await?;
    tracing::info!(address = %listener.local_addr(), "live access to agents' clusters");
    tasks.spawn_essential("listener", listener::serve(listener, tls, proxy, tasks.child("connections")));
    Ok(())
}

fn policy(rules: &[Rule]) -> Policy {
    Policy::new(if rules.is_empty() { default_rules() } else { rules.to_vec() })
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

/// Whose certificates the hub's API believes; none where it does not say, and then people need tokens.
async fn client_authority(client: &Client) -> Option<String> {
    match get(client, CLIENT_AUTHORITY).await {
        Ok(object) => object["data"]["client-ca-file"].as_str().map(str::to_owned),
        Err(error) => {
            tracing::info!(%error, "client certificates of people are not accepted for live access; tokens are");
            None
        }
    }
}

async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

fn bundle(fleet: &str, people: Option<&str>) -> String {
    format!("{fleet}\n{}", people.unwrap_or_default())
}
