//! One of several processes leads: whoever holds a Lease, for as long as it renews it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use thane_runtime::{SharedClock, Tasks};

/// How long a holder that says nothing more keeps it.
const DURATION: Duration = Duration::from_secs(15);
/// How often it is renewed, or looked at.
const RENEWAL: Duration = Duration::from_secs(3);
/// How long a holder that cannot renew goes on before others may think it gone.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long what was led may take to end.
const GRACE: Duration = Duration::from_secs(4);

/// Which lease, and who wants it.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Where the lease is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who wants it; unlike any other.
    pub identity: String,
}

/// What was last seen of a lease, and since when it has not changed, by the clock of this process: those of others may differ.
#[derive(Debug, Default)]
struct Seen {
    version: String,
    since: Duration,
}

/// Leads whenever the lease is held: `lead` starts what leading is, in a group of tasks that ends with it.
pub async fn run(client: Client, candidate: Candidate, clock: SharedClock, tasks: Tasks, lead: impl Fn(&Tasks)) {
    let api: Api<Lease> = Api::namespaced(client, &candidate.namespace);
    let (mut seen, mut renewed, mut leading): (Seen, Duration, Option<Tasks>) = (Seen::default(), Duration::ZERO, None);
    while !tasks.is_cancelled() {
        let attempt = tokio::time::timeout(RENEWAL, hold(&api, &candidate, &mut seen, &clock)).await;
        let now = clock.monotonic();
        match attempt {
            Ok(Ok(true)) => {
                renewed = now;
                if leading.is_none() {
                    tracing::info!(lease = candidate.name, "leading");
                    let group = tasks.child("leading");
                    lead(&group);
                    leading = Some(group);
                }
            }
            Ok(Ok(false)) => renewed = Duration::ZERO,
            Ok(Err(error)) => tracing::warn!(%error, lease = candidate.name, "the lease cannot be renewed"),
            Err(_) => tracing::warn!(lease = candidate.name, "the lease cannot be renewed in time"),
        }
        let lost = renewed == Duration::ZERO || now.saturating_sub(renewed) > DEADLINE;
        if let Some(group) = leading.take_if(|_| lost) {
            tracing::warn!(lease = candidate.name, "no longer leading");
            group.shutdown(GRACE).await;
        }
        tokio::select! {
            () = tokio::time::sleep(RENEWAL) => {}
            () = tasks.cancelled() => {}
        }
    }
    // What was led has ended before this does, so another may lead at once.
    if leading.is_some()
        && let Err(error) = let_go(&api, &candidate).await
    {
        tracing::info!(%error, lease = candidate.name, "the lease was not given back; it ends by itself");
    }
}

async fn let_go(api: &Api<Lease>, me: &Candidate) -> Result<(), kube::Error> {
    let mut lease = api.get(&me.name).await?;
    let Some(spec) = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_deref() == Some(&me.identity)) else {
        return Ok(());
    };
    spec.holder_identity = None;
    api.replace(&me.name, &PostParams::default(), &lease).await.map(|_| ())
}

/// Takes or renews the lease if it may; says whether it is held.
async fn hold(api: &Api<Lease>, me: &Candidate, seen: &mut Seen, clock: &SharedClock) -> Result<bool, kube::Error> {
    let Some(found) = api.get_opt(&me.name).await? else {
        let metadata = ObjectMeta { name: Some(me.name.clone()), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(taken(me, None, clock.now())) };
        return lost_is_fine(api.create(&PostParams::default(), &lease).await);
    };
    let version = found.metadata.resource_version.clone().unwrap_or_default();
    if seen.version != version {
        *seen = Seen { version, since: clock.monotonic() };
    }
    let quiet = clock.monotonic().saturating_sub(seen.since);
    if !may_take(found.spec.as_ref(), &me.identity, quiet) {
        return Ok(false);
    }
    let lease = Lease { spec: Some(taken(me, found.spec.as_ref(), clock.now())), ..found };
    lost_is_fine(api.replace(&me.name, &PostParams::default(), &lease).await)
}

/// Whether a lease is one's own, nobody's, or that of somebody who has said nothing for too long.
fn may_take(spec: Option<&LeaseSpec>, me: &str, quiet: Duration) -> bool {
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds).and_then(|seconds| u64::try_from(seconds).ok());
    let duration = seconds.map_or(DURATION, Duration::from_secs);
    holder.is_empty() || holder == me || quiet >= duration
}

fn taken(me: &Candidate, before: Option<&LeaseSpec>, now: Timestamp) -> LeaseSpec {
    let mut spec = before.cloned().unwrap_or_default();
    if spec.holder_identity.as_deref() != Some(&me.identity) {
        spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |transitions| transitions.saturating_add(1)));
        spec.acquire_time = Some(MicroTime(now));
        spec.holder_identity = Some(me.identity.clone());
    }
    spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
    spec.renew_time = Some(MicroTime(now));
    spec
}

fn lost_is_fine(answer: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_from_nobody_who_speaks() {
        let held = |by: &str| LeaseSpec {
            holder_identity: Some(by.to_owned()),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        };
        for (spec, quiet, may) in [
            (None, 0, true),
            (Some(held("")), 0, true),
            (Some(held("me")), 0, true),
            (Some(held("other")), 14, false),
            (Some(held("other")), 15, true),
        ] {
            assert_eq!(may_take(spec.as_ref(), "me", Duration::from_secs(quiet)), may, "{spec:?} {quiet}");
        }
        let me = Candidate { namespace: "n".into(), name: "l".into(), identity: "me".into() };
        let first = taken(&me, Some(&held("other")), Timestamp::UNIX_EPOCH);
        assert_eq!((first.lease_transitions, first.acquire_time.is_some()), (Some(0), true));
        let again = taken(&me, Some(&first), Timestamp::UNIX_EPOCH);
        assert_eq!(again.lease_transitions, Some(0));
        assert_eq!(
            taken(&me, Some(&LeaseSpec { holder_identity: Some("o".into()), ..again }), Timestamp::UNIX_EPOCH)
                .lease_transitions,
            Some(1)
        );
    }
}
