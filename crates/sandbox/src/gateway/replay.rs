//! Where files are not kept: the steps that led to a state, run again in a fresh sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use kube::{Api, ResourceExt};
use thane_api::wire::sandbox::{StepRecord, StepRequest};
use tokio::sync::oneshot;

use super::Shared;
use super::claiming::{UNDO, with_pod};
use super::failure::{Failure, Result};
use super::restore::BEFORE_ALL;
use super::sessions::Session;
use super::sidecars::Address;
use crate::claims::{Claimed, OnEmpty, PoolAt};
use crate::kinds::Sandbox;

/// Steps that can be run again, at most.
const STEPS_MAX: usize = 10_000;
/// How long to wait for the other sandbox; if the pool has none, one is made.
const WAIT: Duration = Duration::from_mins(2);

type Tell = oneshot::Sender<Result<usize>>;

impl Shared {
    /// Runs the steps that led to one again in another session, which then has them as its past. `is_fork`: only those;
    /// otherwise all that ever were.
    pub(super) async fn replay(&self, from: &Session, step: i64, to: &Session, is_fork: bool) -> Result<usize> {
        let asked = self.asked(from).await?;
        let path = path(&asked, step)?;
        for index in &path {
            let (_, request) = &asked[index];
            let Some(request) = request else {
                let message =
                    format!("step {index} cannot be run again: files that were uploaded before it are too large");
                return Err(Failure::conflict(message));
            };
            let request = StepRequest { session: to.id.clone(), unrecorded: true, ..request.clone() };
            let running = self.begin(to, request).await?;
            if let Err(status) = running.finish().await {
                return Err(self.verdict(to, status).await);
            }
        }
        self.pass_on(from, &path, to, is_fork).await?;
        Ok(path.len())
    }

    /// Every step that was recorded: what it began after, and what was asked, if it can be asked again.
    async fn asked(&self, session: &Session) -> Result<BTreeMap<i64, (i64, Option<StepRequest>)>> {
        let mut asked = BTreeMap::new();
        let mut records = self.history(session, false, 0).await?;
        while let Some(record) = records.next().await? {
            if asked.len() >= STEPS_MAX {
                return Err(Failure::conflict(format!("session {:?} has too many steps to run again", session.id)));
            }
            asked.insert(record.index, (record.parent, request(record)));
        }
        Ok(asked)
    }

    /// Gives the records of one session to another.
    async fn pass_on(&self, from: &Session, path: &[i64], to: &Session, is_fork: bool) -> Result<()> {
        let records = self.history(from, false, 0).await?;
        let path: std::collections::BTreeSet<i64> = path.iter().copied().collect();
        let passed = stream::unfold((records, path), move |(mut records, path)| async move {
            loop {
                // What breaks here is noticed by what has arrived.
                let record = records.next().await.ok().flatten()?;
                let live = path.contains(&record.index);
                if live || !is_fork {
                    return Some((StepRecord { live, snapshot: String::new(), ..record }, (records, path)));
                }
            }
        });
        let sidecar = self.proven(to).await?;
        match sidecar.steps().inherit(passed).await {
            Ok(_) => Ok(()),
            Err(status) => Err(self.verdict(to, status).await),
        }
    }
}

fn request(record: StepRecord) -> Option<StepRequest> {
    if record.changes_lost {
        return None;
    }
    Some(StepRequest {
        changes: record.changes,
        name: record.name,
        command: record.command,
        env: record.env,
        working_dir: record.working_dir,
        timeout_ms: record.timeout_ms,
        background: record.background,
        stdin: record.stdin,
        ..StepRequest::default()
    })
}

/// The steps that led to one, the first first.
fn path<T>(asked: &BTreeMap<i64, (i64, T)>, step: i64) -> Result<Vec<i64>> {
    let (mut path, mut at) = (Vec::new(), step);
    while at != BEFORE_ALL {
        let (parent, _) = asked.get(&at).ok_or_else(|| Failure::absent(format!("there is no step {at}")))?;
        path.push(at);
        // A step begins after an earlier one, always.
        if *parent >= at {
            return Err(Failure::unavailable(format!("step {at} has no past")));
        }
        at = *parent;
    }
    path.reverse();
    Ok(path)
}

