//! Redis in `thane up`: nobody brings one along; whoever runs Argo CD's programs says where theirs is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use thane_api::event::Target;
use thane_hub::redis::{Config, Desk, Parts};
use thane_hub::roster::Roster;
use thane_link::{Passage, Takers};
use thane_redis::client::Server;
use thane_sync::mapping::AgentSide;

use super::fleet::Place;
use crate::failure::Failure;
use crate::roles::redis::address;
use crate::settings::UpSettings;

const TIMEOUT: Duration = Duration::from_secs(30);
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Where agents are asked, and who takes their answers.
pub(super) fn desk(passage: &Passage) -> (Arc<Desk>, Takers) {
    let desk = Desk::new(passage.clone(), ANSWER_TIMEOUT);
    (desk.clone(), Takers::default().with(Target::Redis, desk))
}

fn server(text: &str) -> Result<Server, Failure> {
    let (host, port) = address(text)?;
    let password = std::env::var("REDIS_PASSWORD").unwrap_or_default();
    Ok(Server { host, port, username: String::new(), password, tls: None, timeout: TIMEOUT })
}

/// Starts the proxy, if there is a Redis to stand before; where it listens.
pub(super) async fn start(
    up: &UpSettings,
    place: &Place<'_>,
    roster: Roster,
    desk: Arc<Desk>,
    registry: &mut Registry,
) -> Result<Option<SocketAddr>, Failure> {
    if up.redis.is_empty() {
        return Ok(None);
    }
    let upstream = server(&up.redis)?;
    let listener = place.network.bind(super::listen(up.redis_address, up.ephemeral_ports)).await?;
    let address = listener.local_addr();
    let parts = Parts {
        listener: Some((listener, None)),
        upstream,
        network: Arc::clone(place.network),
        roster,
        desk,
        clock: Arc::clone(place.clock),
    };
    thane_hub::redis::start(Config::default(), parts, registry, &place.tasks.child("redis"));
    Ok(Some(address))
}

/// Who answers for the Redis of a cluster, if it has one.
pub(super) fn answers(
    redis: Option<&String>,
    side: &AgentSide,
    place: &Place<'_>,
    passage: &Passage,
    registry: &mut Registry,
) -> Result<Takers, Failure> {
    let Some(redis) = redis else {
        let without = thane_agent::redis::Without::new(passage.clone());
        return Ok(Takers::default().with(Target::Redis, without));
    };
    let parts = thane_agent::redis::Parts {
        server: server(redis)?,
        network: Arc::clone(place.network),
        passage: passage.clone(),
        clock: Arc::clone(place.clock),
        value_bytes_max: VALUE_BYTES_MAX,
    };
    let tasks = place.tasks.child(format!("redis-{}", side.name));
    let answers = thane_agent::redis::start(side, parts, registry, &tasks);
    Ok(Takers::default().with(Target::Redis, answers))
}
