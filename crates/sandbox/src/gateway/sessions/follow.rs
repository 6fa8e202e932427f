//! The watch of Sandboxes.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::TryStreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use super::Session;
use crate::gateway::Shared;
use crate::kinds::Sandbox;

/// Follows the Sandboxes until the gateway ends.
pub(in crate::gateway) async fn follow(shared: Arc<Shared>) {
    let api: Api<Sandbox> = Api::all(shared.client.clone());
    let stream = watcher(api, watcher::Config::default()).default_backoff();
    let mut stream = std::pin::pin!(stream);
    let mut listed = BTreeSet::new();
    loop {
        let event = tokio::select! {
            () = shared.tasks.cancelled() => return,
            event = stream.try_next() => event,
        };
        match event {
            Ok(Some(event)) => observe(&shared, event, &mut listed),
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "the watch of sandboxes failed, trying again"),
        }
    }
}

fn observe(shared: &Shared, event: watcher::Event<Sandbox>, listed: &mut BTreeSet<(String, String)>) {
    match event {
        watcher::Event::Init => listed.clear(),
        watcher::Event::InitApply(sandbox) => {
            listed.insert((sandbox.name_any(), sandbox.namespace().unwrap_or_default()));
            shared.sessions.learn(Session::from(&sandbox));
        }
        watcher::Event::InitDone => {
            shared.sessions.keep(listed);
            listed.clear();
            shared.ready.send_replace(true);
        }
        watcher::Event::Apply(sandbox) => {
            shared.sessions.learn(Session::from(&sandbox));
        }
        watcher::Event::Delete(sandbox) => {
            let session = Session::from(&sandbox);
            let known = shared.sessions.forget(&session.id, &session.namespace);
            for pod in [session.pod, known.and_then(|known| known.pod.clone())].into_iter().flatten() {
                shared.sidecars.forget(&pod);
            }
        }
    }
}
