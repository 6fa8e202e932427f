//! What is registered with this agent, and what a change makes of it. Pure.

mod edit;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::checks::plan;
use super::pending::ItemKey;
use crate::command::{Item, Refusal};
use crate::model::{Check, CheckDefinition, Service, Status};

pub use edit::{CHECKS, Change, Edit, Effect, Observed, ReplaceChecks, SERVICES};

/// Instances, and checks, that one agent holds.
pub const ITEMS_MAX: usize = 10_000;
const NODE_MAINTENANCE: &str = "_node_maintenance";
const SERVICE_MAINTENANCE: &str = "_service_maintenance";
const MAINTENANCE: &str = "maintenance";

/// A check with what the hub is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// As it is.
    pub check: Arc<Check>,
    /// As the hub is told: an output that changed alone is told later.
    pub told: Arc<Check>,
    /// Which life of the check this is: what an earlier one still says is not believed.
    pub generation: u64,
}

/// What is registered with this agent.
#[derive(Debug, Clone, Default)]
pub struct State {
    services: BTreeMap<String, Arc<Service>>,
    checks: BTreeMap<String, Kept>,
    generation: u64,
}

impl State {
    /// What was kept; a check whose instance is not there is left out.
    pub fn restore(services: Vec<Service>, checks: Vec<Check>) -> Self {
        let services: BTreeMap<_, _> = services.into_iter().map(|it| (it.id.clone(), Arc::new(it))).collect();
        let mut state = Self { services, ..Self::default() };
        for check in checks {
            if check.service_id.is_empty() || state.services.contains_key(&check.service_id) {
                state.generation += 1;
                let check = Arc::new(check);
                let kept = Kept { told: Arc::clone(&check), generation: state.generation, check };
                state.checks.insert(kept.check.id.clone(), kept);
            }
        }
        state
    }

    /// The instances.
    pub fn services(&self) -> &BTreeMap<String, Arc<Service>> {
        &self.services
    }

    /// The checks.
    pub fn checks(&self) -> &BTreeMap<String, Kept> {
        &self.checks
    }

    /// The item as the hub is told of it now.
    pub fn item(&self, key: &ItemKey) -> Item {
        match key {
            ItemKey::Service(id) => self.services.get(id).map_or_else(
                || Item::NoService(id.clone()),
                |service| Item::Service(Box::new(service.as_ref().clone())),
            ),
            ItemKey::Check(id) => self
                .checks
                .get(id)
                .map_or_else(|| Item::NoCheck(id.clone()), |kept| Item::Check(Box::new(kept.told.as_ref().clone()))),
        }
    }

    /// Every item.
    pub fn keys(&self) -> Vec<ItemKey> {
        let services = self.services.keys().cloned().map(ItemKey::Service);
        services.chain(self.checks.keys().cloned().map(ItemKey::Check)).collect()
    }

    /// What a change makes of it, or why not.
    pub fn decide(&self, change: Change, is_script_allowed: bool) -> Result<Vec<Edit>, Refusal> {
        match change {
            Change::Register(service, checks, replace) => self.register(*service, checks, replace, is_script_allowed),
            Change::Deregister(id) => self.deregister(&id),
            Change::RegisterCheck(check) => {
                let check = self.of_known_service(*check)?;
                plan::admit(&check, is_script_allowed)?;
                Ok(self.put_check(check)?.into_iter().collect())
            }
            Change::DeregisterCheck(id) if self.checks.contains_key(&id) => Ok(vec![Edit::NoCheck(id)]),
            Change::DeregisterCheck(id) => Err(unknown_check(&id)),
            Change::Maintain(id, reason) => self.maintain(id.as_deref(), reason),
            Change::Observed(observed) => Ok(self.observe(observed).into_iter().collect()),
        }
    }

