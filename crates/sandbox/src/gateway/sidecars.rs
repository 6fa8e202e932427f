//! Connections to sidecars: one for each sandbox that is used, kept while it is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::Uri;
use parking_lot::Mutex;
use thane_api::wire::sandbox::sandbox_service_client::SandboxServiceClient;
use thane_api::wire::sidecar::agent_service_client::AgentServiceClient;
use thane_runtime::Tasks;
use thane_runtime::tls::ClientTls;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::channel::{Channel, NoChannel};

/// The largest message of a sidecar: a record with both its streams, and room.
const MESSAGE_MAX: usize = 16 << 20;
/// A sidecar's listener may come a moment after its pod.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// What HTTP/2 wants to be told; every sidecar answers to it.
static ORIGIN: LazyLock<Uri> = LazyLock::new(|| Uri::from_static("https://sidecar.thane.dev"));

/// Where a sidecar is. A pod's name is never used again, its address may be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) ip: String,
}

/// Connections there are.
pub(crate) struct Sidecars {
    tls: ClientTls,
    tasks: Tasks,
    slots: Mutex<HashMap<Address, Arc<Slot>>>,
    clock: AtomicU64,
    max: usize,
}

#[derive(Default)]
struct Slot {
    link: OnceCell<Link>,
    used: AtomicU64,
    /// Whether it is known to be the session's own.
    proven: AtomicBool,
}

struct Link {
    channel: Channel,
    ended: CancellationToken,
    _close: DropGuard,
}

impl Slot {
    fn is_ended(&self) -> bool {
        self.link.get().is_some_and(|link| link.ended.is_cancelled())
    }
}

/// A sidecar one is connected to; the connection stays at least as long as this.
#[derive(Clone)]
pub(crate) struct Sidecar {
    slot: Arc<Slot>,
    channel: Channel,
}

impl Sidecar {
    /// Steps, files as they were, and what is here.
    pub(crate) fn steps(&self) -> SandboxServiceClient<Channel> {
        SandboxServiceClient::with_origin(self.channel.clone(), ORIGIN.clone())
            .max_decoding_message_size(MESSAGE_MAX)
            .max_encoding_message_size(MESSAGE_MAX)
    }

    /// Upstream's own calls: files and shells.
    pub(crate) fn agent(&self) -> AgentServiceClient<Channel> {
        AgentServiceClient::with_origin(self.channel.clone(), ORIGIN.clone()).max_decoding_message_size(MESSAGE_MAX)
    }

    /// Whether it has said that it is the session's own.
    pub(crate) fn is_proven(&self) -> bool {
        self.slot.proven.load(Ordering::Relaxed)
    }

    pub(crate) fn prove(&self) {
        self.slot.proven.store(true, Ordering::Relaxed);
    }
}

impl Sidecars {
    pub(crate) fn new(tls: ClientTls, max: usize, tasks: Tasks) -> Self {
        Self { tls, tasks, slots: Mutex::default(), clock: AtomicU64::new(0), max }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.lock().len()
    }

    /// Connects, or takes the connection there is; tries once.
    pub(crate) async fn reach(&self, address: &Address) -> Result<Sidecar, NoChannel> {
        let slot = self.slot(address);
        let link = slot.link.get_or_try_init(|| async {
            let ended = CancellationToken::new();
            let channel = Channel::open(&address.ip, &self.tls, ended.clone(), &self.tasks).await?;
            Ok(Link { channel, _close: ended.clone().drop_guard(), ended })
        });
        let channel = link.await?.channel.clone();
        Ok(Sidecar { slot, channel })
    }

    /// The same, again and again for a while, as long as nobody listens.
    pub(crate) async fn reach_patiently(&self, address: &Address) -> Result<Sidecar, NoChannel> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = PAUSE_FIRST;
        loop {
            match self.reach(address).await {
                Err(NoChannel::Refused(_)) if Instant::now() + pause < deadline => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                reached => return reached,
            }
        }
    }

    /// Lets go of a connection that nobody needs any more.
    pub(crate) fn forget(&self, address: &Address) {
        self.slots.lock().remove(address);
    }

    fn slot(&self, address: &Address) -> Arc<Slot> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(address).filter(|slot| !slot.is_ended()) {
            slot.used.store(now, Ordering::Relaxed);
            return Arc::clone(slot);
        }
        if slots.len() >= self.max {
            slots.retain(|_, slot| !slot.is_ended());
        }
        if slots.len() >= self.max {
            // Those in use have another holder.
            let idle = slots.iter().filter(|(_, slot)| Arc::strong_count(slot) == 1);
            let oldest = idle.min_by_key(|(_, slot)| slot.used.load(Ordering::Relaxed)).map(|(at, _)| at.clone());
            if let Some(oldest) = oldest {
                slots.remove(&oldest);
            }
        }
        let slot = Arc::new(Slot { used: AtomicU64::new(now), ..Slot::default() });
        slots.insert(address.clone(), Arc::clone(&slot));
        slot
    }
}
