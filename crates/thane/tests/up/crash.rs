//! `kill -9` while clients write.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::future::join_all;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};

use crate::place::Place;
use crate::running::Running;

const WRITERS: usize = 8;
/// Acknowledged writes after which the process is killed, in each round.
const STORM: [usize; 4] = [40, 150, 90, 220];
const PATIENCE: Duration = Duration::from_mins(4);

fn config_map(name: &str, value: usize) -> ConfigMap {
    let data = BTreeMap::from([("value".to_owned(), value.to_string())]);
    let metadata = kube::core::ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
    ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
}

fn value(object: &ConfigMap) -> usize {
    object.data.as_ref().unwrap()["value"].parse().unwrap()
}

/// Creates objects and counts in another until the server is gone; notes what was acknowledged.
async fn write(api: Api<ConfigMap>, prefix: String, acknowledged: tokio::sync::mpsc::Sender<(String, usize)>) {
    let counter = format!("{prefix}-counter");
    let params = PostParams::default();
    let Ok(mut current) = api.create(&params, &config_map(&counter, 0)).await else { return };
    for number in 1.. {
        let name = format!("{prefix}-{number}");
        let Ok(created) = api.create(&params, &config_map(&name, number)).await else { return };
        let _ = acknowledged.send((created.name_any(), number)).await;
        current.data = config_map(&counter, number).data;
        let Ok(updated) = api.replace(&counter, &params, &current).await else { return };
        current = updated;
        let _ = acknowledged.send((counter.clone(), number)).await;
    }
}

/// Follows from a version until the watch ends or `last` was seen; the version and objects it saw, none after 410.
async fn follow(api: &Api<ConfigMap>, from: &str, last: Option<&str>) -> Option<(String, Vec<(String, usize)>)> {
    let (mut version, mut seen) = (from.to_owned(), Vec::new());
    let Ok(events) = api.watch(&WatchParams::default(), from).await else { return Some((version, seen)) };
    let mut events = pin!(events);
    while let Some(Ok(event)) = events.next().await {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                version = object.resource_version().unwrap();
                let name = object.name_any();
                let over = Some(name.as_str()) == last;
                if object.data.as_ref().is_some_and(|data| data.contains_key("value")) {
                    seen.push((name, value(&object)));
                }
                if over {
                    break;
                }
            }
            WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
            WatchEvent::Error(status) if status.code == 410 => return None,
            other => panic!("{other:?}"),
        }
    }
    Some((version, seen))
}

/// Writes until enough is acknowledged, kills the server, and gives back what was acknowledged and watched.
async fn storm(
    running: Running,
    round: usize,
    enough: usize,
    from: &str,
) -> (BTreeMap<String, usize>, Option<(String, Vec<(String, usize)>)>) {
    let client: Client = running.client("hub").await;
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let writers = (0..WRITERS).map(|writer| write(api.clone(), format!("r{round}-w{writer}"), sender.clone()));
    let writers = join_all(writers.collect::<Vec<_>>());
    drop(sender);
    let collect = async {
        let (mut acknowledged, mut running) = (BTreeMap::new(), Some(running));
        while let Some((name, value)) = receiver.recv().await {
            acknowledged.insert(name, value);
            if acknowledged.len() >= enough
                && let Some(running) = running.take()
            {
                running.kill();
            }
        }
        acknowledged
    };
    let (_, watched, acknowledged) = tokio::join!(writers, follow(&api, from, None), collect);
    (acknowledged, watched)
}

async fn rounds() {
    let place = Place::new();
    let mut acknowledged: BTreeMap<String, usize> = BTreeMap::new();
    let mut running = Running::start(&place, &["--clusters", "0"]);
    let mut resumed = 0;
    for (round, enough) in STORM.into_iter().enumerate() {
        let api: Api<ConfigMap> = Api::namespaced(running.client("hub").await, "default");
        let from = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        let (more, watched) = storm(running, round, enough, &from).await;
        assert!(more.len() >= enough);
        acknowledged.extend(more);

        running = Running::start(&place, &["--clusters", "0"]);
        let api: Api<ConfigMap> = Api::namespaced(running.client("hub").await, "default");
        let found = api.list(&ListParams::default()).await.unwrap();
        let found: BTreeMap<String, usize> = found
            .iter()
            .filter(|object| object.name_any().starts_with('r'))
            .map(|o| (o.name_any(), value(o)))
            .collect();
        for (name, value) in &acknowledged {
            let kept = found.get(name).unwrap_or_else(|| panic!("{name} was acknowledged and is missing"));
            // What was under way may have happened without an answer.
            assert!(kept == value || (name.ends_with("counter") && *kept == value + 1), "{name}: {kept}, not {value}");
        }

        let Some((version, before)) = watched else { continue };
        let last = format!("s{round}");
        api.create(&PostParams::default(), &config_map(&last, 0)).await.unwrap();
        let Some((_, after)) = follow(&api, &version, Some(&last)).await else { continue };
        check_watch(round, before.into_iter().chain(after).collect(), &found);
        resumed += 1;
    }
    // a watch may be told that its place is gone, but not every one
    assert!(resumed >= STORM.len() / 2, "only {resumed} of {} watches went on", STORM.len());
    running.kill();
}

/// A watch that was resumed has seen every object of the round once, and every value of the counters in order.
fn check_watch(round: usize, seen: Vec<(String, usize)>, found: &BTreeMap<String, usize>) {
    let mut counters: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut objects = BTreeSet::new();
    for (name, value) in seen {
        if name.ends_with("counter") {
            counters.entry(name).or_default().push(value);
        } else {
            assert!(objects.insert(name.clone()), "{name} was seen twice");
        }
    }
    let prefix = format!("r{round}-");
    for (name, value) in found.iter().filter(|(name, _)| name.starts_with(&prefix)) {
        if name.ends_with("counter") {
            assert_eq!(counters[name], (0..=*value).collect::<Vec<_>>(), "{name}");
        } else {
            assert!(objects.contains(name), "{name} was never seen");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_watches_resume() {
    let done = tokio::time::timeout(PATIENCE, rounds()).map(|result| result.is_ok()).await;
    assert!(done, "it takes too long");
}
