//! One connection from its first call to its end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thane_api::wire::discovery::{AgentInfo, BatchReply, FollowReply, FollowRequest, Subscription, SyncRequest};
use thane_runtime::Tasks;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{CONNECT_TIMEOUT, Client, KEEP_ALIVE, Line, Lost};
use crate::agent::core::Core;
use crate::agent::followed::Want;
use crate::agent::keepsake;
use crate::agent::pending::{ItemKey, Sequence, Step};
use crate::command::{Batch, Item};
use crate::topic::{Delta, Topic, TopicData};
use crate::wire::{COMPRESSION, NO_COMPRESSION, SNAPPY, convert};

/// Topics in one message.
const TOPICS_MAX: usize = 500;
/// Requests that wait to be written.
const REQUESTS_MAX: usize = 4;
/// How often keys are asked for besides being pushed.
const PULL: Duration = Duration::from_secs(5);
/// Topics of keys asked for at a time besides those that are watched; the others have their turn after them.
const PULLED_MAX: usize = 50;
/// Time for one call.
pub(in crate::agent) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How a connection ended.
pub(super) struct Ended {
    pub(super) why: Lost,
    /// Whether it ever was one.
    pub(super) was_open: bool,
}

/// One connection from beginning to end.
pub(super) async fn connect(
    core: &Arc<Core>,
    line: &Line,
    address: &str,
    sequence: &mut Sequence,
    tasks: &Tasks,
) -> Ended {
    let close = tasks.token().child_token();
    let _guard = close.clone().drop_guard();
    let mut was_open = false;
    let why = async {
        let opening = tokio::time::timeout(CONNECT_TIMEOUT, line.open(address, &close, tasks));
        let client = opening.await.map_err(|_| Lost::Silent)?.map_err(Lost::Unreachable)?;
        let (session, pushed) = Session::greet(core, client, sequence).await?;
        was_open = true;
        tracing::info!(hub = address, "connected");
        tokio::select! {
            () = close.cancelled() => Err(Lost::Ended),
            ended = session.run(pushed, sequence) => ended,
        }
    };
    let why = why.await.err().unwrap_or(Lost::Ended);
    Ended { why, was_open }
}

struct Session<'a> {
    core: &'a Arc<Core>,
    client: Client,
    /// Whether what is sent is compressed: we want it, and the hub unpacks it.
    is_packed: bool,
    requests: mpsc::Sender<FollowRequest>,
    /// A sign of life so often.
    beat: Duration,
}

impl<'a> Session<'a> {
    /// Says who we are, and opens the stream of pushes.
    async fn greet(
        core: &'a Arc<Core>,
        mut client: Client,
        sequence: &Sequence,
    ) -> Result<(Self, Streaming<FollowReply>), Lost> {
        let info: AgentInfo = convert::info(&core.id, &core.node);
        let greeting = timely(client.register(info)).await?.into_inner();
        if greeting.incarnation == core.incarnation() && convert::index(greeting.sequence_number) >= sequence.peek() {
            // This data is older than what the hub has seen of us: it was put back from a copy.
            tracing::warn!("the hub has seen later registrations of this agent than it has itself; counting anew");
            core.renew_incarnation().await?;
        }
        core.followed.of_lineage(&greeting.lineage);
        let (requests, outgoing) = mpsc::channel(REQUESTS_MAX);
        // The first message goes along: some proxies open a stream only then.
        let _ = requests.try_send(FollowRequest { keep_alive: true, ..FollowRequest::default() });
        let mut following = Request::new(ReceiverStream::new(outgoing));
        if !core.is_compressed {
            following.metadata_mut().insert(COMPRESSION, MetadataValue::from_static(NO_COMPRESSION));
        }
        let pushed = timely(client.follow(following)).await?.into_inner();
        core.found(client.clone());
        let is_packed = core.is_compressed && greeting.compressions.iter().any(|known| known == SNAPPY);
        Ok((Self { core, client, is_packed, requests, beat: beat(greeting.lease_seconds) }, pushed))
    }

    async fn run(self, pushed: Streaming<FollowReply>, sequence: &mut Sequence) -> Result<(), Lost> {
        tokio::select! {
            ended = self.tell(sequence) => ended,
            ended = self.listen(pushed) => ended,
            ended = self.ask() => ended,
            ended = self.pull() => ended,
        }
    }

