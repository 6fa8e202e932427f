//! The hub's answers to agents.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use thane_api::AgentName;
use thane_api::wire::discovery as wire;
use thane_api::wire::discovery::agent_sync_server::AgentSync;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::follow::{Pusher, Written};
use super::metrics::Open;
use super::{COMPRESSION, Metrics, NO_COMPRESSION, SNAPPY, convert, snapshot, sync};
use crate::access::{Access, Guard, Vet};
use crate::backend::Backend;
use crate::command::{Batch, Command, Done, Item, Outcome, Refusal};
use crate::hub::Registry;
use crate::model::{Node, Policy, Resource};
use crate::topic::{Delta, Row, Topic};

/// Replies that wait to be written to one agent.
const REPLIES_MAX: usize = 4;
/// Items of a batch that is not all of an agent's.
const ITEMS_MAX: usize = 100;
/// Items of a batch that is.
const FULL_ITEMS_MAX: usize = 20_000;
/// Agents whose nodes are remembered; further ones are looked up.
const REMEMBERED_MAX: usize = 20_000;
/// How the registry says that an agent speaks from a life of its data that another one followed.
const OVER: &str = "this life of the agent's data is over";

/// The hub's side of the service.
pub struct Desk {
    pub(super) registry: Arc<Registry>,
    guard: Guard,
    nodes: Mutex<HashMap<String, Node>>,
    streams: Mutex<HashMap<String, Vec<Weak<Notify>>>>,
    written: Arc<Written>,
    metrics: Metrics,
    clock: SharedClock,
    tasks: Tasks,
}

impl Desk {
    pub(super) fn new(registry: Arc<Registry>, metrics: Metrics, clock: SharedClock, tasks: Tasks) -> Self {
        Self {
            guard: Guard::new(Arc::clone(&registry) as _),
            registry,
            nodes: Mutex::default(),
            streams: Mutex::default(),
            written: Arc::default(),
            metrics,
            clock,
            tasks,
        }
    }

    /// Who calls; their call counts as a sign of life.
    pub(super) fn admit<T>(&self, request: &Request<T>) -> Result<(String, Started<'_>), Status> {
        let name = request.extensions().get::<AgentName>();
        let AgentName(name) = name.ok_or_else(|| Status::unauthenticated("nobody has said who calls"))?;
        self.registry.agent_seen(name);
        Ok((name.clone(), Started { desk: self, at: self.clock.monotonic() }))
    }

    /// What somebody who asked an agent may do: the agent has looked already, and is not believed.
    pub(super) async fn access(&self, token: &str) -> Result<Access, Refusal> {
        let access = self.guard.access(Some(token).filter(|token| !token.is_empty())).await;
        access.map_err(Refusal::from)
    }

    /// Writes for somebody who asked an agent.
    async fn write_for(&self, agent: &str, token: &str, command: Command) -> Result<Done, Refusal> {
        let access = self.access(token).await?;
        Vet { access: &access, backend: self.registry.as_ref() }.command(&command).await?;
        if matches!(command, Command::Agent(..)) {
            return Err(Refusal::Forbidden("a batch is sent as one".to_owned()));
        }
        let mut done = self.registry.write_from(Some(agent), command).await?;
        if let Outcome::Txn(Ok(results)) = &mut done.outcome {
            results.retain(|result| access.sees_result(result));
        }
        Ok(done)
    }

    /// The node an agent has registered.
    fn node(&self, agent: &str) -> Result<Node, Status> {
        if let Some(node) = self.nodes.lock().get(agent) {
            return Ok(node.clone());
        }
        let own = self.registry.agent_node(agent).map(|node| node.value.as_ref().clone());
        own.ok_or_else(|| Status::failed_precondition("the agent has not registered"))
    }

    /// Lets the registry decide a batch; an item that is none is answered without it.
    async fn decide(
        &self,
        agent: &str,
        batch: Batch,
        items: Vec<Result<Item, String>>,
    ) -> Result<Response<wire::BatchReply>, Status> {
        if batch.sequence == 0 {
            // It would be taken for one that came before, and acknowledged without a look.
            return Err(Status::invalid_argument("sequence_number: batches are counted from 1"));
        }
        let most = if batch.full { FULL_ITEMS_MAX } else { ITEMS_MAX };
        if items.len() > most {
            return Err(Status::invalid_argument(format!("a batch has at most {most} items")));
        }
        // A full batch with an unreadable item would remove what that item stands for.
        if batch.full
            && let Some(Err(reason)) = items.iter().find(|item| item.is_err())
        {
            return Err(Status::invalid_argument(format!("a full batch with a bad item: {reason}")));
        }
        let good: Vec<Item> = items.iter().filter_map(|item| item.as_ref().ok().cloned()).collect();
        let asked = good.len();
        let command = Command::Agent(agent.to_owned(), Batch { items: good, ..batch });
        let done = self.registry.write_from(None, command).await.map_err(|refusal| status(&refusal))?;
        self.poke(agent);
        let Outcome::Items(results) = done.outcome else {
            return Err(Status::internal("the registry did not answer for each item"));
        };
        let mut results = results.into_iter();
        let answers = items.into_iter().map(|item| match item {
            Ok(_) => results.next().map(|result| match result {
                Ok(()) => wire::ItemResult { ok: true, error: String::new() },
                Err(refusal) => wire::ItemResult { ok: false, error: refusal.to_string() },
            }),
            Err(error) => Some(wire::ItemResult { ok: false, error }),
        });
        // Fewer answers than items: the batch was an old one.
        let answers: Vec<wire::ItemResult> = answers.flatten().collect();
        tracing::trace!(agent, asked, "batch");
        Ok(Response::new(wire::BatchReply { current_index: convert::signed(done.index), results: answers }))
    }

