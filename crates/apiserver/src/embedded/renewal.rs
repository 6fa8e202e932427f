//! Renews certificates while the server runs.

use std::time::Duration;

use jiff::Timestamp;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::watch;

use super::identity::{Credentials, Identities};

/// The longest sleep: timers stand still while a machine sleeps, certificates do not.
const SLEEP_MAX: Duration = Duration::from_hours(24);
/// The shortest sleep, and the pause after a failure.
const SLEEP_MIN: Duration = Duration::from_mins(1);

/// Sleeps until something is due, renews it, and tells clients' new credentials. The listener follows the files.
pub(super) async fn run(
    identities: Identities,
    mut renewal_at: Timestamp,
    credentials: watch::Sender<Credentials>,
    clock: SharedClock,
    tasks: Tasks,
) {
    loop {
        tokio::select! {
            () = tasks.cancelled() => return,
            () = tokio::time::sleep(pause(clock.now(), renewal_at)) => {}
        }
        let now = clock.now();
        if now > renewal_at
            && let Some(next) = renew(&identities, now, &credentials).await
        {
            renewal_at = next;
        }
    }
}

/// Renews what is due; answers when to do so next.
async fn renew(identities: &Identities, now: Timestamp, credentials: &watch::Sender<Credentials>) -> Option<Timestamp> {
    let due = identities.clone();
    let current = match tokio::task::spawn_blocking(move || due.refresh(now)).await {
        Ok(Ok(current)) => current,
        Ok(Err(error)) => {
            tracing::error!(%error, "certificates are due and cannot be renewed");
            return None;
        }
        Err(error) => {
            tracing::error!(%error, "renewal of certificates was cut short");
            return None;
        }
    };
    tracing::info!(next = %current.renewal_at, "certificates were renewed");
    credentials.send_if_modified(|known| {
        let changed = *known != current.credentials;
        *known = current.credentials;
        changed
    });
    Some(current.renewal_at)
}

fn pause(now: Timestamp, renewal_at: Timestamp) -> Duration {
    let left = Duration::try_from(renewal_at.duration_since(now)).unwrap_or(Duration::ZERO);
    left.saturating_add(Duration::from_secs(1)).clamp(SLEEP_MIN, SLEEP_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sleeps_until_something_is_due_within_bounds() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let check = |seconds: i64, expected: Duration| {
            let at = Timestamp::from_second(now.as_second() + seconds).unwrap();
            assert_eq!(pause(now, at), expected, "{seconds}");
        };
        check(-5, SLEEP_MIN);
        check(0, SLEEP_MIN);
        check(3600, Duration::from_secs(3601));
        check(100 * 24 * 3600, SLEEP_MAX);
    }

    #[tokio::test]
    async fn clients_are_told_of_what_changed() {
        let directory = tempfile::tempdir().unwrap();
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        let identities = Identities::open(directory.path().to_owned(), &[]).unwrap();
        let first = identities.refresh(start).unwrap();
        let (sender, mut receiver) = watch::channel(first.credentials.clone());
        let same = renew(&identities, start, &sender).await;
        assert_eq!((same, receiver.has_changed().unwrap()), (Some(first.renewal_at), false));

        let next = renew(&identities, first.renewal_at + Duration::from_secs(1), &sender).await.unwrap();
        assert!(next > first.renewal_at);
        assert_ne!(receiver.borrow_and_update().admin, first.credentials.admin);

        std::fs::write(directory.path().join("ca.key"), "junk").unwrap();
        assert_eq!(renew(&identities, next + Duration::from_secs(1), &sender).await, None);
        assert!(!receiver.has_changed().unwrap(), "a failed renewal changes nothing");
    }
}
