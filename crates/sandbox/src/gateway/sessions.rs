//! Sessions there are: the Sandboxes of the API, followed, so that nothing is asked when they are used.

mod follow;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use parking_lot::RwLock;

use super::bodies::SessionInfo;
use super::failure::{Failure, Result};
use super::keys::Caller;
use super::sidecars::Address;
use crate::kinds::{Phase, Sandbox};
use crate::names;

pub(super) use follow::follow;

/// Whose a session is.
pub(super) const OWNER: &str = "thane.dev/owner";

/// A session, as far as the gateway needs to know it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) version: u64,
    pub(super) pool: String,
    pub(super) pod: Option<Address>,
    pub(super) work_dir: String,
    pub(super) phase: Phase,
    pub(super) created_at: Option<Time>,
    pub(super) owner: Option<String>,
    pub(super) experiment: Option<String>,
    pub(super) is_ending: bool,
    /// It was made by hand, and is to go after its first execution.
    pub(super) is_for_once: bool,
    /// Somebody was told of it. Of one that was claimed and never told, nobody knows.
    pub(super) is_known: bool,
}

impl From<&Sandbox> for Session {
    fn from(sandbox: &Sandbox) -> Self {
        let status = sandbox.status.clone().unwrap_or_default();
        let namespace = sandbox.namespace().unwrap_or_default();
        let pod = status.pod_name.zip(status.pod_ip).filter(|(name, ip)| !name.is_empty() && !ip.is_empty());
        let is_by_hand = !sandbox.annotations().contains_key(names::SESSION);
        Self {
            id: sandbox.name_any(),
            uid: sandbox.uid().unwrap_or_default(),
            version: sandbox.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default(),
            pool: sandbox.spec.pool_ref.clone(),
            pod: pod.map(|(pod, ip)| Address { namespace: namespace.clone(), pod, ip }),
            work_dir: status.work_dir.unwrap_or_else(|| names::WORKSPACE.to_owned()),
            phase: status.phase.unwrap_or_default(),
            created_at: sandbox.creation_timestamp(),
            owner: sandbox.labels().get(OWNER).cloned(),
            experiment: sandbox.labels().get(names::EXPERIMENT).cloned(),
            is_ending: sandbox.metadata.deletion_timestamp.is_some(),
            is_for_once: is_by_hand && sandbox.spec.keep_alive == Some(false),
            is_known: !sandbox.annotations().contains_key(names::CLAIM_UNTIL),
            namespace,
        }
    }
}

impl Session {
    /// As it is shown.
    pub(super) fn info(&self) -> SessionInfo {
        let (pod_name, pod_ip) = self.pod.clone().map(|pod| (pod.pod, pod.ip)).unwrap_or_default();
        SessionInfo {
            id: self.id.clone(),
            sandbox_name: self.id.clone(),
            namespace: self.namespace.clone(),
            pool_ref: self.pool.clone(),
            pod_ip,
            pod_name,
            created_at: self.created_at.as_ref().map(|time| time.0.to_string()).unwrap_or_default(),
            phase: format!("{:?}", self.phase),
            work_dir: self.work_dir.clone(),
            managed: self.experiment.is_some(),
            experiment_id: self.experiment.clone(),
        }
    }

    /// Where its sidecar is.
    pub(super) fn address(&self) -> Result<&Address> {
        match (self.phase, &self.pod) {
            (Phase::Failed, _) => Err(Failure::lost(format!("the sandbox of session {:?} is lost", self.id))),
            (_, Some(pod)) => Ok(pod),
            (_, None) => Err(Failure::unavailable(format!("session {:?} waits for a sandbox", self.id))),
        }
    }
}

/// Sessions by name and namespace.
#[derive(Default)]
pub(super) struct Sessions {
    known: RwLock<BTreeMap<(String, String), Arc<Session>>>,
}

impl Sessions {
    /// Those of that name that somebody may know of.
    pub(super) fn named(&self, id: &str, namespace: Option<&str>, caller: &Caller) -> Vec<Arc<Session>> {
        let known = self.known.read();
        let all = known.range((id.to_owned(), String::new())..).take_while(|((name, _), _)| name == id);
        let own = all.filter(|((_, at), _)| namespace.is_none_or(|wanted| wanted == at));
        own.filter(|(_, session)| caller.sees(session.owner.as_deref())).map(|(_, one)| Arc::clone(one)).collect()
    }