    /// An agent wrote: it is told when everything up to that has been pushed.
    fn poke(&self, agent: &str) {
        if let Some(streams) = self.streams.lock().get_mut(agent) {
            streams.retain(|stream| {
                stream.upgrade().is_some_and(|stream| {
                    stream.notify_one();
                    true
                })
            });
        }
    }

    fn stream(&self, agent: &str) -> Arc<Notify> {
        let poke = Arc::new(Notify::new());
        let mut streams = self.streams.lock();
        streams.retain(|_, known| {
            known.retain(|stream| stream.strong_count() > 0);
            !known.is_empty()
        });
        streams.entry(agent.to_owned()).or_default().push(Arc::downgrade(&poke));
        poke
    }
}

/// A call that is being answered; counted when it is.
pub(super) struct Started<'a> {
    desk: &'a Desk,
    at: Duration,
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        self.desk.metrics.answered(self.desk.clock.monotonic().saturating_sub(self.at));
    }
}

/// A refusal on the wire.
pub(super) fn status(refusal: &Refusal) -> Status {
    let text = refusal.to_string();
    match refusal {
        Refusal::Invalid(_) => Status::invalid_argument(text),
        Refusal::Forbidden(_) | Refusal::Unknown(_) => Status::permission_denied(text),
        Refusal::NotFound(_) => Status::not_found(text),
        Refusal::Failed(reason) if reason == OVER => Status::aborted(text),
        Refusal::Failed(_) => Status::failed_precondition(text),
        Refusal::TooLarge(_) => Status::out_of_range(text),
        Refusal::Busy(_) => Status::resource_exhausted(text),
        Refusal::NoHub => Status::unavailable(text),
    }
}

fn topic(json: &[u8]) -> Result<Topic, Status> {
    serde_json::from_slice(json).map_err(|error| Status::invalid_argument(format!("this is no topic: {error}")))
}

#[tonic::async_trait]
impl AgentSync for Desk {
    type FollowStream = ReceiverStream<Result<wire::FollowReply, Status>>;
    type SaveStream = snapshot::Parts;

    async fn register(&self, request: Request<wire::AgentInfo>) -> Result<Response<wire::RegisterReply>, Status> {
        let (agent, _started) = self.admit(&request)?;
        let node = convert::node_from(request.into_inner(), &agent).map_err(Status::invalid_argument)?;
        let known = self.registry.topic(&Topic::Node(node.name.to_lowercase())).await;
        let other = known.rows.iter().find_map(|row| match row {
            Row::Node(known) => known.value.owner.clone().filter(|owner| *owner != agent),
            _ => None,
        });
        if other.is_some() {
            return Err(status(&Refusal::Forbidden(format!("node {:?} belongs to another agent", node.name))));
        }
        let record = self.registry.agent(&agent).unwrap_or_default();
        let mut nodes = self.nodes.lock();
        if nodes.len() < REMEMBERED_MAX || nodes.contains_key(&agent) {
            nodes.insert(agent, node);
        }
        Ok(Response::new(wire::RegisterReply {
            hub: self.registry.place().node.clone(),
            current_index: convert::signed(self.registry.index()),
            lease_seconds: i64::try_from(self.registry.lease().as_secs().max(1)).unwrap_or(i64::MAX),
            lineage: self.registry.lineage(),
            incarnation: record.incarnation.clone(),
            sequence_number: convert::signed(record.sequence),
            compressions: vec![SNAPPY.to_owned()],
        }))
    }

    async fn sync(&self, request: Request<wire::SyncRequest>) -> Result<Response<wire::SyncResponse>, Status> {
        let (_, _started) = self.admit(&request)?;
        let is_packed = is_packed(&request);
        let answer = sync::answer(&self.registry, &request.into_inner()).await.map_err(Status::invalid_argument)?;
        Ok(Response::new(if is_packed { convert::packed_sync(answer) } else { answer }))
    }

    async fn batch_register(
        &self,
        request: Request<wire::BatchRegisterRequest>,
    ) -> Result<Response<wire::BatchReply>, Status> {
        let (agent, _started) = self.admit(&request)?;
        let message = request.into_inner();
        let items = message
            .services
            .into_iter()
            .map(|service| convert::service_from(service).map(|service| Item::Service(Box::new(service))));
        let batch = Batch {
            node: self.node(&agent)?,
            // The message has none: it counts on within the life the hub knows, and does not end it.
            incarnation: self.registry.agent(&agent).map(|known| known.incarnation.clone()).unwrap_or_default(),
            sequence: convert::index(message.sequence_number),
            full: false,
            items: Vec::new(),
        };
        self.decide(&agent, batch, items.collect()).await
    }

