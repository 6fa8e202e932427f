//! The agent as edges see it.

mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use thane_api::wire::discovery as wire;
use thane_api::wire::discovery::{FetchRequest, WriteRequest};
use tonic::Code;

use super::checks::machine::Observation;
use super::connection::{Lost, content, timely};
use super::options::Reloaded;
use super::pending::ItemKey;
use super::state::{Change, Kept, ReplaceChecks, unknown_check};
use super::{Agent, config};
use crate::backend::{
    Backend, Caller, Consistency, Freshness, LocalAgent, LocalService, Place, Reading, Unavailable, Wake,
};
use crate::command::{Command, Done, KvVerb, Outcome, Refusal};
use crate::model::{Check, Index, Service, Status};
use crate::topic::Topic;
use crate::wire::convert;

/// How long a reader waits for the hub.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a write waits to be in what is held here.
const SEEN_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) type Services = BTreeMap<String, LocalService>;
pub(super) type Checks = BTreeMap<String, Arc<Check>>;

/// Something made from what is registered here, made again only when that has changed.
#[derive(Default)]
pub(super) struct Snapshot<T>(Mutex<Option<(u64, Arc<T>)>>);

impl<T> Snapshot<T> {
    fn get(&self, version: u64, build: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = self.0.lock();
        match &*kept {
            Some((of, made)) if *of == version => Arc::clone(made),
            _ => {
                let made = Arc::new(build());
                *kept = Some((version, Arc::clone(&made)));
                made
            }
        }
    }
}

impl Agent {
    /// Asks the hub for a topic: for somebody, or for the agent itself.
    async fn fetch(&self, topic: &Topic, caller: Option<&Caller>) -> Result<Reading, Refusal> {
        let mut client = self.core.client().ok_or(Refusal::NoHub)?;
        let json = serde_json::to_vec(topic).map_err(|error| Refusal::Failed(error.to_string()))?;
        let caller = caller.map(|caller| wire::Caller { token: caller.token.clone().unwrap_or_default() });
        let reply =
            timely(client.fetch(FetchRequest { topic: json.into(), caller })).await.map_err(|lost| refusal(&lost))?;
        let reply = reply.into_inner();
        let mut data = content(&reply.delta).ok_or(Refusal::NoHub)?;
        data.hidden = reply.hidden;
        let freshness = Freshness { connected: true, last_contact: Duration::ZERO, hit: None };
        Ok(Reading { data: Arc::new(data), freshness })
    }

    async fn find(&self, topic: &Topic, consistency: Consistency, caller: Option<&Caller>) -> Result<Reading, Refusal> {
        if let Some(reading) = self.ready(topic, consistency) {
            return Ok(reading);
        }
        if consistency == Consistency::Consistent {
            return self.fetch(topic, caller).await;
        }
        let held = match self.core.followed.slot(topic) {
            Some(slot) => self.core.followed.read(&slot, READ_TIMEOUT).await,
            None => None,
        };
        match held {
            Some(reading) => Ok(reading),
            // There is no room to hold it, or its push is late.
            None => {
                let fetched = self.fetch(topic, caller).await;
                if fetched.is_ok() {
                    self.core.followed.missed();
                }
                fetched
            }
        }
    }

    async fn forward(&self, caller: &Caller, command: &Command) -> Result<Done, Refusal> {
        let mut client = self.core.client().ok_or(Refusal::NoHub)?;
        let json = serde_json::to_vec(command).map_err(|error| Refusal::Invalid(error.to_string()))?;
        let token = caller.token.clone().unwrap_or_default();
        let reply = match timely(client.write(WriteRequest { command: json.into(), token })).await {
            Ok(reply) => reply.into_inner(),
            // Whether it happened, nobody knows; whoever asked is told that it may not have.
            Err(lost) => return Err(refusal(&lost)),
        };
        let outcome: Result<Outcome, Refusal> = serde_json::from_slice(&reply.outcome)
            .map_err(|error| Refusal::Failed(format!("the hub's answer cannot be read: {error}")))?;
        let index = convert::index(reply.current_index);
        let done = Done { index, outcome: outcome? };
        if self.may_be_held(command) {
            self.core.followed.reached(index, SEEN_TIMEOUT).await;
        }
        Ok(done)
    }

    /// Whether what is held here may have to change with what the hub has just done. What is asked for later is as the hub
    /// has it then.
    fn may_be_held(&self, command: &Command) -> bool {
        match command {
            Command::Kv(op) if op.verb != KvVerb::DeleteTree => self.core.followed.holds_key(&op.key),
            _ => true,
        }
    }
}

/// Why the hub did not do it.
fn refusal(lost: &Lost) -> Refusal {
    let Lost::Refused(status) = lost else { return Refusal::NoHub };
    let said = status.message();
    match status.code() {
        Code::InvalidArgument => Refusal::Invalid(said.to_owned()),
        Code::FailedPrecondition => Refusal::Failed(said.to_owned()),
        Code::OutOfRange => Refusal::TooLarge(said.to_owned()),
        Code::ResourceExhausted => Refusal::Busy(said.to_owned()),
        Code::PermissionDenied => match said.strip_prefix("Permission denied") {
            Some(why) => Refusal::Forbidden(why.strip_prefix(": ").unwrap_or(why).to_owned()),
            None => Refusal::Unknown(said.to_owned()),
        },
        _ => Refusal::NoHub,
    }
}