    /// Takes an edit over.
    pub fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Service(service) => drop(self.services.insert(service.id.clone(), Arc::clone(service))),
            Edit::NoService(id) => drop(self.services.remove(id)),
            Edit::Check(kept, _) => {
                self.generation = self.generation.max(kept.generation);
                self.checks.insert(kept.check.id.clone(), kept.clone());
            }
            Edit::NoCheck(id) => drop(self.checks.remove(id)),
        }
    }

    fn register(
        &self,
        mut service: Service,
        checks: Vec<Check>,
        replace: ReplaceChecks,
        is_script_allowed: bool,
    ) -> Result<Vec<Edit>, Refusal> {
        if service.name.is_empty() {
            return Err(Refusal::Invalid("Missing service name".to_owned()));
        }
        if service.id.is_empty() {
            service.id.clone_from(&service.name);
        }
        let is_new = !self.services.contains_key(&service.id);
        if is_new && self.services.len() >= ITEMS_MAX {
            return Err(Refusal::Busy(format!("this agent holds {ITEMS_MAX} services already")));
        }
        let count = checks.len();
        let mut edits = Vec::new();
        let mut named = Vec::new();
        if self.services.get(&service.id).is_none_or(|known| **known != service) {
            edits.push(Edit::Service(Arc::new(service.clone())));
        }
        let mut after = self.clone_for(&service);
        for (place, mut check) in checks.into_iter().enumerate() {
            if check.id.is_empty() {
                check.id = match count {
                    1 => format!("service:{}", service.id),
                    _ => format!("service:{}:{}", service.id, place + 1),
                };
            }
            if check.name.is_empty() {
                check.name = format!("Service '{}' check", service.name);
            }
            belongs_to(&mut check, &service);
            plan::admit(&check, is_script_allowed)?;
            named.push(check.id.clone());
            if let Some(edit) = after.put_check(check)? {
                after.apply(&edit);
                edits.push(edit);
            }
        }
        for kept in self.checks.values().filter(|kept| kept.check.service_id == service.id) {
            if named.contains(&kept.check.id) {
                continue;
            }
            if replace == ReplaceChecks::Yes && kept.check.kind != MAINTENANCE {
                edits.push(Edit::NoCheck(kept.check.id.clone()));
                continue;
            }
            let mut check = kept.check.as_ref().clone();
            belongs_to(&mut check, &service);
            edits.extend(after.put_check(check)?);
        }
        Ok(edits)
    }

    /// What checks of a service are decided against: a service of many checks counts its own.
    fn clone_for(&self, service: &Service) -> Self {
        let of_it = |kept: &&Kept| kept.check.service_id == service.id;
        let checks = if self.checks.len() + 128 < ITEMS_MAX {
            self.checks.values().filter(of_it).map(|kept| (kept.check.id.clone(), kept.clone())).collect()
        } else {
            self.checks.clone()
        };
        Self { services: BTreeMap::new(), checks, generation: self.generation }
    }

    fn deregister(&self, id: &str) -> Result<Vec<Edit>, Refusal> {
        if !self.services.contains_key(id) {
            return Err(unknown_service(id));
        }
        let checks = self.checks.values().filter(|kept| kept.check.service_id == id);
        let mut edits: Vec<Edit> = checks.map(|kept| Edit::NoCheck(kept.check.id.clone())).collect();
        edits.push(Edit::NoService(id.to_owned()));
        Ok(edits)
    }

    fn of_known_service(&self, mut check: Check) -> Result<Check, Refusal> {
        if check.id.is_empty() {
            check.id.clone_from(&check.name);
        }
        if check.id.is_empty() {
            return Err(Refusal::Invalid("Missing check name".to_owned()));
        }
        if !check.service_id.is_empty() {
            let service = self
                .services
                .get(&check.service_id)
                .ok_or_else(|| Refusal::NotFound(format!("ServiceID {:?} does not exist", check.service_id)))?;
            belongs_to(&mut check, service);
        }
        Ok(check)
    }

    /// A check in place of what is there. How it stands is kept: registering again is no reason to flap.
    fn put_check(&self, mut check: Check) -> Result<Option<Edit>, Refusal> {
        if check.kind.is_empty()
            && let Ok(kind) = plan::kind(&check)
        {
            kind.as_str().clone_into(&mut check.kind);
        }
        let known = self.checks.get(&check.id);
        if known.is_none() && self.checks.len() >= ITEMS_MAX {
            return Err(Refusal::Busy(format!("this agent holds {ITEMS_MAX} checks already")));
        }
        if let Some(known) = known
            && check.status == Status::Critical
        {
            check.status = known.check.status;
            check.output.clone_from(&known.check.output);
        }
        if known.is_some_and(|known| *known.check == check) {
            return Ok(None);
        }
        let same_run = known.filter(|known| {
            known.check.definition == check.definition
                && known.check.status == check.status
                && known.check.service_id == check.service_id
        });
        let generation = same_run.map_or(self.generation + 1, |known| known.generation);
        let check = Arc::new(check);
        let effect = Effect { keep: true, tell: true, run: same_run.is_none() };
        Ok(Some(Edit::Check(Kept { told: Arc::clone(&check), check, generation }, effect)))
    }

    fn maintain(&self, id: Option<&str>, reason: Option<String>) -> Result<Vec<Edit>, Refusal> {
        let (check_id, what, name) = match id {
            Some(id) => (format!("{SERVICE_MAINTENANCE}:{id}"), "service", "Service Maintenance Mode"),
            None => (NODE_MAINTENANCE.to_owned(), "node", "Node Maintenance Mode"),
        };
        let service = match id {
            Some(id) => Some(self.services.get(id).ok_or_else(|| unknown_service(id))?),
            None => None,
        };
        let is_on = self.checks.contains_key(&check_id);
        let Some(reason) = reason else {
            return Ok(if is_on { vec![Edit::NoCheck(check_id)] } else { Vec::new() });
        };
        if is_on {
            return Ok(Vec::new());
        }
        let default = format!(
            "Maintenance mode is enabled for this {what}, but no reason was provided. This is a default message."
        );
        let mut check = Check {
            id: check_id,
            name: name.to_owned(),
            status: Status::Critical,
            notes: if reason.is_empty() { default } else { reason },
            output: String::new(),
            service_id: String::new(),
            service_name: String::new(),
            service_tags: Vec::new(),
            kind: MAINTENANCE.to_owned(),
            definition: CheckDefinition::default(),
        };
        if let Some(service) = service {
            belongs_to(&mut check, service);
        }
        Ok(self.put_check(check)?.into_iter().collect())
    }

    fn observe(&self, observed: Observed) -> Option<Edit> {
        let kept = self.checks.get(&observed.id).filter(|kept| kept.generation == observed.generation)?;
        let is_turn = kept.check.status != observed.status;
        let mut check = kept.check.as_ref().clone();
        check.status = observed.status;
        check.output = observed.output;
        let check = Arc::new(check);
        let tell = is_turn || observed.tell;
        let told = if tell { Arc::clone(&check) } else { Arc::clone(&kept.told) };
        Some(Edit::Check(Kept { check, told, generation: kept.generation }, Effect { keep: is_turn, tell, run: false }))
    }
}

/// There is no such instance here.
pub fn unknown_service(id: &str) -> Refusal {
    Refusal::NotFound(format!("Unknown service ID {id:?}. Ensure that the service ID is passed, not the service name."))
}

/// There is no such check here.
pub fn unknown_check(id: &str) -> Refusal {
    Refusal::NotFound(format!("Unknown check ID {id:?}. Ensure that the check ID is passed, not the check name."))
}

fn belongs_to(check: &mut Check, service: &Service) {
    check.service_id.clone_from(&service.id);
    check.service_name.clone_from(&service.name);
    check.service_tags.clone_from(&service.tags);
}

#[cfg(test)]
mod tests;
