//! The agent as a process.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Client;
use thane_agent::closed::Closed;
use thane_agent::connection::{self, Calls, Dialer, State};
use thane_agent::live;
use thane_agent::role::{self, Config, Parts};
use thane_agent::tunnel::{Places, Tunnel};
use thane_api::code;
use thane_api::event::{BY_DESTINATION, BY_NAMESPACE, TUNNEL, Target};
use thane_link::{Passage, Takers};
use thane_runtime::Tasks;
use thane_runtime::config::Loaded;
use thane_runtime::metrics::PREFIX;
use thane_runtime::pki;
use thane_runtime::readiness::Condition;
use thane_runtime::telemetry::LogLevels;
use thane_runtime::tls::{ClientOptions, ClientTls};
use thane_sync::mapping::{AgentSide, Mode};
use tokio::sync::watch;

use super::secrets::{self, Kept, Place, Remedy, Wanted};
use super::{Ending, Ground, namespace, patterns, word};
use crate::failure::Failure;
use crate::kubernetes::connection::RoleConnection;
use crate::settings::Settings;
use crate::settings::agent::AgentSettings;
use crate::settings::hub::Placement;
use crate::settings::link::unless_zero;

/// Runs the agent until a signal, or until a part it needs fails.
pub(crate) async fn run(
    settings: Loaded<Settings>,
    levels: LogLevels,
    connection: RoleConnection,
) -> Result<(), Failure> {
    let ending = Ending { linger: settings.value.admin.linger.0, grace: settings.value.agent.grace.0 };
    super::run(ending, async |tasks| start(&settings, levels, &connection, tasks).await).await
}

async fn start(
    settings: &Loaded<Settings>,
    levels: LogLevels,
    connection: &RoleConnection,
    tasks: Tasks,
) -> Result<(), Failure> {
    let agent = &settings.value.agent;
    let mode: Mode = word("agent.mode", &agent.mode)?;
    let mut ground = Ground::open(&settings.value, agent.health_port, tasks).await?;
    if !agent.fleet {
        return alone(settings, levels, ground).await;
    }
    let (client, context) = connection.open().await?;
    let namespace = namespace(&agent.namespace, context)?;
    let wanted = way(agent, mode, &namespace)?;
    let secrets = ground.tasks.child("secrets");
    let (tls, name) = tls(agent, &namespace, &client, &secrets).await?;
    super::discovery::agent(agent, Some(&name), Some(tls.clone()), &mut ground).await?;
    let config = config(agent, mode, &namespace, name)?;
    let dialer = Dialer::new(wanted, Arc::clone(&ground.network), Some(tls), Arc::clone(&ground.clock));
    dialer.metrics().register(ground.registry.sub_registry_with_prefix(PREFIX));
    dialer.metrics().register_upstream(&mut ground.registry);
    let state = dialer.state();
    let (passage, calls) = (Passage::default(), watch::Sender::new(None));
    let way_in = Live { passage: &passage, calls: &calls, namespace: &namespace };
    let live = way_in.takers(agent, &client, &mut ground);
    let takers = redis(agent, &namespace, &client, &config, &passage, &mut ground).await?;
    let tunnel = tunnel(agent, &client, &ground)?;
    let parts = Parts {
        client,
        dialer,
        clock: Arc::clone(&ground.clock),
        passing: Arc::new(takers.and(live)),
        passage,
        calls,
        tunnel,
        salt: uuid::Uuid::new_v4().to_string(),
    };
    let role = ground.tasks.child("agent");
    let handle = role::start(&config, parts, &mut ground.registry, &role);
    let conditions = [ground.readiness.condition("hub"), ground.health.condition("hub")];
    ground.serve(settings, levels);
    let group = role.clone();
    role.spawn("readiness", async move {
        follow(state, &conditions).await;
        group.cancelled().await;
        // The loop would end, unasked, when nobody can ask it anything any more.
        drop(handle);
    });
    tracing::info!(hub = agent.hub(), port = agent.server_port, %mode, namespace, "the agent runs");
    Ok(())
}

