//! Live access in `thane up`: the proxy of the hub, and each cluster's API as its agent reaches it.

use std::convert::Infallible;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{client, server};
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use prometheus_client::registry::Registry;
use thane_agent::tunnel::{self, Tunnel};
use thane_apiserver::authz::{MASTERS, User};
use thane_apiserver::embedded::Embedded;
use thane_apiserver::{ApiServer, Origin};
use thane_hub::gate::Gate;
use thane_hub::live::Events;
use thane_hub::proxy::{self, Authorities, Bodies, People, Proxy, Rule, Tunnels, listener};
use thane_runtime::Tasks;
use thane_runtime::metrics::PREFIX;
use thane_runtime::net::Listener;
use thane_runtime::tls::{ClientAuth, ServerOptions, ServerTls, Versions};

use super::{Material, Place};
use crate::failure::Failure;

/// Bytes under way between the two ends inside this process.
const PIPE: usize = 256 * 1024;

/// What the hub's proxy needs.
pub(super) struct Door<'a> {
    pub(super) listener: Box<dyn Listener>,
    pub(super) material: &'a Material,
    /// The hub's API: it knows the people.
    pub(super) hub: &'a Embedded,
    /// The hub's own account there.
    pub(super) client: Client,
    pub(super) gate: Arc<Gate>,
    pub(super) tunnels: Tunnels,
    /// For agents that have no tunnel.
    pub(super) events: Events,
    /// What may pass for whoever does not administer the hub.
    pub(super) rules: &'a [Rule],
}

/// Starts the proxy. Its requests have all rights in the clusters, so that only who has them on the hub may do everything.
pub(super) fn start(place: &Place<'_>, door: Door<'_>, registry: &mut Registry) -> Result<(), Failure> {
    let mut credentials = door.hub.credentials.clone();
    let people = credentials.borrow_and_update().ca_pem.clone();
    let options = ServerOptions {
        versions: Versions::Tls12AndTls13,
        client_auth: ClientAuth::Asked,
        protocols: vec!["h2", "http/1.1"],
    };
    let bundle = format!("{}\n{people}", door.material.ca_pem);
    let tls = ServerTls::from_pem(&door.material.hub, Some(&bundle), &options)?;
    let metrics = proxy::Metrics::default();
    metrics.register(registry.sub_registry_with_prefix(PREFIX));
    let proxy = Arc::new(Proxy {
        gate: door.gate,
        people: People::new(door.client, Arc::clone(place.clock)),
        authorities: Authorities::new(&door.material.ca_pem, Some(&people))?,
        tunnels: door.tunnels,
        events: Some(Arc::new(door.events)),
        policy: crate::roles::live::policy(door.rules)?.with_everything_for(MASTERS),
        bodies: Bodies::default(),
        metrics,
        clock: Arc::clone(place.clock),
    });
    let tasks = place.tasks.child("proxy");
    let (stop, fleet) = (tasks.token(), door.material.ca_pem.clone());
    let (identity, changing, replaced) = (door.material.hub.clone(), tls.clone(), Arc::clone(&proxy));
    tasks.spawn("authority", async move {
        // The hub's API renews its authority by itself.
        while let Some(Ok(())) = stop.run_until_cancelled(credentials.changed()).await {
            let people = credentials.borrow_and_update().ca_pem.clone();
            let bundle = format!("{fleet}\n{people}");
            let taken = changing.replace(&identity, Some(&bundle)).map_err(|error| error.to_string());
            let taken = taken
                .and_then(|()| replaced.authorities.replace(&fleet, Some(&people)).map_err(|error| error.to_string()));
            if let Err(why) = taken {
                tracing::warn!(why, "the new authority of the hub's API is no good for live access; the old one stays");
            }
        }
    });
    tasks.spawn_essential("listener", listener::serve(door.listener, tls, proxy, tasks.child("connections")));
    Ok(())
}

/// A cluster's API for what comes through the hub, which has asked who may.
pub(super) fn tunnel(server: &ApiServer, tasks: &Tasks) -> Tunnel {
    let groups = vec![MASTERS.to_owned(), "system:authenticated".to_owned()];
    let user = Arc::new(User { name: "system:thane:live".to_owned(), groups, ..User::default() });
    let inside = Inside { server: server.clone(), user, tasks: tasks.child("live-api") };
    Tunnel::new(Client::new(inside, "default"), tunnel::Config::default())
}

/// HTTP/1.1 to an API of this process, so that a connection can switch protocols.
#[derive(Clone)]
struct Inside {
    server: ApiServer,
    user: Arc<User>,
    tasks: Tasks,
}

impl tower::Service<Request<Body>> for Inside {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Response<Incoming>, hyper::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), hyper::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

impl Inside {
    async fn send(self, mut request: Request<Body>) -> Result<Response<Incoming>, hyper::Error> {
        let (near, far) = tokio::io::duplex(PIPE);
        let Self { server, user, tasks } = self;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Origin::Process(Arc::clone(&user)));
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.handle(request).await) }
        });
        let serving = server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service).with_upgrades();
        let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(near)).await?;
        let stop = tasks.token();
        tasks.spawn("request", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                // Whoever asked has left, or has been answered: neither end has anything to add.
                _ = futures::future::join(serving, connection.with_upgrades()) => {}
            }
        });
        request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        sender.send_request(request).await
    }
}
