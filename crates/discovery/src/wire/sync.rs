//! What changed since an index, once: the answer to a pull.

use thane_api::wire::discovery as wire;
use thane_api::wire::discovery::UpdateType;

use super::convert;
use crate::hub::Registry;
use crate::model::Index;
use crate::topic::{Delta, Row, Topic};

/// Prefixes one pull may name.
const PREFIXES_MAX: usize = 1000;

/// The answer. With prefixes it is about keys that begin so, without about everything.
pub(super) async fn answer(registry: &Registry, request: &wire::SyncRequest) -> Result<wire::SyncResponse, String> {
    if request.watched_prefixes.len() > PREFIXES_MAX {
        return Err(format!("at most {PREFIXES_MAX} prefixes may be watched"));
    }
    let current_index = convert::signed(registry.index());
    let since = if request.full_sync { 0 } else { convert::index(request.last_sync_index) };
    let since = if since > registry.index() { 0 } else { since };
    let mut answer = wire::SyncResponse { current_index, ..wire::SyncResponse::default() };
    for prefix in &request.watched_prefixes {
        keys(&registry.delta(&Topic::Keys(prefix.clone()), since).await, since, &mut answer);
    }
    if request.watched_prefixes.is_empty() {
        keys(&registry.delta(&Topic::Keys(String::new()), since).await, since, &mut answer);
        services(&registry.delta(&Topic::Instances, since).await, since, &mut answer);
        checks(&registry.delta(&Topic::Checks, since).await, since, &mut answer);
    }
    Ok(answer)
}

fn kind(create_index: Index, since: Index) -> UpdateType {
    if create_index > since { UpdateType::Add } else { UpdateType::Update }
}

fn keys(delta: &Delta, since: Index, answer: &mut wire::SyncResponse) {
    for row in &delta.changed {
        let Row::Key(entry) = row else { continue };
        answer.kv_updates.push(wire::KvUpdate {
            r#type: kind(entry.create_index, since).into(),
            key: entry.value.key.clone(),
            value: entry.value.value.clone(),
            flags: entry.value.flags,
            create_index: entry.create_index,
            modify_index: entry.modify_index,
            lock_index: entry.value.lock_index,
            session: entry.value.session.clone().unwrap_or_default(),
        });
    }
    for key in &delta.removed {
        answer.kv_updates.push(wire::KvUpdate {
            r#type: UpdateType::Delete.into(),
            key: key.1.clone(),
            modify_index: delta.index,
            ..wire::KvUpdate::default()
        });
    }
}

fn services(delta: &Delta, since: Index, answer: &mut wire::SyncResponse) {
    for row in &delta.changed {
        let Row::Instance(instance) = row else { continue };
        let service = &instance.service;
        answer.service_updates.push(wire::ServiceUpdate {
            r#type: kind(service.create_index, since).into(),
            service_name: service.value.name.clone(),
            service_data: Some(convert::service(&service.value, Some(&instance.node.value))),
        });
    }
    for key in &delta.removed {
        let gone = wire::Service { node: key.1.clone(), id: key.2.clone(), ..wire::Service::default() };
        answer.service_updates.push(wire::ServiceUpdate {
            r#type: UpdateType::Delete.into(),
            service_name: String::new(),
            service_data: Some(gone),
        });
    }
}

fn checks(delta: &Delta, since: Index, answer: &mut wire::SyncResponse) {
    for row in &delta.changed {
        let Row::Check(node, check) = row else { continue };
        answer.health_updates.push(convert::check(kind(check.create_index, since), node, &check.value));
    }
    answer.health_updates.extend(delta.removed.iter().map(|key| convert::no_check(&key.1, &key.2)));
}
