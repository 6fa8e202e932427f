//! What the API says about pods and pools, told to the hall.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use thane_runtime::Tasks;
use tokio::sync::watch;

use super::PoolAt;
use super::hall::Hall;
use crate::kinds::WarmPool;
use crate::{names, pods};

/// Follows the pods of all pools, until the tasks end.
pub(super) async fn pods(client: Client, hall: Arc<Hall>, synced: watch::Sender<bool>, tasks: Tasks) {
    let api: Api<Pod> = Api::all(client);
    let stream = watcher(api, watcher::Config::default().labels(names::POOL)).default_backoff();
    let mut stream = std::pin::pin!(stream);
    let mut listed = BTreeSet::new();
    loop {
        let event = tokio::select! {
            event = stream.try_next() => event,
            () = tasks.cancelled() => return,
        };
        match event {
            Ok(Some(watcher::Event::Init)) => listed.clear(),
            Ok(Some(watcher::Event::InitApply(pod))) => {
                listed.insert(pods::uid(&pod).to_owned());
                hall.saw(&pod);
            }
            Ok(Some(watcher::Event::InitDone)) => {
                hall.only(&listed);
                synced.send_replace(true);
            }
            Ok(Some(watcher::Event::Apply(pod))) => hall.saw(&pod),
            Ok(Some(watcher::Event::Delete(pod))) => hall.forget(pods::uid(&pod)),
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "the watch of sandboxes' pods failed, trying again"),
        }
    }
}

/// Follows the pools, until the tasks end.
pub(super) async fn pools(client: Client, hall: Arc<Hall>, tasks: Tasks) {
    let api: Api<WarmPool> = Api::all(client);
    let stream = watcher(api, watcher::Config::default()).default_backoff();
    let mut stream = std::pin::pin!(stream);
    let mut listed = BTreeSet::new();
    loop {
        let event = tokio::select! {
            event = stream.try_next() => event,
            () = tasks.cancelled() => return,
        };
        match event {
            Ok(Some(watcher::Event::Init)) => listed.clear(),
            Ok(Some(watcher::Event::InitApply(pool))) => {
                listed.insert(PoolAt::of(&pool));
                hall.saw_pool(pool);
            }
            Ok(Some(watcher::Event::InitDone)) => hall.only_pools(&listed),
            Ok(Some(watcher::Event::Apply(pool))) => hall.saw_pool(pool),
            Ok(Some(watcher::Event::Delete(pool))) => hall.forget_pool(&PoolAt::of(&pool)),
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "the watch of pools failed, trying again"),
        }
    }
}
