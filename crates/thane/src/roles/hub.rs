//! The hub as a process.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Client;
use serde_json::{Map, Value};
use thane_api::code;
use thane_api::event::{TUNNEL, Target};
use thane_hub::gate::{Certificates, Gate, Method, Options, Tokens, generate_key};
use thane_hub::live::Events;
use thane_hub::proxy::{Tunnels, tunnel};
use thane_hub::redis::Desk;
use thane_hub::role::{self, Config, Parts};
use thane_hub::transport;
use thane_link::{Passage, Takers};
use thane_runtime::Tasks;
use thane_runtime::config::Loaded;
use thane_runtime::metrics::PREFIX;
use thane_runtime::telemetry::LogLevels;
use thane_runtime::tls::{ClientAuth, ServerOptions, ServerTls};
use thane_sync::link::TROUBLES;
use thane_sync::mapping::{HubSide, Pattern};
use thane_sync::resync::{DIGEST, PLACES, PONG};

use super::secrets::{self, Kept, Place, Remedy, Wanted};
use super::{Ending, Ground, bind, listen_address, namespace, patterns, word};
use crate::failure::Failure;
use crate::kubernetes::connection::RoleConnection;
use crate::settings::Settings;
use crate::settings::hub::{self, HubSettings};

/// Certificates that are no longer believed.
const BLOCKLIST: &str = "argocd-agent-tls-blocklist";

/// Runs the hub until a signal, or until a part it needs fails.
pub(crate) async fn run(
    settings: Loaded<Settings>,
    levels: LogLevels,
    connection: RoleConnection,
) -> Result<(), Failure> {
    let ending = Ending { linger: settings.value.admin.linger.0, grace: settings.value.hub.grace.0 };
    super::run(ending, async |tasks| start(&settings, levels, &connection, tasks).await).await
}

async fn start(
    settings: &Loaded<Settings>,
    levels: LogLevels,
    connection: &RoleConnection,
    tasks: Tasks,
) -> Result<(), Failure> {
    let hub = &settings.value.hub;
    let mut ground = Ground::open(&settings.value, hub.health_port, tasks).await?;
    let (client, context) = connection.open().await?;
    let namespace = namespace(&hub.namespace, context)?;
    let config = config(hub, &namespace)?;
    let places = Places::choose(hub, &namespace)?;
    let secrets = ground.tasks.child("secrets");
    let gate = gate(hub, &namespace, places.key, &client, &ground, &secrets).await?;
    let tls = tls(hub, &namespace, (places.identity, places.authorities), &client, &secrets).await?;
    block(&gate, &namespace, &client, &secrets).await?;
    let listener = bind(&ground.network, listen_address(&hub.listen_host, hub.listen_port)?, "--listen-port").await?;
    let address = listener.local_addr();
    let guests = super::discovery::registry(&hub.discovery, &mut ground).await?;
    let redis = super::redis::prepare(&hub.redis, &namespace, &client, &ground).await?;
    let passage = Passage::default();
    let desk = Desk::new(passage.clone(), hub.redis.answer_timeout.0);
    let takers = Takers::default().with(Target::Redis, desk.clone());
    let metrics = ground.registry.sub_registry_with_prefix(PREFIX);
    let events = Events::new(passage.clone(), metrics, ground.tasks.child("live"));
    let tunnels = Tunnels::new(tunnel::Config::default(), ground.tasks.child("tunnels"));
    let live =
        super::live::Live { client: &client, gate: &gate, tunnels: &tunnels, events: &events, namespace: &namespace };
    super::live::start(hub, live, &mut ground).await?;
    let parts = Parts {
        client,
        listener,
        tls: Some(tls),
        gate,
        clock: Arc::clone(&ground.clock),
        passing: Arc::new(takers.and(events.takers())),
        passage,
        streams: Arc::new(events),
        tunnels,
        guests,
        salt: uuid::Uuid::new_v4().to_string(),
    };
    let role = ground.tasks.child("hub");
    let mut handle = role::start(config, parts, &mut ground.registry, &role).await?;
    if let Some(redis) = redis {
        redis.start(handle.roster(), desk, &mut ground);
    }
    let ready = ground.readiness.condition("agents can call");
    ground.serve(settings, levels);
    role.spawn("readiness", async move {
        if handle.listening().await {
            tracing::info!(%address, namespace, "agents can call");
            ready.holds();
        }
    });
    Ok(())
}

