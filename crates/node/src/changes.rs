//! Changes of objects that volumes are made from, told to the pods that have them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use futures::TryStreamExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use thane_runtime::Tasks;
use tokio::sync::Notify;

use crate::shared::Shared;

/// What kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ConfigMap,
    Secret,
}

/// An object that volumes are made from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Object {
    kind: Kind,
    namespace: String,
    name: String,
}

impl Object {
    /// A `ConfigMap`.
    pub(crate) fn config_map(namespace: &str, name: &str) -> Self {
        Self { kind: Kind::ConfigMap, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// A Secret.
    pub(crate) fn secret(namespace: &str, name: &str) -> Self {
        Self { kind: Kind::Secret, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Who wants to hear of changes of which objects: as many entries as running pods have references.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    interested: Mutex<BTreeMap<Object, Vec<Arc<Notify>>>>,
}

impl Changes {
    /// Hears of changes of objects from now on.
    pub(crate) fn interest(self: &Arc<Self>, objects: BTreeSet<Object>) -> Interest {
        let notify = Arc::new(Notify::new());
        let mut interested = self.interested.lock();
        for object in &objects {
            interested.entry(object.clone()).or_default().push(Arc::clone(&notify));
        }
        Interest { changes: Arc::clone(self), objects, notify }
    }

    fn tell(&self, object: &Object) {
        for notify in self.interested.lock().get(object).into_iter().flatten() {
            notify.notify_one();
        }
    }
}

/// Hears of changes until it is dropped.
#[derive(Debug)]
pub(crate) struct Interest {
    changes: Arc<Changes>,
    objects: BTreeSet<Object>,
    notify: Arc<Notify>,
}

impl Interest {
    /// Waits until one of the objects may have changed; several changes may come as one.
    pub(crate) async fn changed(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut interested = self.changes.interested.lock();
        for object in &self.objects {
            if let Some(list) = interested.get_mut(object) {
                list.retain(|one| !Arc::ptr_eq(one, &self.notify));
                if list.is_empty() {
                    interested.remove(object);
                }
            }
        }
    }
}

/// Watches all objects that volumes can be made from: their names and versions, never their content.
pub(crate) fn watches(shared: &Arc<Shared>, tasks: &Tasks) -> [BoxFuture<'static, ()>; 2] {
    let (client, changes) = (&shared.client, &shared.changes);
    [
        Box::pin(watch::<ConfigMap>(client.clone(), Kind::ConfigMap, Arc::clone(changes), tasks.clone())),
        Box::pin(watch::<Secret>(client.clone(), Kind::Secret, Arc::clone(changes), tasks.clone())),
    ]
}

async fn watch<K>(client: Client, kind: Kind, changes: Arc<Changes>, tasks: Tasks)
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(client);
    let stream = watcher(api, watcher::Config::default()).default_backoff();
    let mut stream = std::pin::pin!(stream);
    loop {
        let event = tokio::select! {
            () = tasks.cancelled() => return,
            event = stream.try_next() => event,
        };
        match event {
            // What is listed anew may have changed while nobody watched.
            Ok(Some(watcher::Event::Apply(object) | watcher::Event::InitApply(object))) => {
                let namespace = object.namespace().unwrap_or_default();
                changes.tell(&Object { kind, namespace, name: object.name_any() });
            }
            // Pods keep the files of objects that are gone.
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, ?kind, "the watch of what volumes are made from failed, trying again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn only_those_who_are_interested_hear() {
        let changes = Arc::new(Changes::default());
        let (map, secret) = (Object::config_map("n", "a"), Object::secret("n", "a"));
        let first = changes.interest(BTreeSet::from([map.clone()]));
        let second = changes.interest(BTreeSet::from([map.clone(), secret.clone()]));
        changes.tell(&secret);
        assert!(first.changed().now_or_never().is_none() && second.changed().now_or_never().is_some());
        changes.tell(&map);
        changes.tell(&map);
        assert!(first.changed().now_or_never().is_some() && second.changed().now_or_never().is_some());
        assert!(first.changed().now_or_never().is_none(), "two changes were told as one");
        drop((first, second));
        assert!(changes.interested.lock().is_empty());
    }
}
