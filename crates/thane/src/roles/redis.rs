//! Redis of a role: where it is, who one is there, and whom to believe.

use std::path::Path;
use std::sync::Arc;

use kube::Client;
use thane_api::code;
use thane_hub::redis::{Compression, Config, Desk, Parts};
use thane_hub::roster::Roster;
use thane_redis::client::{Server, Tls};
use thane_runtime::Tasks;
use thane_runtime::tls::{ClientAuth, ClientOptions, ClientTls, ServerOptions, ServerTls, Versions, unverified_client};

use super::secrets::{self, Kept, Place, Remedy, Wanted};
use super::{Ground, bind};
use crate::failure::Failure;
use crate::settings::redis::{HubRedis, RedisServer};

/// Where argocd-agent, and Argo CD itself, look for the password.
const PASSWORD: &str = "REDIS_PASSWORD";

/// Host and port of an address.
pub(crate) fn address(text: &str) -> Result<(String, u16), Failure> {
    let read = text.rsplit_once(':').and_then(|(host, port)| {
        let host = host.trim_matches(['[', ']']);
        (!host.is_empty()).then_some((host.to_owned(), port.parse().ok()?))
    });
    let bad = || Failure::new(code::CONFIG_INVALID, format!("{text:?} is not the host and port of a Redis"));
    read.ok_or_else(bad)
}

/// The server that settings name; none if they name none.
pub(crate) async fn server(
    redis: &RedisServer,
    namespace: &str,
    client: &Client,
    tasks: &Tasks,
) -> Result<Option<Server>, Failure> {
    if redis.address.is_empty() {
        return Ok(None);
    }
    let (host, port) = address(&redis.address)?;
    let (username, password) = credentials(redis)?;
    let tls = match (redis.tls, redis.unverified) {
        (false, _) => None,
        (true, true) => Some(Tls::Unverified(unverified_client()?)),
        (true, false) => Some(Tls::Verified(verified(redis, namespace, client, tasks).await?)),
    };
    Ok(Some(Server { host, port, username, password, tls, timeout: redis.timeout.0 }))
}

fn credentials(redis: &RedisServer) -> Result<(String, String), Failure> {
    let Some(folder) = &redis.credentials else {
        return Ok((redis.username.clone(), std::env::var(PASSWORD).unwrap_or_default()));
    };
    let read = |path: &Path| std::fs::read_to_string(path).map(|text| text.trim().to_owned());
    let password = folder.join("auth");
    let failed = |error| Failure::new(code::CONFIG_INVALID, format!("{}: {error}", password.display()));
    // The user's name is left out where there is none.
    let username = read(&folder.join("auth_username")).unwrap_or_else(|_| redis.username.clone());
    Ok((username, read(&password).map_err(failed)?))
}

async fn verified(redis: &RedisServer, namespace: &str, client: &Client, tasks: &Tasks) -> Result<ClientTls, Failure> {
    let place = Place::choose(&[&redis.ca], namespace, &redis.ca_secret)?;
    let what = place.to_string();
    let remedy = Remedy("it holds the authority of Redis' certificate in ca.crt".to_owned());
    let authorities = place.open(Wanted::Authorities, client, &remedy, tasks).await?;
    let options = ClientOptions { versions: Versions::Tls12AndTls13, protocols: Vec::new() };
    let made = ClientTls::from_pem(&authorities.text(), None, &options);
    let tls = made.map_err(|error| secrets::unusable(&what, &error, &remedy))?;
    let changing = tls.clone();
    secrets::on_change([authorities], tasks, move |[authorities]: &[Kept; 1]| {
        changing.replace(&authorities.text(), None).map_err(|error| error.to_string())
    });
    Ok(tls)
}

/// The proxy's own certificate: it speaks TLS where the hub's Redis does.
async fn listener_tls(
    redis: &HubRedis,
    namespace: &str,
    client: &Client,
    tasks: &Tasks,
) -> Result<Option<ServerTls>, Failure> {
    if !redis.server.tls {
        return Ok(None);
    }
    let place = Place::choose(&[&redis.cert, &redis.key], namespace, &redis.secret)?;
    let what = place.to_string();
    let remedy = Remedy("it holds the certificate of the Redis proxy in tls.crt and tls.key".to_owned());
    let identity = place.open(Wanted::Identity, client, &remedy, tasks).await?;
    let options =
        ServerOptions { versions: Versions::Tls12AndTls13, client_auth: ClientAuth::Off, protocols: Vec::new() };
    let made = ServerTls::from_pem(&identity.identity(), None, &options);
    let tls = made.map_err(|error| secrets::unusable(&what, &error, &remedy))?;
    let changing = tls.clone();
    secrets::on_change([identity], tasks, move |[identity]: &[Kept; 1]| {
        changing.replace(&identity.identity(), None).map_err(|error| error.to_string())
    });
    Ok(Some(tls))
}

/// What the hub has to be told about its Redis before it starts: everything that can fail.
pub(super) async fn prepare(
    redis: &HubRedis,
    namespace: &str,
    client: &Client,
    ground: &Ground,
) -> Result<Option<Prepared>, Failure> {
    let tasks = ground.tasks.child("redis-secrets");
    let Some(upstream) = server(&redis.server, namespace, client, &tasks).await? else { return Ok(None) };
    let compression = match redis.compression.as_str() {
        "gzip" => Compression::Gzip,
        "none" => Compression::None,
        other => {
            let message = format!("hub.redis.compression: {other:?} is neither gzip nor none");
            return Err(Failure::new(code::CONFIG_INVALID, message));
        }
    };
    let listener = if redis.proxy {
        let tls = listener_tls(redis, namespace, client, &tasks).await?;
        let listener = bind(&ground.network, redis.listen, "--redis-proxy-address").await?;
        tracing::info!(address = %listener.local_addr(), redis = %upstream, "the Redis proxy listens");
        Some((listener, tls))
    } else {
        None
    };
    let config = Config { compression, connections_max: redis.connections_max, ..Config::default() };
    Ok(Some(Prepared { config, upstream, listener }))
}

/// A proxy that only waits for the hub.
pub(super) struct Prepared {
    config: Config,
    upstream: Server,
    listener: Option<(Box<dyn thane_runtime::net::Listener>, Option<ServerTls>)>,
}

impl Prepared {
    /// Starts it beside a hub that runs.
    pub(super) fn start(self, roster: Roster, desk: Arc<Desk>, ground: &mut Ground) {
        let parts = Parts {
            listener: self.listener,
            upstream: self.upstream,
            network: Arc::clone(&ground.network),
            roster,
            desk,
            clock: Arc::clone(&ground.clock),
        };
        let tasks = ground.tasks.child("redis");
        thane_hub::redis::start(self.config, parts, &mut ground.registry, &tasks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (text, expected) in [
            ("argocd-redis:6379", Some(("argocd-redis", 6379))),
            ("[::1]:1", Some(("::1", 1))),
            ("argocd-redis", None),
            (":6379", None),
            ("a:b", None),
        ] {
            let read = address(text).ok();
            assert_eq!(read, expected.map(|(host, port)| (host.to_owned(), port)), "{text}");
        }
    }
}