impl Shared {
    /// Brings a session back to a step in another pod. What was begun is undone when whoever asked goes, or the gateway
    /// ends.
    pub(super) async fn restore_by_replay(self: &Arc<Self>, session: &Arc<Session>, step: i64) -> Result<usize> {
        let (mut tell, told) = oneshot::channel();
        let (shared, session) = (Arc::clone(self), Arc::clone(session));
        self.tasks.spawn("restore", async move {
            let moved = Box::pin(shared.move_back(&session, step, &mut tell)).await;
            // Once it has moved it stays so, whoever hears of it.
            let _ = tell.send(moved);
        });
        told.await.map_err(|_| Failure::unavailable("the gateway ends"))?
    }

    /// Moves a session to another pod that is as it was, and then lets go of the one it had.
    async fn move_back(&self, session: &Arc<Session>, step: i64, tell: &mut Tell) -> Result<usize> {
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), &session.namespace);
        let sandbox = api.get(&session.id).await?;
        let old = session.address()?;
        let pool = PoolAt { namespace: session.namespace.clone(), name: session.pool.clone() };
        let spare = tokio::select! {
            spare = self.claims.spare(&pool, &sandbox, OnEmpty::Cold(WAIT)) => spare?,
            () = self.tasks.cancelled() => return Err(Failure::unavailable("the gateway ends")),
        };
        let fresh = with_pod(Session::clone(session), spare.clone());
        let prepared = async {
            let sidecar = self.sidecar(&fresh).await?;
            self.bind(&fresh, &sidecar, self.remembered(session).await?).await?;
            self.replay(session, step, &fresh, false).await
        };
        let prepared = tokio::select! {
            prepared = prepared => prepared,
            () = tell.closed() => Err(Failure::unavailable("nobody waits for it")),
            () = self.tasks.cancelled() => Err(Failure::unavailable("the gateway ends")),
        };
        let moved = match prepared {
            Ok(replayed) => self.claims.repoint(&sandbox, &spare).await.map(|()| replayed).map_err(Failure::from),
            Err(failure) => Err(failure),
        };
        match moved {
            Ok(replayed) => {
                self.again(session).await?;
                self.let_go(old).await;
                Ok(replayed)
            }
            Err(failure) => {
                let _ = tokio::time::timeout(UNDO, self.release(&session.namespace, &spare)).await;
                Err(failure)
            }
        }
    }

    /// Deletes the pod that a session had.
    async fn let_go(&self, old: &Address) {
        if let Ok(Some(pod)) = self.pod(old).await {
            let pod_uid = pod.uid().unwrap_or_default();
            let claimed = Claimed { pod: old.pod.clone(), pod_uid, pod_ip: old.ip.clone(), work_dir: String::new() };
            self.release(&old.namespace, &claimed).await;
        }
        self.sidecars.forget(old);
    }

    async fn release(&self, namespace: &str, claimed: &Claimed) {
        if let Err(error) = self.claims.release(namespace, claimed).await {
            // Its Sandbox owns it: it goes with that at the latest.
            tracing::warn!(%error, pod = claimed.pod, "a pod that is no longer needed could not be deleted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_step_goes_over_its_parents() {
        let asked = BTreeMap::from([(0, (-1, ())), (1, (0, ())), (2, (0, ())), (3, (2, ())), (5, (7, ()))]);
        assert_eq!(path(&asked, 3).unwrap(), [0, 2, 3]);
        assert_eq!(path(&asked, -1).unwrap(), [0; 0]);
        assert_eq!(path(&asked, 4).unwrap_err().status.as_u16(), 404);
        assert_eq!(path(&asked, 5).unwrap_err().status.as_u16(), 503, "a loop ends");
    }
}
