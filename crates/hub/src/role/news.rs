//! What the hub's watches see goes to the agents it concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use thane_link::{Command, Observed};
use thane_sync::hub::HubLink;
use thane_sync::mapping::{self, Plan};
use thane_sync::object::{Key, Kind, Object};
use thane_sync::router::News;
use thane_sync::store::version;
use thane_sync::work::Write;

use super::changes::Change;
use super::{Feed, Running};

impl Running {
    pub(super) async fn observe(&mut self, feed: Feed, observed: Observed) {
        let kind = match feed {
            Feed::Clusters => return self.observe_clusters(observed).await,
            Feed::Agents => {
                for agent in self.requests.observe(&observed) {
                    tracing::info!(agent, "everything is sent again, as was asked for");
                    self.resync(&agent).await;
                }
                return;
            }
            Feed::Objects(kind) => kind,
        };
        match observed {
            Observed::All(objects, version) => {
                let listed: BTreeSet<Key> = objects.iter().map(|object| Key::of(kind, object)).collect();
                for key in self.router.keys(kind).into_iter().filter(|key| !listed.contains(key)) {
                    let news = self.router.gone(&key, Some(version));
                    self.tell(news).await;
                }
                self.tell_listed(kind, version, listed).await;
                for object in objects {
                    self.applied(kind, object).await;
                }
            }
            Observed::Applied(object) => {
                let known = self.router.knows(&Key::of(kind, &object));
                self.changes.count(kind, if known { Change::Updated } else { Change::Created });
                self.applied(kind, object).await;
            }
            Observed::Deleted(object) => {
                self.changes.count(kind, Change::Deleted);
                let news = self.router.gone(&Key::of(kind, &object), version(&object));
                self.tell(news).await;
            }
        }
    }

    /// Connections know some objects only from answers to their own writes: those may be gone, too.
    async fn tell_listed(&self, kind: Kind, version: u64, listed: BTreeSet<Key>) {
        let listed = Arc::new(listed);
        for link in self.links.values() {
            let listed = Arc::clone(&listed);
            let change = move |link: &mut HubLink, now| link.listed(now, kind, version, |key| listed.contains(key));
            // A connection that has ended has no use for it.
            let _ = link.commands.send(Command::Change(Box::new(change))).await;
        }
    }

    async fn applied(&mut self, kind: Kind, object: Object) {
        if kind == Kind::AppProject {
            self.release(&object);
        }
        let news = self.router.applied(kind, object);
        self.tell(news).await;
    }

    /// A deleted project waits for nothing on the hub: what its finalizers are about is in the clusters.
    fn release(&self, project: &Object) {
        if !mapping::is_distributed_project(&self.config.side, project) {
            return;
        }
        if let Plan::Replace(released) = mapping::release(project) {
            let (objects, key) = (self.objects.clone(), Key::of(Kind::AppProject, project));
            self.tasks.spawn("release", async move {
                // If it has changed meanwhile, the watch shows it again.
                let outcome = objects.write(&key, Write::Replace(released)).await;
                tracing::debug!(project = key.name, ?outcome, "a deleted project was let go");
            });
        }
    }

    pub(super) async fn tell(&self, news: Vec<News>) {
        for news in news {
            self.roster.heard(&news);
            let News { agent, key, seen } = news;
            if let Some(link) = self.links.get(&agent) {
                // A connection that has ended has no use for it.
                let _ = link.commands.send(Command::Seen(key, seen)).await;
            }
        }
    }
}