/// What live access needs of the connection.
struct Live<'a> {
    passage: &'a Passage,
    calls: &'a watch::Sender<Option<Calls>>,
    namespace: &'a str,
}

impl Live<'_> {
    /// Who answers the hub when it reaches into the cluster: nobody does where that is switched off.
    fn takers(self, agent: &AgentSettings, client: &Client, ground: &mut Ground) -> Takers {
        if !agent.live {
            tracing::info!("no live access: it is switched off");
            return Takers::default().with(Target::Resource, Closed::new(self.passage.clone()));
        }
        let parts = live::Parts {
            client: client.clone(),
            passage: self.passage.clone(),
            calls: self.calls.subscribe(),
            namespace: self.namespace.to_owned(),
            clock: Arc::clone(&ground.clock),
            tasks: ground.tasks.child("live"),
        };
        live::Live::new(parts, ground.registry.sub_registry_with_prefix(PREFIX)).takers()
    }
}

/// The agent's end of calls that wait for requests of the hub, if there is to be one.
fn tunnel(agent: &AgentSettings, client: &Client, ground: &Ground) -> Result<Option<Tunnel>, Failure> {
    let places = Places::new(Arc::clone(&ground.network), patterns(&agent.reach)?);
    let tunnel = Tunnel::new(client.clone(), thane_agent::tunnel::Config::default()).reaching(places);
    Ok(has_tunnel(agent).then_some(tunnel))
}

/// Behind something that speaks only HTTP/1.1 a call is a connection, and none is kept waiting.
fn has_tunnel(agent: &AgentSettings) -> bool {
    agent.live && !agent.websocket
}

/// Who answers the hub for the Redis of this cluster's Argo CD, if it has one.
async fn redis(
    agent: &AgentSettings,
    namespace: &str,
    client: &Client,
    config: &Config,
    passage: &Passage,
    ground: &mut Ground,
) -> Result<Takers, Failure> {
    let tasks = ground.tasks.child("redis");
    let Some(server) = super::redis::server(&agent.redis, namespace, client, &tasks).await? else {
        let without = thane_agent::redis::Without::new(passage.clone());
        return Ok(Takers::default().with(Target::Redis, without));
    };
    let parts = thane_agent::redis::Parts {
        server,
        network: Arc::clone(&ground.network),
        passage: passage.clone(),
        clock: Arc::clone(&ground.clock),
        // It travels in a text that is a third longer, with a little around it.
        value_bytes_max: usize::try_from(agent.message_bytes_max.0 / 2).unwrap_or(usize::MAX),
    };
    let answers = thane_agent::redis::start(&config.side, parts, &mut ground.registry, &tasks);
    Ok(Takers::default().with(Target::Redis, answers))
}

/// An agent of a plain machine: services, health and keys, and no Kubernetes.
async fn alone(settings: &Loaded<Settings>, levels: LogLevels, mut ground: Ground) -> Result<(), Failure> {
    let agent = &settings.value.agent;
    if agent.discovery.data.is_none() {
        let failure = Failure::new(code::CONFIG_INVALID, "an agent without a fleet and without discovery does nothing");
        return Err(failure.with_hint("give a folder with --discovery-data"));
    }
    let tls = super::discovery::given(agent, &ground)?;
    super::discovery::agent(agent, None, tls, &mut ground).await?;
    ground.serve(settings, levels);
    Ok(())
}

/// Well is an agent that its hub hears.
async fn follow(mut state: watch::Receiver<State>, conditions: &[Condition]) {
    loop {
        let reason = match &*state.borrow_and_update() {
            State::Connected => None,
            State::Connecting => Some("connecting".to_owned()),
            State::Failed(failure) => Some(failure.to_string()),
        };
        for condition in conditions {
            match &reason {
                None => condition.holds(),
                Some(reason) => condition.fails(reason.clone()),
            }
        }
        if state.changed().await.is_err() {
            return;
        }
    }
}