    /// Tells the hub what changed here.
    async fn tell(&self, sequence: &mut Sequence) -> Result<(), Lost> {
        let mut is_first = true;
        loop {
            let stirred = self.core.stirred.notified();
            let now = self.core.clock.monotonic();
            let step = self.core.pending.lock().next(now);
            match step {
                Step::Idle => stirred.await,
                Step::At(then) => tokio::select! {
                    () = stirred => {}
                    () = tokio::time::sleep(then.saturating_sub(now)) => {}
                },
                Step::Health => {
                    let checks = self.core.checks_told();
                    self.core.pending.lock().touch(now, checks);
                }
                Step::Full => {
                    let keys = self.core.ledger().with(crate::agent::state::State::keys);
                    self.core.pending.lock().begin_full(keys.clone());
                    self.send(keys, true, sequence).await?;
                    self.core.remember_popular().await;
                    // The first time everything is being asked for anyway.
                    if !std::mem::replace(&mut is_first, false) {
                        self.core.followed.verify_all();
                    }
                }
                Step::Send(keys) => self.send(keys, false, sequence).await?,
            }
        }
    }

    async fn send(&self, keys: Vec<ItemKey>, full: bool, sequence: &mut Sequence) -> Result<(), Lost> {
        let core = self.core;
        let batch = Batch {
            node: core.node.clone(),
            incarnation: core.incarnation(),
            sequence: self.number(sequence).await?,
            full,
            items: core.ledger().with(|state| keys.iter().map(|key| state.item(key)).collect()),
        };
        let started = core.clock.monotonic();
        let answer = self.call(batch).await;
        let now = core.clock.monotonic();
        core.metrics.batch(keys.len(), now.saturating_sub(started));
        match answer {
            Ok(reply) if reply.results.len() == keys.len() => {
                let taken: Vec<bool> = reply.results.iter().map(|result| result.ok).collect();
                for (key, result) in keys.iter().zip(&reply.results).filter(|(_, result)| !result.ok) {
                    tracing::warn!(item = ?key, reason = result.error, "the hub refused an item; it is tried again");
                }
                core.settle(now, &taken);
            }
            Ok(_) => return Err(Status::internal("the hub did not answer for each item").into()),
            Err(Lost::Refused(status)) if status.code() == Code::Aborted => {
                // Another life of this data has spoken since: it was put back from a copy.
                tracing::warn!(reason = status.message(), "counting anew");
                core.renew_incarnation().await?;
                core.pending.lock().connected(now);
            }
            Err(Lost::Refused(status)) if is_about_the_batch(&status) => {
                tracing::warn!(reason = status.message(), "the hub refused a batch; it is tried again");
                core.metrics.errors.inc();
                let mut pending = core.pending.lock();
                // A hub that has too much to do says nothing about what was sent.
                if status.code() == Code::ResourceExhausted {
                    pending.failed(now);
                } else {
                    pending.refused(now);
                }
            }
            Err(lost) => return Err(lost),
        }
        Ok(())
    }

    /// The next number, set aside on disk first.
    async fn number(&self, sequence: &mut Sequence) -> Result<u64, Lost> {
        loop {
            if let Some(number) = sequence.take() {
                return Ok(number);
            }
            if let Some(wanted) = sequence.wanted() {
                self.core.keepsakes.put(keepsake::SEQUENCE, &wanted).await?;
                sequence.reserve(wanted);
            }
        }
    }

    async fn call(&self, batch: Batch) -> Result<BatchReply, Lost> {
        let mut client = self.client.clone();
        let is_health = |item: &Item| matches!(item, Item::Check(_) | Item::NoCheck(_));
        if !batch.full && !batch.items.is_empty() && batch.items.iter().all(is_health) {
            let report = convert::health_report(&self.core.id, &batch);
            let report = if self.is_packed { convert::packed_report(report) } else { report };
            return Ok(timely(client.report_health(report)).await?.into_inner());
        }
        let (request, order) = convert::batch_request(&self.core.id, &batch);
        let request = if self.is_packed { convert::packed_batch(request) } else { request };
        let mut reply = timely(client.batch_update(request)).await?.into_inner();
        reply.results = convert::in_order(reply.results, &order);
        Ok(reply)
    }

