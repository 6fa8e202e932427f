//! An agent that only remembers.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;

use crate::backend::{Backend, Caller, Consistency, LocalAgent, LocalService, Place, Reading, Unavailable, Wake};
use crate::command::{Command, Done, Refusal};
use crate::hub::Registry;
use crate::model::{Check, Service, Status};
use crate::topic::Topic;

/// A registry with an agent beside it that tells it nothing.
pub(super) struct Beside {
    pub(super) registry: Arc<Registry>,
    services: Mutex<Arc<BTreeMap<String, LocalService>>>,
    checks: Mutex<Arc<BTreeMap<String, Arc<Check>>>>,
}

impl Beside {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Self { registry, services: Mutex::default(), checks: Mutex::default() }
    }

    fn edit(&self, edit: impl FnOnce(&mut BTreeMap<String, Arc<Check>>)) {
        edit(Arc::make_mut(&mut self.checks.lock()));
    }
}

impl Backend for Beside {
    fn ready(&self, topic: &Topic, consistency: Consistency) -> Option<Reading> {
        self.registry.ready(topic, consistency)
    }

    fn read<'a>(&'a self, topic: &'a Topic, consistency: Consistency) -> BoxFuture<'a, Result<Reading, Unavailable>> {
        self.registry.read(topic, consistency)
    }

    fn wake(&self, topic: &Topic) -> Wake {
        self.registry.wake(topic)
    }

    fn write<'a>(&'a self, caller: &'a Caller, command: Command) -> BoxFuture<'a, Result<Done, Refusal>> {
        self.registry.write(caller, command)
    }

    fn now(&self) -> jiff::Timestamp {
        self.registry.now()
    }

    fn local(&self) -> Option<&dyn LocalAgent> {
        Some(self)
    }

    fn place(&self) -> &Place {
        self.registry.place()
    }
}

impl LocalAgent for Beside {
    fn services(&self) -> Arc<BTreeMap<String, LocalService>> {
        Arc::clone(&self.services.lock())
    }

    fn checks(&self) -> Arc<BTreeMap<String, Arc<Check>>> {
        Arc::clone(&self.checks.lock())
    }

    fn register(&self, service: Service, checks: Vec<Check>, replace: bool) -> BoxFuture<'_, Result<(), Refusal>> {
        self.edit(|all| {
            all.retain(|_, check| !replace || check.service_id != service.id);
            all.extend(checks.into_iter().map(|check| (check.id.clone(), Arc::new(check))));
        });
        let known = LocalService { service: Arc::new(service), in_step: false };
        Arc::make_mut(&mut self.services.lock()).insert(known.service.id.clone(), known);
        Box::pin(ready(Ok(())))
    }

    fn deregister<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), Refusal>> {
        Arc::make_mut(&mut self.services.lock()).remove(id);
        self.edit(|all| all.retain(|_, check| check.service_id != id));
        Box::pin(ready(Ok(())))
    }

    fn register_check(&self, check: Check) -> BoxFuture<'_, Result<(), Refusal>> {
        self.edit(|all| drop(all.insert(check.id.clone(), Arc::new(check))));
        Box::pin(ready(Ok(())))
    }

    fn deregister_check<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), Refusal>> {
        self.edit(|all| drop(all.remove(id)));
        Box::pin(ready(Ok(())))
    }

    fn update_check<'a>(&'a self, id: &'a str, status: Status, output: String) -> BoxFuture<'a, Result<(), Refusal>> {
        self.edit(|all| {
            if let Some(check) = all.get_mut(id).map(Arc::make_mut) {
                (check.status, check.output) = (status, output);
            }
        });
        Box::pin(ready(Ok(())))
    }

    fn maintain<'a>(
        &'a self,
        id: Option<&'a str>,
        enable: bool,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        let service_id = id.unwrap_or_default().to_owned();
        let check_id = id.map_or("_node_maintenance".to_owned(), |id| format!("_service_maintenance:{id}"));
        self.edit(|all| {
            all.remove(&check_id);
            if enable {
                let check = Check {
                    id: check_id.clone(),
                    name: "Maintenance Mode".to_owned(),
                    status: Status::Critical,
                    notes: reason.to_owned(),
                    output: String::new(),
                    service_id,
                    service_name: String::new(),
                    service_tags: Vec::new(),
                    kind: "maintenance".to_owned(),
                    definition: crate::model::Definition::default(),
                };
                all.insert(check_id, Arc::new(check));
            }
        });
        Box::pin(ready(Ok(())))
    }

    fn reload(&self) -> BoxFuture<'_, Result<Vec<&'static str>, Refusal>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn changed(&self) -> Wake {
        self.registry.wake(&Topic::Nodes)
    }
}
