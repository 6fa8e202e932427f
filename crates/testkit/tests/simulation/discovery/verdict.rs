//! Whether everybody has come to the same, and nothing was lost, doubled or brought back.

use std::collections::BTreeMap;

use thane_discovery::model::Status;
use thane_discovery::topic::{Row, Topic};

use super::book::{Instance, View};
use super::hosts::World;
use super::keys;

/// What is wrong; empty if nothing is.
pub(super) fn differences(world: &World) -> Vec<String> {
    let views = world.book.views.lock().clone();
    let Some(hub) = views.get("hub") else { return vec!["the hub shows nothing".to_owned()] };
    let mut wrong = Vec::new();
    for place in &world.agents {
        let Some(view) = views.get(&place.name) else {
            wrong.push(format!("{} shows nothing", place.name));
            continue;
        };
        for (topic, data) in &hub.topics {
            match view.topics.get(topic) {
                Some(own) if own == data => {}
                own => wrong.push(format!("{}: {topic:?} is\n  {own:?}\n  hub: {data:?}", place.name)),
            }
        }
        if view.pending > 0 {
            wrong.push(format!("{} has {} items that the hub has not", place.name, view.pending));
        }
        local(world, &place.name, view, hub, &mut wrong);
    }
    shared(world, hub, &mut wrong);
    wrong
}

/// What is registered with an agent is what users were told, and what the hub has.
fn local(world: &World, node: &str, view: &View, hub: &View, wrong: &mut Vec<String>) {
    let beliefs = world.book.services.lock();
    for ((_, id), belief) in beliefs.iter().filter(|((of, _), _)| of == node) {
        let has = view.services.get(id);
        if !belief.allows(has) {
            wrong.push(format!("{node}: {id} is {has:?}, and was told to be {belief:?}"));
        }
    }
    let rows = hub.topics.get(&Topic::Node(node.to_owned())).map(|data| data.rows.as_slice()).unwrap_or_default();
    let mut instances: BTreeMap<String, Instance> = BTreeMap::new();
    let mut checks: BTreeMap<String, Status> = BTreeMap::new();
    for row in rows {
        match row {
            Row::Instance(it) => {
                let service = &it.service.value;
                instances.insert(service.id.clone(), (service.name.clone(), service.port));
                let own = it.checks.iter().filter(|check| !check.value.service_id.is_empty());
                checks.extend(own.map(|check| (check.value.id.clone(), check.value.status)));
            }
            Row::Check(_, check) if check.value.status != Status::Passing => {
                wrong.push(format!("{node}: {} is {}", check.value.id, check.value.status));
            }
            _ => {}
        }
    }
    if instances != view.services {
        wrong.push(format!("{node} has\n  {:?}\n  hub: {instances:?}", view.services));
    }
    if checks != view.checks {
        wrong.push(format!("{node} has\n  {:?}\n  hub: {checks:?}", view.checks));
    }
}

/// Keys are what their writers were told, and the counter has counted every success once.
fn shared(world: &World, hub: &View, wrong: &mut Vec<String>) {
    let Some(data) = hub.topics.get(&Topic::Keys(String::new())) else {
        wrong.push("the hub shows no keys".to_owned());
        return;
    };
    for (key, belief) in world.book.keys.lock().iter() {
        let has = keys::number(data, key);
        if !belief.allows(has.as_ref()) {
            wrong.push(format!("{key} is {has:?}, and was told to be {belief:?}"));
        }
    }
    let (surely, perhaps) = *world.book.counted.lock();
    let counted = keys::number(data, keys::COUNTER).unwrap_or(0);
    if !(surely..=surely + perhaps).contains(&counted) {
        wrong.push(format!("the counter is {counted}, after {surely} to {} increments", surely + perhaps));
    }
}