/// How the hub is reached.
fn way(agent: &AgentSettings, mode: Mode, namespace: &str) -> Result<connection::Config, Failure> {
    if agent.hub().is_empty() {
        let failure = Failure::new(code::CONFIG_INVALID, "no hub is named");
        return Err(failure.with_hint("give its host name or address with --server-address"));
    }
    Ok(connection::Config {
        namespace: namespace.to_owned(),
        credentials: word("agent.credentials", &agent.credentials)?,
        capabilities: capabilities(agent),
        compression: agent.compression,
        websocket: agent.websocket,
        keepalive_interval: unless_zero(agent.keepalive_interval),
        keepalive_timeout: agent.keepalive_timeout.0,
        heartbeat_interval: unless_zero(agent.heartbeat_interval),
        connect_timeout: agent.connect_timeout.0,
        request_timeout: agent.request_timeout.0,
        backoff_first: agent.backoff_first.0,
        backoff_max: agent.backoff_max.0,
        message_bytes_max: usize::try_from(agent.message_bytes_max.0).unwrap_or(usize::MAX),
        ..connection::Config::new(agent.hub().to_owned(), agent.server_port, mode)
    })
}

fn capabilities(agent: &AgentSettings) -> BTreeSet<String> {
    let mut capabilities = role::capabilities();
    if !has_tunnel(agent) {
        capabilities.remove(TUNNEL);
    }
    let placement = match agent.placement {
        Placement::Namespace => BY_NAMESPACE,
        Placement::Destination => BY_DESTINATION,
    };
    capabilities.insert(placement.to_owned());
    capabilities
}

fn config(agent: &AgentSettings, mode: Mode, namespace: &str, name: String) -> Result<Config, Failure> {
    Ok(Config {
        side: AgentSide {
            name,
            mode,
            namespace: namespace.to_owned(),
            // The hub says it when they meet.
            hub_namespace: String::new(),
            placement: agent.placement.into(),
            allowed_namespaces: patterns(&agent.allowed_namespaces)?,
            mismatch: word("agent.sourceMismatch", &agent.source_mismatch)?,
            adoption: word("agent.adoption", &agent.adoption)?,
            on_recreate: word("agent.onRecreate", &agent.on_recreate)?,
        },
        selector: agent.selector.clone(),
        makes_namespaces: agent.create_namespaces,
        link: agent.link.options(),
        writes_max: agent.writes_max.max(1),
        write_timeout: agent.write_timeout.0,
    })
}

/// The agent's TLS, and the name in its certificate.
async fn tls(
    agent: &AgentSettings,
    namespace: &str,
    client: &Client,
    tasks: &Tasks,
) -> Result<(ClientTls, String), Failure> {
    let remedy =
        Remedy("make it on the hub's side with `thane pki issue agent NAME --agent-context CONTEXT`".to_owned());
    let place = Place::choose(&[&agent.tls.cert, &agent.tls.key], namespace, &agent.tls.secret)?;
    let what = place.to_string();
    let identity = place.open(Wanted::Identity, client, &remedy, tasks).await?;
    let authority = Place::choose(&[&agent.tls.ca], namespace, &agent.tls.ca_secret)?;
    let authorities = authority.open(Wanted::Authorities, client, &remedy, tasks).await?;
    let options = ClientOptions { versions: agent.tls.min_version.into(), protocols: vec!["h2"] };
    let made = ClientTls::from_pem(&authorities.text(), Some(&identity.identity()), &options);
    let tls = made.map_err(|error| secrets::unusable(&what, &error, &remedy))?;
    let details = pki::inspect(&identity.identity().cert_pem)?;
    let name = details.first().map(|details| details.subject.common_name.clone()).unwrap_or_default();
    let changing = tls.clone();
    secrets::on_change([identity, authorities], tasks, move |[identity, authorities]: &[Kept; 2]| {
        let replaced = changing.replace(&authorities.text(), Some(&identity.identity()));
        replaced.map_err(|error| error.to_string())
    });
    Ok((tls, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_without_live_access_offers_no_way_in() {
        let offers = |live: bool, websocket: bool| {
            let agent = AgentSettings { websocket, live, ..AgentSettings::default() };
            capabilities(&agent).contains(TUNNEL)
        };
        assert_eq!([offers(true, false), offers(true, true), offers(false, false)], [true, false, false]);
    }
}
