//! What is registered with this agent, and what a change makes of it. Pure.

mod edit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::checks::plan;
use super::pending::ItemKey;
use crate::command::{Item, Refusal};
use crate::model::{Check, Definition, Service, Status};

pub use edit::{CHECKS, Change, Edit, Effect, Observed, ReplaceChecks, SERVICES};

/// Instances, and checks, that one agent holds.
pub const ITEMS_MAX: usize = 10_000;
/// Checks that one instance has.
pub const CHECKS_MAX: usize = 512;
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
    /// Ids of checks by the instance they are about; empty: the node.
    about: BTreeMap<String, BTreeSet<String>>,
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
                state.put(Kept { told: Arc::clone(&check), generation: state.generation, check });
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

    /// The checks about an instance, or, without id, about the node; by id.
    pub fn checks_about<'a>(&'a self, service_id: &str) -> impl Iterator<Item = &'a Kept> + use<'a> {
        self.about.get(service_id).into_iter().flatten().filter_map(move |id| self.checks.get(id))
    }

    /// How many things a change touches at most.
    pub fn weight(&self, change: &Change) -> usize {
        let about = |id: &str| self.about.get(id).map_or(0, BTreeSet::len);
        match change {
            Change::Register(service, checks, _) => 1 + checks.len() + about(service_id(service)),
            Change::Deregister(id) => 1 + about(id),
            _ => 1,
        }
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
                let is_more = self.checks.get(&check.id).is_none_or(|known| known.check.service_id != check.service_id);
                if is_more && !check.service_id.is_empty() {
                    room_for(self.checks_about(&check.service_id).count() + 1)?;
                }
                Ok(self.put_check(check, &BTreeMap::new())?.into_iter().collect())
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
                self.put(kept.clone());
            }
            Edit::NoCheck(id) => {
                if let Some(gone) = self.checks.remove(id) {
                    self.unrelate(&gone.check);
                }
            }
        }
    }

    fn put(&mut self, kept: Kept) {
        let (id, about) = (kept.check.id.clone(), kept.check.service_id.clone());
        match self.checks.insert(id.clone(), kept) {
            Some(before) if before.check.service_id == about => return,
            Some(before) => self.unrelate(&before.check),
            None => {}
        }
        self.about.entry(about).or_default().insert(id);
    }

    fn unrelate(&mut self, check: &Check) {
        if let Some(ids) = self.about.get_mut(&check.service_id) {
            ids.remove(&check.id);
            if ids.is_empty() {
                self.about.remove(&check.service_id);
            }
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
        service.id = service_id(&service).to_owned();
        let is_new = !self.services.contains_key(&service.id);
        if is_new && self.services.len() >= ITEMS_MAX {
            return Err(Refusal::Busy(format!("this agent holds {ITEMS_MAX} services already")));
        }
        let mut edits = Vec::new();
        if self.services.get(&service.id).is_none_or(|known| **known != service) {
            edits.push(Edit::Service(Arc::new(service.clone())));
        }
        // As they are after what was decided so far: one id may be named twice.
        let mut drafted: BTreeMap<String, Kept> = BTreeMap::new();
        let mut named = BTreeSet::new();
        let ids = check_ids(&service, &checks);
        for (mut check, id) in checks.into_iter().zip(ids) {
            check.id = id;
            if check.name.is_empty() {
                check.name = format!("Service '{}' check", service.name);
            }
            belongs_to(&mut check, &service);
            plan::admit(&check, is_script_allowed)?;
            named.insert(check.id.clone());
            edits.extend(self.draft(check, &mut drafted)?);
        }
        let mut count = named.len();
        for kept in self.checks_about(&service.id).filter(|kept| !named.contains(&kept.check.id)) {
            if replace == ReplaceChecks::Yes && kept.check.kind != MAINTENANCE {
                edits.push(Edit::NoCheck(kept.check.id.clone()));
                continue;
            }
            count += 1;
            let mut check = kept.check.as_ref().clone();
            belongs_to(&mut check, &service);
            edits.extend(self.draft(check, &mut drafted)?);
        }
        room_for(count)?;
        Ok(edits)
    }

    fn draft(&self, check: Check, drafted: &mut BTreeMap<String, Kept>) -> Result<Option<Edit>, Refusal> {
        let edit = self.put_check(check, drafted)?;
        if let Some(Edit::Check(kept, _)) = &edit {
            drafted.insert(kept.check.id.clone(), kept.clone());
        }
        Ok(edit)
    }

    fn deregister(&self, id: &str) -> Result<Vec<Edit>, Refusal> {
        if !self.services.contains_key(id) {
            return Err(unknown_service(id));
        }
        let checks = self.checks_about(id);
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
    fn put_check(&self, mut check: Check, drafted: &BTreeMap<String, Kept>) -> Result<Option<Edit>, Refusal> {
        if check.kind.is_empty()
            && let Ok(kind) = plan::kind(&check)
        {
            kind.as_str().clone_into(&mut check.kind);
        }
        let known = drafted.get(&check.id).or_else(|| self.checks.get(&check.id));
        let is_new = |id: &&String| !self.checks.contains_key(*id);
        if known.is_none() && self.checks.len() + drafted.keys().filter(is_new).count() >= ITEMS_MAX {
            return Err(Refusal::Busy(format!("this agent holds {ITEMS_MAX} checks already")));
        }
        if let Some(known) = known
            && check.status == Status::Critical
            && check.service_id == known.check.service_id
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
        let newest = drafted.values().map(|kept| kept.generation).fold(self.generation, u64::max);
        let generation = same_run.map_or(newest + 1, |known| known.generation);
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
            definition: Definition::default(),
        };
        if let Some(service) = service {
            belongs_to(&mut check, service);
        }
        Ok(self.put_check(check, &BTreeMap::new())?.into_iter().collect())
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

/// The id of an instance: without one, its name.
fn service_id(service: &Service) -> &str {
    if service.id.is_empty() { &service.name } else { &service.id }
}

/// The ids that the checks of a registration get.
pub fn check_ids(service: &Service, checks: &[Check]) -> Vec<String> {
    let of = service_id(service);
    let id = |(place, check): (usize, &Check)| match (check.id.as_str(), checks.len()) {
        ("", 1) => format!("service:{of}"),
        ("", _) => format!("service:{of}:{}", place + 1),
        (id, _) => id.to_owned(),
    };
    checks.iter().enumerate().map(id).collect()
}

fn room_for(checks: usize) -> Result<(), Refusal> {
    if checks > CHECKS_MAX {
        return Err(Refusal::Invalid(format!("a service has at most {CHECKS_MAX} checks")));
    }
    Ok(())
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