/// Where the hub keeps what is secret.
struct Places {
    identity: Place,
    authorities: Place,
    key: Place,
}

impl Places {
    fn choose(hub: &HubSettings, namespace: &str) -> Result<Self, Failure> {
        Ok(Self {
            identity: Place::choose(&[&hub.tls.cert, &hub.tls.key], namespace, &hub.tls.secret)?,
            authorities: Place::choose(&[&hub.tls.ca], namespace, &hub.tls.ca_secret)?,
            key: Place::choose(&[&hub.jwt.key], namespace, &hub.jwt.secret)?,
        })
    }
}

fn config(hub: &HubSettings, namespace: &str) -> Result<Config, Failure> {
    let transport = transport::Config {
        connections_max: hub.connections_max.max(1),
        message_bytes_max: usize::try_from(hub.message_bytes_max.0).unwrap_or(usize::MAX),
        handshake_timeout: hub.handshake_timeout.0,
        keepalive_interval: hub.keepalive_interval.0,
        keepalive_timeout: hub.keepalive_timeout.0,
        websocket: hub.websocket,
        ..transport::Config::default()
    };
    Ok(Config {
        side: HubSide {
            namespace: namespace.to_owned(),
            placement: hub.placement.into(),
            allowed_namespaces: patterns(&hub.allowed_namespaces)?,
        },
        selector: hub.selector.clone(),
        makes_namespaces: made_namespaces(hub)?,
        namespace_labels: labels(&hub.namespace_labels)?,
        link: hub.link.options(),
        writes_max: hub.writes_max.max(1),
        write_timeout: hub.write_timeout.0,
        transport,
    })
}

/// Which namespaces may be made: all where there is no expression for them.
fn made_namespaces(hub: &HubSettings) -> Result<Option<Pattern>, Failure> {
    let text = &hub.create_namespaces_pattern;
    let pattern = if text.is_empty() { Pattern::glob("*") } else { Pattern::new(format!("/{text}/")) };
    if !pattern.is_valid() {
        let message = format!("hub.createNamespacesPattern: {text:?} is no regular expression");
        return Err(Failure::new(code::CONFIG_INVALID, message));
    }
    Ok(hub.create_namespaces.then_some(pattern))
}

fn labels(texts: &[String]) -> Result<Value, Failure> {
    let mut labels = Map::new();
    for text in texts {
        let (name, value) = text.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or_else(|| {
            Failure::new(code::CONFIG_INVALID, format!("hub.namespaceLabels: {text:?} is not name=value"))
        })?;
        labels.insert(name.to_owned(), value.into());
    }
    Ok(labels.into())
}

async fn gate(
    hub: &HubSettings,
    namespace: &str,
    place: Place,
    client: &Client,
    ground: &Ground,
    tasks: &Tasks,
) -> Result<Arc<Gate>, Failure> {
    let method: Method = word("hub.auth", &hub.auth)?;
    let options = Options {
        namespace: namespace.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        certificates: certificates(hub.certificates, &method),
        methods: vec![method],
        capabilities: BTreeSet::from([DIGEST, PLACES, PONG, TROUBLES, TUNNEL].map(str::to_owned)),
    };
    let clock = Arc::clone(&ground.clock);
    if hub.jwt.temporary {
        tracing::warn!(
            "tokens are signed with a key made on the spot; agents will have to log in again after a restart"
        );
        let tokens = generate_key().and_then(|key| Tokens::new(&key));
        let tokens = tokens.map_err(|error| Failure::new(code::BUG, error.to_string()))?;
        return Ok(Arc::new(Gate::new(options, tokens, clock)));
    }
    let remedy = Remedy(format!("make it with `thane jwt create-key --namespace {namespace}`"));
    let what = place.to_string();
    let key = place.open(Wanted::SigningKey, client, &remedy, tasks).await?;
    let tokens = Tokens::new(&key.text());
    let tokens = tokens.map_err(|error| secrets::unusable(&what, &error, &remedy))?;
    let gate = Arc::new(Gate::new(options, tokens, clock));
    let changing = Arc::clone(&gate);
    secrets::on_change([key], tasks, move |[key]| {
        let tokens = Tokens::new(&key.text()).map_err(|error| error.to_string())?;
        changing.set_tokens(tokens);
        Ok(())
    });
    Ok(gate)
}

