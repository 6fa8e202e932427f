//! Bytes to places in an agent's cluster: whole both ways, within bounds, and only where they may go.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use thane_agent::connection::Opened;
use thane_agent::tunnel::{self, Places, Tunnel};
use thane_api::event::TUNNEL;
use thane_hub::proxy::{Caller, Source, Unreachable};
use thane_hub::transport::Stream;
use thane_runtime::net::{Listener, Network, Tcp};
use thane_sync::mapping::Pattern;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bed::{Bed, within};

/// More than may be under way at once.
const MANY: usize = 3 * 1024 * 1024;

fn pillar() -> Caller {
    Caller { name: "system:sandboxes".to_owned(), groups: Vec::new(), source: Source::People }
}

async fn connect(bed: &mut Bed, allowed: &[String]) -> (Stream, Opened, Tunnel) {
    let mut config = bed.config();
    config.capabilities.insert(TUNNEL.to_owned());
    let (stream, opened) = bed.pair("agent-a", config).await;
    bed.tunnels.connected(&stream.identity, stream.close.clone());
    let nobody = tower::service_fn(|_: Request<kube::client::Body>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
    });
    let allowed = allowed.iter().map(Pattern::new).collect();
    let tunnel = Tunnel::new(kube::Client::new(nobody, "default"), tunnel::Config::default())
        .reaching(Places::new(Tcp::shared(), allowed));
    let tasks = bed.tasks.child("tunnel");
    tasks.spawn("serve", tunnel.clone().serve(opened.calls.clone(), opened.close.clone(), tasks.clone()));
    (stream, opened, tunnel)
}

async fn place() -> (Box<dyn Listener>, String) {
    let listener = Tcp.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().to_string();
    (listener, address)
}

/// Waits until nothing is under way on either side; what is counted can only be asked for.
async fn quiet(bed: &Bed, tunnel: &Tunnel) {
    within(async {
        while bed.tunnels.metrics().open() + tunnel.metrics().open() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn bytes_arrive_whole_both_ways_and_who_has_said_everything_still_listens() {
    let mut bed = Bed::start().await;
    let (listener, address) = place().await;
    let (_stream, _opened, tunnel) = connect(&mut bed, std::slice::from_ref(&address)).await;
    let answers = bed.tasks.child("place");
    answers.spawn("answer", async move {
        let (mut caller, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        // It answers only when it has heard everything.
        caller.read_to_end(&mut all).await.unwrap();
        all.reverse();
        caller.write_all(&all).await.unwrap();
        caller.shutdown().await.unwrap();
    });
    let mut stream = within(bed.tunnels.connect("agent-a", &pillar(), &address)).await.unwrap();
    let said: Vec<u8> = (0..=u8::MAX).cycle().take(MANY).collect();
    within(stream.write_all(&said)).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = Vec::new();
    within(stream.read_to_end(&mut heard)).await.unwrap();
    heard.reverse();
    assert!(heard == said, "{} bytes of {}", heard.len(), said.len());
    drop(stream);
    quiet(&bed, &tunnel).await;
}

#[tokio::test]
async fn whoever_leaves_or_does_not_read_leaves_nothing_behind() {
    let mut bed = Bed::start().await;
    let (listener, address) = place().await;
    let (_stream, opened, tunnel) = connect(&mut bed, &["127.0.0.1:*".to_owned()]).await;
    let unread = within(bed.tunnels.connect("agent-a", &pillar(), &address)).await.unwrap();
    let (mut talker, _) = within(listener.accept()).await.unwrap();
    // It is held up, and nobody else is.
    let flood = bed.tasks.child("flood");
    let (over, flooded) = tokio::sync::oneshot::channel();
    flood.spawn("flood", async move {
        let piece = vec![0; 64 * 1024];
        while talker.write_all(&piece).await.is_ok() {}
        let _ = over.send(());
    });
    let mut stream = within(bed.tunnels.connect("agent-a", &pillar(), &address)).await.unwrap();
    let (mut echo, _) = within(listener.accept()).await.unwrap();
    within(stream.write_all(b"hello")).await.unwrap();
    let mut heard = [0; 5];
    within(echo.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"hello");
    drop(unread);
    within(flooded).await.unwrap();
    // An agent whose connection ends takes its streams along.
    opened.close.cancel();
    let mut rest = Vec::new();
    let _ = within(stream.read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
    assert_eq!(within(echo.read(&mut heard)).await.unwrap_or_default(), 0);
    drop(stream);
    quiet(&bed, &tunnel).await;
}

#[tokio::test]
async fn nothing_is_carried_where_it_may_not_go() {
    let mut bed = Bed::start().await;
    let (_listener, address) = place().await;
    let (dead, closed) = place().await;
    drop(dead);
    let (_stream, _opened, tunnel) = connect(&mut bed, &["sandbox-*.pool.svc:7681".to_owned(), closed.clone()]).await;
    for (place, why) in [
        (address.as_str(), "carries no bytes to"),
        ("sandbox-1.pool.svc:22", "carries no bytes to"),
        ("no place", "is not HOST:PORT"),
        (closed.as_str(), "cannot be reached"),
    ] {
        match within(bed.tunnels.connect("agent-a", &pillar(), place)).await {
            Err(Unreachable::Failed(told)) => assert!(told.contains(why), "{place}: {told}"),
            other => panic!("{place}: {other:?}"),
        }
    }
    let absent = within(bed.tunnels.connect("agent-b", &pillar(), &address)).await.err();
    assert_eq!(absent, Some(Unreachable::NotConnected("agent-b".to_owned())));
    quiet(&bed, &tunnel).await;
}
