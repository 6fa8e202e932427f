//! A watcher's side of a watch: takes batches from the hub and reads history where it fell behind.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::hub::{Hub, Subscriber, Taken};
use crate::snapshot::LogPage;
use crate::store::{Error, Event, Result, Revision, Watch, WatchBatch};

/// Where a watcher that fell behind reads what it missed.
pub(crate) trait LogSource: Send + Sync + 'static {
    fn hub(&self) -> &Hub;
    /// The newest committed revision, published or not.
    fn committed(&self) -> Result<Revision>;
    fn compacted(&self) -> Revision;
    fn log_page(&self, prefix: &[u8], after: Revision) -> Result<LogPage>;
}

/// Opens a watch.
pub(crate) fn open<S: LogSource>(source: &Arc<S>, prefix: Bytes, after: Revision) -> Result<Box<dyn Watch>> {
    if after > source.hub().published() {
        // A reader may already have seen a commit whose events are about to be published.
        let current = source.committed()?;
        if after > current {
            return Err(Error::Future { requested: after, current });
        }
    }
    let compacted = source.compacted();
    if after < compacted {
        return Err(Error::Compacted { requested: after, compacted });
    }
    let subscriber = source.hub().subscribe(prefix.clone(), after);
    let source = Arc::clone(source);
    Ok(Box::new(Reading {
        source,
        subscriber,
        prefix,
        position: after,
        reported: after,
        behind: Behind::No,
        ended: None,
    }))
}

/// Whether history has to be read before the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    No,
    /// The queue is not filled until the end of the log was reached.
    Lagging,
    /// The queue holds everything after this revision.
    Until(Revision),
}

struct Reading<S: LogSource> {
    source: Arc<S>,
    subscriber: Arc<Subscriber>,
    prefix: Bytes,
    /// All matching events up to here were delivered.
    position: Revision,
    /// The newest revision the consumer was told of.
    reported: Revision,
    behind: Behind,
    ended: Option<Error>,
}

enum Step {
    Batch(WatchBatch),
    Again,
    Idle,
}

impl<S: LogSource> Reading<S> {
    fn step(&mut self) -> Result<Step> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        let step = match self.behind {
            Behind::No => self.take_queued(),
            behind => self.read_history(behind),
        };
        step.inspect_err(|error| self.ended = Some(error.clone()))
    }

    fn take_queued(&mut self) -> Result<Step> {
        match self.source.hub().take(&self.subscriber) {
            Taken::Batch(batch) => {
                let unseen = batch.events.partition_point(|event| event.revision <= self.position);
                self.position = self.position.max(batch.revision);
                Ok(self.deliver(batch.events[unseen..].to_vec()))
            }
            Taken::Lagging => {
                self.behind = Behind::Lagging;
                Ok(Step::Again)
            }
            Taken::Idle(published) => {
                self.position = self.position.max(published);
                Ok(Step::Idle)
            }
            Taken::Ended(error) => Err(error),
        }
    }

    fn read_history(&mut self, behind: Behind) -> Result<Step> {
        let page = self.source.log_page(&self.prefix, self.position)?;
        self.position = page.through;
        // At the end of the log the watcher goes live first and then reads what was published in between, so it
        // catches up however fast others write.
        let behind = match behind {
            Behind::Lagging if page.complete => Behind::Until(self.source.hub().go_live(&self.subscriber)),
            behind => behind,
        };
        self.behind = match behind {
            Behind::Until(until) if self.position >= until => Behind::No,
            behind => behind,
        };
        Ok(self.deliver(page.events))
    }

    fn deliver(&mut self, events: Vec<Arc<Event>>) -> Step {
        if events.is_empty() {
            return Step::Again;
        }
        self.reported = self.position;
        Step::Batch(WatchBatch { revision: self.position, events })
    }
}

impl<S: LogSource> Watch for Reading<S> {
    fn next(&mut self) -> BoxFuture<'_, Result<WatchBatch>> {
        Box::pin(async move {
            loop {
                match self.step()? {
                    Step::Batch(batch) => return Ok(batch),
                    Step::Again => tokio::task::yield_now().await,
                    Step::Idle => self.subscriber.wake.notified().await,
                }
            }
        })
    }

    fn try_next(&mut self) -> Result<Option<WatchBatch>> {
        loop {
            match self.step()? {
                Step::Batch(batch) => return Ok(Some(batch)),
                // One page of history at a time keeps the call short; the next call goes on.
                Step::Again if self.behind != Behind::No && self.position > self.reported => break,
                Step::Again => {}
                Step::Idle => break,
            }
        }
        if self.position == self.reported {
            return Ok(None);
        }
        self.reported = self.position;
        Ok(Some(WatchBatch { revision: self.position, events: Vec::new() }))
    }
}

impl<S: LogSource> Drop for Reading<S> {
    fn drop(&mut self) {
        self.source.hub().unsubscribe(&self.subscriber);
    }
}
