//! The agent as edges see it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use thane_api::wire::discovery::{FetchRequest, WriteRequest};
use tonic::Code;

use super::Agent;
use super::checks::machine::Observation;
use super::connection::{Lost, content, timely};
use super::pending::ItemKey;
use super::state::{Change, ReplaceChecks, unknown_check};
use crate::backend::{
    Backend, Caller, Consistency, Freshness, LocalAgent, LocalService, Place, Reading, Unavailable, Wake,
};
use crate::command::{Command, Done, Outcome, Refusal};
use crate::model::{Check, Service, Status};
use crate::topic::Topic;
use crate::wire::convert;

/// How long a reader waits for the hub.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a write waits to be in what is held here.
const SEEN_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) type Services = BTreeMap<String, LocalService>;
pub(super) type Checks = BTreeMap<String, Check>;

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
    async fn fetch(&self, topic: &Topic) -> Result<Reading, Unavailable> {
        let mut client = self.core.client().ok_or(Unavailable)?;
        let json = serde_json::to_vec(topic).map_err(|_| Unavailable)?;
        let reply = timely(client.fetch(FetchRequest { topic: json.into() })).await.map_err(|_| Unavailable)?;
        let data = content(&reply.into_inner().delta).ok_or(Unavailable)?;
        let freshness = Freshness { connected: true, last_contact: Duration::ZERO, hit: None };
        Ok(Reading { data: Arc::new(data), freshness })
    }

    async fn forward(&self, caller: &Caller, command: &Command) -> Result<Done, Refusal> {
        let mut client = self.core.client().ok_or(Refusal::NoHub)?;
        let command = serde_json::to_vec(command).map_err(|error| Refusal::Invalid(error.to_string()))?;
        let token = caller.token.clone().unwrap_or_default();
        let reply = match timely(client.write(WriteRequest { command: command.into(), token })).await {
            Ok(reply) => reply.into_inner(),
            Err(Lost::Refused(status)) if status.code() == Code::InvalidArgument => {
                return Err(Refusal::Invalid(status.message().to_owned()));
            }
            Err(Lost::Refused(status)) if status.code() == Code::PermissionDenied => {
                return Err(Refusal::Forbidden(status.message().to_owned()));
            }
            // Whether it happened, nobody knows; whoever asked is told that it may not have.
            Err(_) => return Err(Refusal::NoHub),
        };
        let outcome: Result<Outcome, Refusal> = serde_json::from_slice(&reply.outcome)
            .map_err(|error| Refusal::Failed(format!("the hub's answer cannot be read: {error}")))?;
        let index = convert::index(reply.current_index);
        let done = Done { index, outcome: outcome? };
        self.core.followed.reached(index, SEEN_TIMEOUT).await;
        Ok(done)
    }
}

impl Backend for Agent {
    fn ready(&self, topic: &Topic, consistency: Consistency) -> Option<Reading> {
        self.core.followed.ready(topic, consistency)
    }

    fn read<'a>(&'a self, topic: &'a Topic, consistency: Consistency) -> BoxFuture<'a, Result<Reading, Unavailable>> {
        Box::pin(async move {
            if let Some(reading) = self.ready(topic, consistency) {
                return Ok(reading);
            }
            if consistency == Consistency::Consistent {
                return self.fetch(topic).await;
            }
            let held = match self.core.followed.slot(topic) {
                Some(slot) => self.core.followed.read(&slot, READ_TIMEOUT).await,
                None => None,
            };
            match held {
                Some(reading) => Ok(reading),
                // There is no room to hold it, or its push is late.
                None => self.fetch(topic).await,
            }
        })
    }

    fn wake(&self, topic: &Topic) -> Wake {
        self.core.followed.wake(topic)
    }

    fn write<'a>(&'a self, caller: &'a Caller, command: Command) -> BoxFuture<'a, Result<Done, Refusal>> {
        Box::pin(async move { self.forward(caller, &command).await })
    }

    fn local(&self) -> Option<&dyn LocalAgent> {
        Some(self)
    }

    fn place(&self) -> &Place {
        &self.core.place
    }
}

impl LocalAgent for Agent {
    fn services(&self) -> Arc<BTreeMap<String, LocalService>> {
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

    fn checks(&self) -> Arc<BTreeMap<String, Check>> {
        let version = *self.core.changes.borrow();
        self.checks.get(version, || {
            let shown = |state: &super::state::State| {
                state.checks().iter().map(|(id, kept)| (id.clone(), kept.check.as_ref().clone())).collect()
            };
            self.core.ledger().with(shown)
        })
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
            let known = self.core.ledger().with(|state| state.checks().get(id).map(|kept| Arc::clone(&kept.check)));
            let check = known.ok_or_else(|| unknown_check(id))?;
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

    fn reload(&self) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async move {
            if let Some(again) = &self.options.again {
                let adjustable = again().map_err(Refusal::Failed)?;
                self.adjust(adjustable);
            }
            Ok(())
        })
    }
}