    /// Takes over what the hub pushes.
    async fn listen(&self, mut pushed: Streaming<FollowReply>) -> Result<(), Lost> {
        loop {
            let waited = tokio::time::timeout(KEEP_ALIVE * 3, pushed.message()).await;
            let Some(reply) = waited.map_err(|_| Lost::Silent)?? else { return Err(Lost::Ended) };
            self.core.followed.heard();
            let reply = convert::unpacked(reply).map_err(Status::internal)?;
            self.core.metrics.pushed.inc_by(u64::try_from(reply.deltas.len()).unwrap_or(u64::MAX));
            for delta in &reply.deltas {
                let mut delta = convert::delta(delta).map_err(Status::internal)?;
                self.core.followed.share(&mut delta.changed);
                if let Some(data) = self.core.followed.apply(&delta)
                    && delta.topic == Topic::Tokens
                {
                    self.core.remember_tokens(&data).await;
                }
            }
            for topic in &reply.too_large {
                let topic: Topic =
                    serde_json::from_slice(topic).map_err(|error| Status::internal(error.to_string()))?;
                tracing::warn!(?topic, "too large to be held here; the hub is asked for each time it is read");
                self.core.followed.refused(&topic);
            }
            self.core.followed.applied(convert::index(reply.current_index));
        }
    }

    /// Asks the hub for topics, and shows that we live.
    async fn ask(&self) -> Result<(), Lost> {
        let mut beat = tokio::time::interval(self.beat);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.core.followed.wanted.notified() => {}
                _ = beat.tick() => {
                    self.core.followed.sweep();
                    let sign = FollowRequest { keep_alive: true, ..FollowRequest::default() };
                    self.requests.send(sign).await.map_err(|_| Lost::Ended)?;
                }
            }
            let wants = self.core.followed.take_wants(TOPICS_MAX);
            if wants.is_empty() {
                continue;
            }
            let mut request = FollowRequest::default();
            for (topic, want) in wants {
                let Ok(json) = serde_json::to_vec(&topic) else { continue };
                let topic = Bytes::from(json);
                match want {
                    Want::Subscribe(index) => {
                        let index = i64::try_from(index).unwrap_or(0);
                        request.subscribe.push(Subscription { topic, index });
                    }
                    Want::Unsubscribe => request.unsubscribe.push(Subscription { topic, index: 0 }),
                }
            }
            self.requests.send(request).await.map_err(|_| Lost::Ended)?;
        }
    }

    /// Asks what happened to watched keys, and to some of the others that are held, in case a push was lost.
    async fn pull(&self) -> Result<(), Lost> {
        let mut client = self.client.clone();
        let mut since: Option<i64> = None;
        let mut pulled: Option<Topic> = None;
        loop {
            tokio::time::sleep(PULL).await;
            pulled = self.core.followed.verify_keys(pulled.as_ref(), PULLED_MAX);
            let prefixes = self.core.watched_prefixes();
            if prefixes.is_empty() {
                continue;
            }
            let request = SyncRequest {
                agent_id: self.core.id.clone(),
                last_sync_index: since.unwrap_or_else(|| convert::signed(self.core.followed.index())),
                watched_prefixes: prefixes.iter().cloned().collect(),
                full_sync: false,
            };
            let answer = match timely(client.sync(request)).await {
                Ok(answer) => convert::unpacked_sync(answer.into_inner()).map_err(Status::internal)?,
                Err(Lost::Refused(status)) if is_about_the_batch(&status) => continue,
                Err(lost) => return Err(lost),
            };
            since = Some(answer.current_index);
            for update in &answer.kv_updates {
                for prefix in prefixes.iter().filter(|prefix| update.key.starts_with(prefix.as_str())) {
                    self.core.followed.verify(&Topic::Keys(prefix.clone()), update.modify_index);
                }
            }
        }
    }
}

/// How often the hub is shown a sign of life: three times within the lease it gives.
fn beat(lease_seconds: i64) -> Duration {
    match u64::try_from(lease_seconds) {
        // An older hub does not say.
        Ok(0) | Err(_) => KEEP_ALIVE,
        Ok(seconds) => KEEP_ALIVE.min(Duration::from_secs(seconds) / 3),
    }
}

/// Whether a refusal says something about what was sent, and nothing about the connection.
fn is_about_the_batch(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::ResourceExhausted
            | Code::NotFound
            | Code::AlreadyExists
            | Code::Unimplemented
    )
}

/// A call that does not take for ever.
pub(in crate::agent) async fn timely<T>(
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<Response<T>, Lost> {
    Ok(tokio::time::timeout(CALL_TIMEOUT, call).await.map_err(|_| Lost::Silent)??)
}

/// The content of a fetched topic.
pub(in crate::agent) fn content(delta: &[u8]) -> Option<TopicData> {
    let whole = Delta { since: None, ..convert::delta(delta).ok()? };
    TopicData::default().apply(&whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_comes_three_times_within_a_lease() {
        for (lease, expected) in [(30, 10_000), (3600, 10_000), (6, 2_000), (1, 333), (0, 10_000), (-1, 10_000)] {
            assert_eq!(beat(lease).as_millis(), expected, "{lease}");
        }
    }
}
