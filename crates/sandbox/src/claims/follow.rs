//! What the API says about pods and pools, told to the hall.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::runtime::watcher::Event;
use thane_runtime::Tasks;
use tokio::sync::watch;

use super::PoolAt;
use super::hall::Hall;
use crate::kinds::WarmPool;
use crate::watched::follow;
use crate::{names, pods};

/// Follows the pods of all pools, until the tasks end.
pub(super) async fn pods(client: Client, hall: Arc<Hall>, synced: watch::Sender<bool>, tasks: Tasks) {
    let mut stream = follow::<Pod>(client, Some(names::POOL));
    let mut listed = BTreeSet::new();
    loop {
        let event = tokio::select! {
            event = stream.next() => event,
            () = tasks.cancelled() => return,
        };
        match event {
            Some(Event::Init) => listed.clear(),
            Some(Event::InitApply(pod)) => {
                listed.insert(pods::uid(&pod).to_owned());
                hall.saw(&pod);
            }
            Some(Event::InitDone) => {
                hall.only(&listed);
                synced.send_replace(true);
            }
            Some(Event::Apply(pod)) => hall.saw(&pod),
            Some(Event::Delete(pod)) => hall.forget(pods::uid(&pod)),
            None => return,
        }
    }
}

/// Follows the pools, until the tasks end.
pub(super) async fn pools(client: Client, hall: Arc<Hall>, tasks: Tasks) {
    let mut stream = follow::<WarmPool>(client, None);
    let mut listed = BTreeSet::new();
    loop {
        let event = tokio::select! {
            event = stream.next() => event,
            () = tasks.cancelled() => return,
        };
        match event {
            Some(Event::Init) => listed.clear(),
            Some(Event::InitApply(pool)) => {
                listed.insert(PoolAt::of(&pool));
                hall.saw_pool(pool);
            }
            Some(Event::InitDone) => hall.only_pools(&listed),
            Some(Event::Apply(pool)) => hall.saw_pool(pool),
            Some(Event::Delete(pool)) => hall.forget_pool(&PoolAt::of(&pool)),
            None => return,
        }
    }
}