    /// Takes in what is known of a session now; what is known to be newer stays.
    pub(super) fn learn(&self, mut session: Session) -> Arc<Session> {
        let key = (session.id.clone(), session.namespace.clone());
        let mut known = self.known.write();
        if let Some(old) = known.get(&key).filter(|old| old.uid == session.uid) {
            session.is_known |= old.is_known;
            // A pod once given is not taken back; what says so was written before. That may be heard of first.
            if old.version > session.version {
                if old.pod.is_some() || session.pod.is_none() || old.phase == Phase::Failed {
                    return Arc::clone(old);
                }
                let Session { pod, work_dir, phase, .. } = session;
                session = Session { pod, work_dir, phase, ..Session::clone(old) };
            }
            if session.pod.is_none() && session.phase != Phase::Failed {
                session.pod.clone_from(&old.pod);
                session.work_dir.clone_from(&old.work_dir);
                session.phase = old.phase;
            }
        }
        let session = Arc::new(session);
        known.insert(key, Arc::clone(&session));
        session
    }

    /// Takes in that somebody knows of a session; whether that is news.
    pub(super) fn tell(&self, session: &Session) -> bool {
        let mut known = self.known.write();
        let Some(found) = known.get_mut(&(session.id.clone(), session.namespace.clone())) else { return false };
        if found.is_known || found.uid != session.uid {
            return false;
        }
        Arc::make_mut(found).is_known = true;
        true
    }

    /// Forgets a session.
    pub(super) fn forget(&self, id: &str, namespace: &str) -> Option<Arc<Session>> {
        self.known.write().remove(&(id.to_owned(), namespace.to_owned()))
    }

    /// Forgets all but those.
    pub(super) fn keep(&self, listed: &std::collections::BTreeSet<(String, String)>) {
        self.known.write().retain(|key, _| listed.contains(key));
    }

    /// At most so many after a place, in the order of their names, of which something holds.
    pub(super) fn page(
        &self,
        after: Option<&(String, String)>,
        max: usize,
        wanted: impl Fn(&Session) -> bool,
    ) -> Vec<Arc<Session>> {
        let known = self.known.read();
        let from = match after {
            Some(after) => std::ops::Bound::Excluded(after.clone()),
            None => std::ops::Bound::Unbounded,
        };
        let rest = known.range((from, std::ops::Bound::Unbounded)).map(|(_, session)| session);
        rest.filter(|session| wanted(session)).take(max).cloned().collect()
    }

    pub(super) fn count(&self, wanted: impl Fn(&Session) -> bool) -> usize {
        self.known.read().values().filter(|session| wanted(session)).count()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn session(version: u64, pod: Option<&str>) -> Session {
        let status = pod.map(|pod| json!({"podName": pod, "podIP": "127.64.0.1", "phase": "Ready"}));
        let sandbox = json!({
            "apiVersion": "arl.infra.io/v1alpha1", "kind": "Sandbox",
            "metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": version.to_string()},
            "spec": {"poolRef": "p", "keepAlive": false}, "status": status,
        });
        Session::from(&serde_json::from_value::<Sandbox>(sandbox).unwrap())
    }

    #[test]
    fn what_is_older_changes_nothing() {
        let sessions = Sessions::default();
        let pod = |session: &Session| session.pod.as_ref().map(|pod| pod.pod.clone());
        assert_eq!(pod(&sessions.learn(session(5, Some("a")))).as_deref(), Some("a"));
        assert_eq!(pod(&sessions.learn(session(4, Some("old")))).as_deref(), Some("a"));
        assert_eq!(pod(&sessions.learn(session(5, None))).as_deref(), Some("a"), "seen late");
        assert_eq!(pod(&sessions.learn(session(6, Some("b")))).as_deref(), Some("b"));
        assert!(session(1, None).is_for_once);
        assert_eq!(session(1, None).address().unwrap_err().status.as_u16(), 503);
    }

    #[test]
    fn that_somebody_knows_of_it_is_news_once() {
        let sessions = Sessions::default();
        let unknown = |version| Session { is_known: false, ..session(version, Some("a")) };
        let claimed = sessions.learn(unknown(1));
        assert!(sessions.tell(&claimed) && !sessions.tell(&claimed));
        assert!(sessions.learn(unknown(2)).is_known, "the watch tells of an older state");
        assert!(!sessions.tell(&session(1, None)), "made by hand");
        assert!(!sessions.tell(&Session { uid: "another".to_owned(), ..unknown(3) }));
    }

    #[test]
    fn pages_go_on_where_they_ended() {
        let sessions = Sessions::default();
        for name in ["a", "b", "c", "d"] {
            sessions.learn(Session { id: name.to_owned(), uid: name.to_owned(), ..session(1, None) });
        }
        let names = |after: Option<&str>, max| -> Vec<String> {
            let after = after.map(|after| (after.to_owned(), "n".to_owned()));
            sessions.page(after.as_ref(), max, |one| one.id != "b").iter().map(|one| one.id.clone()).collect()
        };
        assert_eq!(names(None, 2), ["a", "c"]);
        assert_eq!(names(Some("c"), 2), ["d"]);
        assert_eq!(sessions.count(|one| one.id.as_str() < "c"), 2);
    }
}