    async fn batch_update(
        &self,
        request: Request<wire::BatchUpdateRequest>,
    ) -> Result<Response<wire::BatchReply>, Status> {
        let (agent, _started) = self.admit(&request)?;
        let message = convert::unpacked_batch(request.into_inner()).map_err(Status::invalid_argument)?;
        let node = match message.agent {
            Some(info) => convert::node_from(info, &agent).map_err(Status::invalid_argument)?,
            None => self.node(&agent)?,
        };
        let services = message.services.into_iter().map(convert::service_item);
        let items = services.chain(message.checks.into_iter().map(convert::check_item)).collect();
        let batch = Batch {
            node,
            incarnation: message.incarnation,
            sequence: convert::index(message.sequence_number),
            full: message.full,
            items: Vec::new(),
        };
        self.decide(&agent, batch, items).await
    }

    async fn report_health(&self, request: Request<wire::HealthReport>) -> Result<Response<wire::BatchReply>, Status> {
        let (agent, _started) = self.admit(&request)?;
        let message = convert::unpacked_report(request.into_inner()).map_err(Status::invalid_argument)?;
        let batch = Batch {
            node: self.node(&agent)?,
            incarnation: message.incarnation,
            sequence: convert::index(message.sequence_number),
            full: false,
            items: Vec::new(),
        };
        self.decide(&agent, batch, message.checks.into_iter().map(convert::check_item).collect()).await
    }

    async fn follow(
        &self,
        request: Request<Streaming<wire::FollowRequest>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let (agent, _started) = self.admit(&request)?;
        let is_packed = is_packed(&request);
        let (replies, outgoing) = mpsc::channel(REPLIES_MAX);
        let pusher = Pusher::new(
            &self.registry,
            agent.clone(),
            self.stream(&agent),
            Arc::clone(&self.written),
            is_packed,
            self.metrics.clone(),
        );
        let open = Open::new(&self.metrics.agents);
        let stopped = self.tasks.token();
        self.tasks.spawn("follower", async move {
            let _open = open;
            tokio::select! {
                () = stopped.cancelled() => {}
                () = pusher.run(request.into_inner(), replies) => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(outgoing)))
    }

    async fn fetch(&self, request: Request<wire::FetchRequest>) -> Result<Response<wire::FetchReply>, Status> {
        let (_, _started) = self.admit(&request)?;
        let request = request.into_inner();
        let topic = topic(&request.topic)?;
        let access = match &request.caller {
            Some(caller) => self.access(&caller.token).await.map_err(|refusal| status(&refusal))?,
            None => Access::default(),
        };
        let needed = match &topic {
            Topic::Key(key) => Some((Resource::Key, key.as_str())),
            Topic::Tokens => Some((Resource::Acl, "")),
            _ => None,
        };
        if let Some((resource, name)) = needed {
            access.require(resource, name, Policy::Read).map_err(|refusal| status(&refusal))?;
        }
        let current_index = convert::signed(self.registry.index());
        let data = self.registry.topic(&topic).await;
        let seen: Vec<Row> = data.rows.iter().filter(|row| access.is_open() || access.sees(row)).cloned().collect();
        let hidden = seen.len() < data.rows.len();
        let all = Delta { topic, since: None, index: data.index, changed: seen, removed: Vec::new() };
        let delta = serde_json::to_vec(&all).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(wire::FetchReply { current_index, delta: delta.into(), hidden }))
    }

    async fn write(&self, request: Request<wire::WriteRequest>) -> Result<Response<wire::WriteReply>, Status> {
        let (agent, _started) = self.admit(&request)?;
        let message = request.into_inner();
        let command: Command = serde_json::from_slice(&message.command)
            .map_err(|error| Status::invalid_argument(format!("this is no command: {error}")))?;
        let result = self.write_for(&agent, &message.token, command).await;
        let current_index = result.as_ref().map_or_else(|_| self.registry.index(), |done| done.index);
        self.poke(&agent);
        let outcome = serde_json::to_vec(&result.map(|done| done.outcome));
        let outcome = outcome.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(wire::WriteReply { current_index: convert::signed(current_index), outcome: outcome.into() }))
    }

    async fn save(&self, request: Request<wire::SaveRequest>) -> Result<Response<Self::SaveStream>, Status> {
        snapshot::save(self, &request).await
    }

    async fn restore(
        &self,
        request: Request<Streaming<wire::SnapshotPart>>,
    ) -> Result<Response<wire::RestoreReply>, Status> {
        snapshot::restore(self, request).await
    }
}

fn is_packed<T>(request: &Request<T>) -> bool {
    request.metadata().get(COMPRESSION).is_none_or(|value| value != NO_COMPRESSION)
}