/// Where a certificate is the proof of identity, it has to be that of the agent.
fn certificates(configured: hub::Certificates, method: &Method) -> Certificates {
    match (configured, method) {
        (hub::Certificates::Unneeded, _) => Certificates::NotNeeded,
        (hub::Certificates::Trusted, Method::Passwords(_)) => Certificates::Trusted,
        (hub::Certificates::Trusted | hub::Certificates::Matching, _) => Certificates::Matching,
    }
}

async fn tls(
    hub: &HubSettings,
    namespace: &str,
    (place, authority): (Place, Place),
    client: &Client,
    tasks: &Tasks,
) -> Result<ServerTls, Failure> {
    let remedy = Remedy(format!("make it with `thane pki issue principal --dns HOST --namespace {namespace}`"));
    let what = place.to_string();
    let identity = place.open(Wanted::Identity, client, &remedy, tasks).await?;
    let made = Remedy(format!("make it with `thane pki init --namespace {namespace}`"));
    let authorities = authority.open(Wanted::Authorities, client, &made, tasks).await?;
    let options = ServerOptions {
        versions: hub.tls.min_version.into(),
        client_auth: ClientAuth::Asked,
        protocols: vec!["h2", "http/1.1"],
    };
    let made = ServerTls::from_pem(&identity.identity(), Some(&authorities.text()), &options);
    let tls = made.map_err(|error| secrets::unusable(&what, &error, &remedy))?;
    let changing = tls.clone();
    secrets::on_change([identity, authorities], tasks, move |[identity, authorities]: &[Kept; 2]| {
        let replaced = changing.replace(&identity.identity(), Some(&authorities.text()));
        replaced.map_err(|error| error.to_string())
    });
    Ok(tls)
}

/// Keeps certificates out that are no longer believed, from the start and as the list changes.
async fn block(gate: &Arc<Gate>, namespace: &str, client: &Client, tasks: &Tasks) -> Result<(), Failure> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{BLOCKLIST}");
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| Failure::new(code::BUG, error.to_string()))?;
    match client.request::<Value>(request).await {
        Ok(list) => gate.set_blocked(fingerprints(Some(&list))),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(Failure::from(error).about(&format!("ConfigMap {namespace}/{BLOCKLIST}"))),
    }
    let gate = Arc::clone(gate);
    secrets::follow_one(client, namespace, "configmaps", BLOCKLIST, tasks, move |list| {
        gate.set_blocked(fingerprints(list));
    });
    Ok(())
}

fn fingerprints(list: Option<&Value>) -> Vec<String> {
    let data = list.and_then(|list| list["data"].as_object());
    data.map(|data| data.keys().cloned().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_made_where_the_expression_matches() {
        let made = |create_namespaces: bool, text: &str| {
            let create_namespaces_pattern = text.to_owned();
            made_namespaces(&HubSettings { create_namespaces, create_namespaces_pattern, ..HubSettings::default() })
        };
        assert!(made(false, "").unwrap().is_none());
        assert!(made(false, "^edge-").unwrap().is_none());
        assert!(made(true, "").unwrap().is_some_and(|pattern| pattern.matches("anything")));
        let edges = made(true, "^edge-").unwrap().unwrap();
        assert_eq!(["edge-1", "core-edge-1"].map(|name| edges.matches(name)), [true, false]);
        assert!(made(true, "(").is_err());
    }
}