impl Backend for Agent {
    fn ready(&self, topic: &Topic, consistency: Consistency) -> Option<Reading> {
        self.core.followed.ready(topic, consistency)
    }

    fn read<'a>(&'a self, topic: &'a Topic, consistency: Consistency) -> BoxFuture<'a, Result<Reading, Unavailable>> {
        Box::pin(async move { self.find(topic, consistency, None).await.map_err(|_| Unavailable) })
    }

    fn read_for<'a>(
        &'a self,
        caller: &'a Caller,
        topic: &'a Topic,
        consistency: Consistency,
    ) -> BoxFuture<'a, Result<Reading, Refusal>> {
        Box::pin(self.find(topic, consistency, Some(caller)))
    }

    fn wake(&self, topic: &Topic) -> Wake {
        self.core.followed.wake(topic)
    }

    fn write<'a>(&'a self, caller: &'a Caller, command: Command) -> BoxFuture<'a, Result<Done, Refusal>> {
        Box::pin(async move { self.forward(caller, &command).await })
    }

    fn save<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Bytes, Refusal>> {
        Box::pin(self.fetch_snapshot(caller))
    }

    fn restore<'a>(&'a self, caller: &'a Caller, saved: Bytes) -> BoxFuture<'a, Result<Index, Refusal>> {
        Box::pin(self.send_snapshot(caller, saved))
    }

    fn is_open_until_told(&self) -> bool {
        // Without a hub there is nobody who could tell.
        self.options.is_open_until_told || self.core.hubs().is_empty()
    }

    fn now(&self) -> jiff::Timestamp {
        self.core.clock.now()
    }

    fn local(&self) -> Option<&dyn LocalAgent> {
        Some(self)
    }

    fn place(&self) -> &Place {
        &self.core.place
    }
}

impl LocalAgent for Agent {
    fn services(&self) -> Arc<Services> {
        let version = *self.core.changes.borrow();
        self.services.get(version, || {
            let all: Vec<_> = self.core.ledger().with(|state| state.services().values().cloned().collect());
            let pending = self.core.pending.lock();
            let shown = all.into_iter().map(|service| {
                let in_step = !pending.is_dirty(&ItemKey::Service(service.id.clone()));
                (service.id.clone(), LocalService { service, in_step })
            });
            shown.collect()
        })
    }

    fn checks(&self) -> Arc<Checks> {
        let version = *self.core.changes.borrow();
        self.checks.get(version, || {
            let shown = |(id, kept): (&String, &Kept)| (id.clone(), Arc::clone(&kept.check));
            self.core.ledger().with(|state| state.checks().iter().map(shown).collect())
        })
    }

    fn service(&self, id: &str) -> Option<Arc<Service>> {
        self.core.ledger().with(|state| state.services().get(id).cloned())
    }

    fn check(&self, id: &str) -> Option<Arc<Check>> {
        self.core.ledger().with(|state| state.checks().get(id).map(|kept| Arc::clone(&kept.check)))
    }

    fn checks_about(&self, service_id: &str) -> Vec<Arc<Check>> {
        self.core.ledger().with(|state| state.checks_about(service_id).map(|kept| Arc::clone(&kept.check)).collect())
    }

    fn register(
        &self,
        service: Service,
        checks: Vec<Check>,
        replace_checks: bool,
    ) -> BoxFuture<'_, Result<(), Refusal>> {
        let replace = if replace_checks { ReplaceChecks::Yes } else { ReplaceChecks::No };
        Box::pin(self.core.ledger().change(Change::Register(Box::new(service), checks, replace)))
    }

    fn deregister<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(self.core.ledger().change(Change::Deregister(id.to_owned())))
    }

    fn register_check(&self, check: Check) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(self.core.ledger().change(Change::RegisterCheck(Box::new(check))))
    }

    fn deregister_check<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(self.core.ledger().change(Change::DeregisterCheck(id.to_owned())))
    }

    fn update_check<'a>(&'a self, id: &'a str, status: Status, output: String) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(async move {
            let check = self.check(id).ok_or_else(|| unknown_check(id))?;
            self.core.runners.tell(&check, Observation::new(status, output)).await
        })
    }

    fn maintain<'a>(
        &'a self,
        id: Option<&'a str>,
        enable: bool,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        let reason = enable.then(|| reason.to_owned());
        Box::pin(self.core.ledger().change(Change::Maintain(id.map(str::to_owned), reason)))
    }

    fn reload(&self) -> BoxFuture<'_, Result<Vec<&'static str>, Refusal>> {
        Box::pin(async move {
            let Some(again) = &self.options.again else { return Ok(Vec::new()) };
            let Reloaded { adjustable, needs_restart } = again().map_err(Refusal::Failed)?;
            if self.is_plain {
                config::only_here(&adjustable.hubs).map_err(|error| Refusal::Failed(error.to_string()))?;
            }
            self.adjust(adjustable);
            Ok(needs_restart)
        })
    }

    fn changed(&self) -> Wake {
        self.local_change()
    }
}
