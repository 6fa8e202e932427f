//! What a watch has told so far, and what changed with its last word.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::pods;

/// Objects that were deleted, of which late news may still come.
const BURIED_MAX: usize = 4096;

/// All objects of a kind.
pub(crate) struct Watched<K> {
    objects: BTreeMap<String, Arc<K>>,
    listing: BTreeSet<String>,
    /// Written by us, and not told of by the watch yet.
    fresh: BTreeSet<String>,
    buried: VecDeque<String>,
    listed: bool,
}

impl<K> Default for Watched<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            listing: BTreeSet::new(),
            fresh: BTreeSet::new(),
            buried: VecDeque::new(),
            listed: false,
        }
    }
}

impl<K: Resource> Watched<K> {
    /// Takes the watch's next word, and gives the objects it is about as they are, or last were.
    pub(crate) fn observe(&mut self, event: watcher::Event<K>) -> Vec<Arc<K>> {
        match event {
            watcher::Event::Init => {
                self.listing.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                self.listing.insert(pods::uid(&object).to_owned());
                vec![self.apply(object)]
            }
            watcher::Event::InitDone => {
                let (listing, fresh) = (std::mem::take(&mut self.listing), std::mem::take(&mut self.fresh));
                self.listed = true;
                let stays = |uid: &String| listing.contains(uid) || fresh.contains(uid);
                let gone: Vec<String> = self.objects.keys().filter(|uid| !stays(uid)).cloned().collect();
                gone.into_iter().filter_map(|uid| self.bury(uid)).collect()
            }
            watcher::Event::Apply(object) => vec![self.apply(object)],
            watcher::Event::Delete(object) => {
                let last = Arc::new(object);
                self.bury(pods::uid(&*last).to_owned());
                vec![last]
            }
        }
    }

    /// Whether everything is known that there was at the start.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    /// An object that we wrote, unless the watch knows more about it.
    pub(crate) fn wrote(&mut self, object: K) {
        let uid = pods::uid(&object).to_owned();
        if !self.objects.contains_key(&uid) && !self.buried.contains(&uid) {
            self.fresh.insert(uid.clone());
            self.objects.insert(uid, Arc::new(object));
        }
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&Arc<K>> {
        self.objects.get(uid)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    fn apply(&mut self, object: K) -> Arc<K> {
        let uid = pods::uid(&object).to_owned();
        let object = Arc::new(object);
        self.fresh.remove(&uid);
        self.objects.insert(uid, Arc::clone(&object));
        object
    }

    fn bury(&mut self, uid: String) -> Option<Arc<K>> {
        self.fresh.remove(&uid);
        let last = self.objects.remove(&uid);
        if self.buried.len() >= BURIED_MAX {
            self.buried.pop_front();
        }
        self.buried.push_back(uid);
        last
    }
}

/// Follows everything of a kind that has a label, or everything. Failures are told and tried again; an object that cannot
/// be read is told and passed over, so that it does not keep the others from being seen.
pub(crate) fn follow<K>(client: Client, label: Option<&str>) -> BoxStream<'static, watcher::Event<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let api: Api<DeserializeGuard<K>> = Api::all(client);
    let config = label.map_or_else(watcher::Config::default, |label| watcher::Config::default().labels(label));
    let stream = watcher(api, config).default_backoff();
    let told = stream.inspect_err(|error| tracing::warn!(%error, "a watch failed, trying again"));
    told.filter_map(|event| std::future::ready(event.ok().and_then(readable))).boxed()
}

fn readable<K>(event: watcher::Event<DeserializeGuard<K>>) -> Option<watcher::Event<K>> {
    let read = |object: DeserializeGuard<K>| {
        let invalid = |invalid: &InvalidObject| {
            let name = invalid.metadata.name.as_deref().unwrap_or_default();
            tracing::warn!(name, error = invalid.error, "an object cannot be read and is left alone");
        };
        object.0.inspect_err(invalid).ok()
    };
    match event {
        watcher::Event::Init => Some(watcher::Event::Init),
        watcher::Event::InitDone => Some(watcher::Event::InitDone),
        watcher::Event::InitApply(object) => read(object).map(watcher::Event::InitApply),
        watcher::Event::Apply(object) => read(object).map(watcher::Event::Apply),
        watcher::Event::Delete(object) => read(object).map(watcher::Event::Delete),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn pod(uid: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": uid, "uid": uid}})).unwrap()
    }

    fn known(watched: &Watched<Pod>) -> Vec<&str> {
        watched.all().map(|pod| pods::uid(&**pod)).collect()
    }

    #[test]
    fn what_we_wrote_counts_at_once_and_what_was_deleted_stays_so() {
        let mut watched = Watched::default();
        watched.observe(watcher::Event::Init);
        watched.observe(watcher::Event::InitApply(pod("a")));
        assert!(!watched.is_listed());
        assert!(watched.observe(watcher::Event::InitDone).is_empty() && watched.is_listed());
        watched.wrote(pod("b"));
        assert_eq!(known(&watched), ["a", "b"]);
        // The list is older than what was written.
        watched.observe(watcher::Event::Init);
        let gone = watched.observe(watcher::Event::InitDone);
        assert_eq!((gone.len(), known(&watched)), (1, vec!["b"]));
        // Not told of by two lists: it was deleted meanwhile.
        watched.observe(watcher::Event::Init);
        assert_eq!(watched.observe(watcher::Event::InitDone).len(), 1);
        watched.observe(watcher::Event::Delete(pod("c")));
        watched.wrote(pod("c"));
        assert!(known(&watched).is_empty());
    }
}
