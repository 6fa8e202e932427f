//! Listens to all channels on one connection, and tells the hub of their messages.

use std::collections::BTreeSet;
use std::time::Duration;

use thane_api::redis::{Ask, Said};
use thane_redis::client::{Client, Error, Server};
use thane_redis::reply::Value;
use thane_runtime::SharedClock;
use thane_runtime::net::SharedNetwork;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::subscriptions::{Full, Subscription, Subscriptions};
use super::{Asked, Back};

/// How often subscriptions are looked through for those that are over.
const LOOK: Duration = Duration::from_mins(1);
/// Bytes of a message: Argo CD's are empty.
const MESSAGE_MAX: usize = 1024 * 1024;
/// The first and the longest wait after a failure.
const AGAIN_FIRST: Duration = Duration::from_millis(500);
const AGAIN_MAX: Duration = Duration::from_secs(30);

pub(super) struct Subscriber {
    server: Server,
    network: SharedNetwork,
    back: Back,
    clock: SharedClock,
    all: Subscriptions,
    /// Channels the server has confirmed on this connection.
    confirmed: BTreeSet<String>,
    /// Who waits for a channel to be confirmed: the channel here, the peer, the request and its connection.
    waiting: Vec<(String, String, String, String)>,
}

impl Subscriber {
    pub(super) fn new(server: Server, network: SharedNetwork, back: Back, clock: SharedClock) -> Self {
        Self {
            server,
            network,
            back,
            clock,
            all: Subscriptions::default(),
            confirmed: BTreeSet::new(),
            waiting: Vec::new(),
        }
    }

    pub(super) async fn run(mut self, mut asked: mpsc::Receiver<Asked>, stop: CancellationToken) {
        let serving = async {
            let mut again = AGAIN_FIRST;
            loop {
                let Some(first) = self.idle(&mut asked).await else { return };
                let started = self.clock.monotonic();
                let ended = self.listen(first, &mut asked).await;
                // They are told once somebody listens again; until then there is nothing to be told.
                self.confirm_all().await;
                let Some(error) = ended else { continue };
                if self.clock.monotonic().saturating_sub(started) > AGAIN_MAX {
                    again = AGAIN_FIRST;
                }
                tracing::warn!(redis = %self.server, %error, ?again, "nobody listens to Redis for the hub");
                tokio::time::sleep(again).await;
                again = (again * 2).min(AGAIN_MAX);
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = serving => {}
        }
    }

    /// Waits, without a connection, until somebody wants to listen. None when nobody can any more.
    async fn idle(&mut self, asked: &mut mpsc::Receiver<Asked>) -> Option<bool> {
        if self.all.len() > 0 {
            return Some(false);
        }
        while self.all.len() == 0 {
            let next = asked.recv().await?;
            self.take(next).await;
        }
        Some(true)
    }

    /// Listens until it fails or nobody wants to; why it failed. Unless it is the first time, messages may have been
    /// missed, and everybody is told.
    async fn listen(&mut self, is_first: bool, asked: &mut mpsc::Receiver<Asked>) -> Option<Error> {
        let mut client = match self.open().await {
            Ok(client) => client,
            Err(error) => return Some(error),
        };
        if !is_first {
            let missed: Vec<Subscription> =
                self.all.channels().flat_map(|channel| self.all.of(channel)).cloned().collect();
            self.tell(missed).await;
        }
        let mut look = tokio::time::interval(LOOK);
        loop {
            let done = tokio::select! {
                next = asked.recv() => match next {
                    Some(next) => match self.take(next).await {
                        Some(channel) => client.send(&["SUBSCRIBE", &channel]).await,
                        None => Ok(()),
                    },
                    None => return None,
                },
                said = client.next() => match said {
                    Ok(said) => {
                        self.heard(&said).await;
                        Ok(())
                    }
                    Err(error) => Err(error),
                },
                _ = look.tick() => self.look(&mut client).await,
            };
            if let Err(error) = done {
                return Some(error);
            }
            if self.all.len() == 0 {
                return None;
            }
        }
    }

    async fn open(&mut self) -> Result<Client, Error> {
        self.confirmed.clear();
        let mut client = self.server.open(&self.network, MESSAGE_MAX).await?;
        for channel in self.all.channels() {
            client.send(&["SUBSCRIBE", channel]).await?;
        }
        Ok(client)
    }

    /// Ends what is over, and sees whether the server is still there.
    async fn look(&mut self, client: &mut Client) -> Result<(), Error> {
        for channel in self.all.expire(self.clock.monotonic()) {
            self.confirmed.remove(&channel);
            client.send(&["UNSUBSCRIBE", &channel]).await?;
        }
        self.count();
        client.send(&["PING"]).await
    }

    async fn heard(&mut self, said: &Value) {
        match spoken(said) {
            Some((b"message", channel, true)) => self.tell(self.all.of(channel).to_vec()).await,
            Some((b"subscribe", channel, _)) => {
                self.confirmed.insert(channel.to_owned());
                let (confirmed, waiting) =
                    std::mem::take(&mut self.waiting).into_iter().partition(|(name, ..)| name == channel);
                self.waiting = waiting;
                self.confirm(confirmed).await;
            }
            _ => {}
        }
    }

    async fn confirm_all(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.confirm(waiting).await;
    }

    async fn confirm(&self, confirmed: Vec<(String, String, String, String)>) {
        for (_, peer, request, connection) in confirmed {
            self.back.say(&peer, &request, &connection, Said::Subscribed).await;
        }
    }

    /// Takes a question; the channel that nobody listened to before.
    async fn take(&mut self, Asked { peer, request, name }: Asked) -> Option<String> {
        let now = self.clock.monotonic();
        let (said, new) = match request.ask {
            Ask::Subscribe(channel) => {
                let subscription = Subscription {
                    peer: peer.clone(),
                    request: request.id.clone(),
                    connection: request.connection.clone(),
                    channel,
                };
                match self.all.add(now, &name, subscription) {
                    Ok(is_new) if !self.confirmed.contains(&name) => {
                        self.count();
                        self.waiting.push((name.clone(), peer, request.id, request.connection));
                        return is_new.then_some(name);
                    }
                    Ok(_) => (Said::Subscribed, None),
                    Err(Full) => (Said::Refused("too many subscriptions".to_owned()), None),
                }
            }
            Ask::Ping | Ask::Get(_) => {
                self.all.heard(now, &request.connection);
                (Said::Pong, None)
            }
        };
        self.count();
        self.back.say(&peer, &request.id, &request.connection, said).await;
        new
    }

    async fn tell(&self, listening: Vec<Subscription>) {
        for Subscription { peer, request, connection, channel } in listening {
            self.back.say(&peer, &request, &connection, Said::Message(channel)).await;
        }
    }

    fn count(&self) {
        self.back.metrics.subscriptions.set(i64::try_from(self.all.len()).unwrap_or(i64::MAX));
    }
}

/// What was said about a channel, and whether without content, as Argo CD's messages are.
fn spoken(said: &Value) -> Option<(&[u8], &str, bool)> {
    let Value::List(parts) = said else { return None };
    let [Value::Bytes(kind), Value::Bytes(channel), content] = &parts[..] else { return None };
    let is_empty = matches!(content, Value::Bytes(content) if content.is_empty());
    Some((kind, std::str::from_utf8(channel).ok()?, is_empty))
}
