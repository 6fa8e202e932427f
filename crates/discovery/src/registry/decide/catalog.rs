//! Services and checks on nodes.

use std::net::IpAddr;

use super::node::check_node_id;
use crate::command::{Deregistration, Refusal, Registration};
use crate::model::{Check, Indexed, Node, Service, Status};
use crate::registry::draft::Draft;
use crate::registry::id::Id;
use crate::registry::thing::AgentRecord;

impl Draft<'_> {
    pub(super) fn register(&mut self, registration: &Registration) -> Result<(), Refusal> {
        let Registration { node, keep_node, service, checks } = registration;
        if node.name.is_empty() {
            return Err(Refusal::Failed("Must provide node".to_owned()));
        }
        if node.address.is_empty() && !keep_node {
            return Err(Refusal::Failed("Must provide address if SkipNodeUpdate is not set".to_owned()));
        }
        check_node_id(node)?;
        if let Some(service) = service {
            check_service(service)?;
        }
        let name = node.name.to_lowercase();
        self.check_owner(&name)?;
        let known = self.node(&name).map(|node| node.value.owner.clone());
        if known.is_none() || !keep_node {
            let node = Node { owner: known.flatten(), ..node.clone() };
            self.put_node(&node).map_err(|refusal| within("failed inserting node", refusal))?;
        }
        if let Some(service) = service {
            self.put_service(&name, service).map_err(|refusal| within("failed inserting service", refusal))?;
        }
        for check in checks {
            if !check.service_id.is_empty() && self.service(&name, &check.service_id).is_none() {
                let (service, check) = (&check.service_id, &check.id);
                return Err(Refusal::Failed(format!("Unknown service ID '{service}' for check ID '{check}'")));
            }
            let what = format!("failed inserting check on node {:?}", node.name);
            self.put_check(&name, check).map_err(|refusal| within(&what, refusal))?;
        }
        Ok(())
    }

    pub(super) fn deregister(&mut self, deregistration: &Deregistration) -> Result<(), Refusal> {
        let Deregistration { node, service_id, check_id } = deregistration;
        if node.is_empty() {
            return Err(Refusal::Failed("Must provide node".to_owned()));
        }
        let node = node.to_lowercase();
        if !self.is_abandoned(&node) {
            self.check_owner(&node)?;
        }
        match (service_id, check_id) {
            (Some(service), _) => self.remove_service(&node, service),
            (None, Some(check)) => self.remove_check(&node, check),
            (None, None) => self.remove_node(&node),
        }
        Ok(())
    }

    /// Whether a node's agent is gone, so that somebody else may clear up.
    fn is_abandoned(&self, node: &str) -> bool {
        let owner = self.node(node).and_then(|node| node.value.owner.clone());
        owner.is_some_and(|owner| {
            let record = self.find::<AgentRecord>(&Id::Agent(owner));
            record.is_none_or(|record| record.value.lost.is_some())
        })
    }

    pub(super) fn put_service(&mut self, node: &str, service: &Service) -> Result<Indexed<Service>, Refusal> {
        check_service(service)?;
        let mut service = service.clone();
        if service.id.is_empty() {
            service.id.clone_from(&service.name);
        }
        super::check_name("the service's name", &service.name)?;
        super::check_name("the service's id", &service.id)?;
        super::check_size("the service", &service)?;
        if self.node(node).is_none() {
            return Err(missing_node());
        }
        let before = self.service(node, &service.id).map(|old| old.value.id.clone());
        let id = service.id.clone();
        let new = self.put_spelled(Id::Service(node.to_owned(), id.clone()), service);
        let respelled = before.filter(|before| *before != id);
        for check in respelled.map(|before| self.checks_about(node, &before)).into_iter().flatten() {
            let moved = Check { service_id: id.clone(), ..Check::clone(&check.value) };
            self.put(Id::Check(node.to_owned(), moved.id.clone()), moved);
        }
        Ok(new)
    }

    /// The same for an agent's service: its checks show the name and tags it has now. With `catalog/register` they do
    /// so only when they are registered again, as with Consul.
    pub(super) fn put_own_service(&mut self, node: &str, service: &Service) -> Result<(), Refusal> {
        let id = if service.id.is_empty() { &service.name } else { &service.id };
        let old = self.service(node, id).map(|old| old.value.clone());
        let new = self.put_service(node, service)?;
        if old.is_some_and(|old| old.name != new.value.name || old.tags != new.value.tags) {
            for check in self.checks_about(node, &new.value.id) {
                let id = Id::Check(node.to_owned(), check.value.id.clone());
                self.put(id, about(Check::clone(&check.value), &new.value));
            }
        }
        Ok(())
    }

    pub(super) fn put_check(&mut self, node: &str, check: &Check) -> Result<Indexed<Check>, Refusal> {
        let mut check = check.clone();
        if check.id.is_empty() {
            check.id.clone_from(&check.name);
        }
        if check.id.is_empty() || node.is_empty() {
            let why = "failed health check lookup: index error: object is missing a value for this index";
            return Err(Refusal::Failed(why.to_owned()));
        }
        super::check_name("the check's id", &check.id)?;
        super::check_size("the check", &check)?;
        if self.node(node).is_none() {
            return Err(missing_node());
        }
        if check.service_id.is_empty() {
            check.service_name.clear();
            check.service_tags.clear();
        } else {
            let service = self.service(node, &check.service_id);
            let service = service.ok_or_else(|| Refusal::Failed("Missing service registration".to_owned()))?;
            check = about(check, &service.value.clone());
        }
        let id = check.id.clone();
        let critical = check.status == Status::Critical;
        let new = self.put_spelled(Id::Check(node.to_owned(), id.clone()), check);
        if critical {
            self.end_sessions_on(node, &id);
        }
        Ok(new)
    }

    pub(super) fn remove_service(&mut self, node: &str, service: &str) {
        let Some(service) = self.service(node, service).map(|service| service.value.id.clone()) else { return };
        for check in self.checks_about(node, &service) {
            self.remove_check(node, &check.value.id);
        }
        self.remove(Id::Service(node.to_owned(), service));
    }

    pub(super) fn remove_check(&mut self, node: &str, check: &str) {
        let Some(check) = self.check(node, check).map(|check| check.value.id.clone()) else { return };
        self.end_sessions_on(node, &check);
        self.remove(Id::Check(node.to_owned(), check));
    }
}

/// Refuses a service that makes no sense, wherever it is.
pub(super) fn check_service(service: &Service) -> Result<(), Refusal> {
    if service.name.is_empty() {
        let why = "Must provide service name (Service.Service) when service ID is provided";
        return Err(Refusal::Failed(why.to_owned()));
    }
    if service.address.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) {
        return Err(Refusal::Failed("Invalid service address".to_owned()));
    }
    Ok(())
}

/// A check with what it shows of its service.
fn about(check: Check, service: &Service) -> Check {
    let service_id = service.id.clone();
    Check { service_id, service_name: service.name.clone(), service_tags: service.tags.clone(), ..check }
}

fn missing_node() -> Refusal {
    Refusal::Failed("Missing node registration".to_owned())
}

/// Says what failed; only Consul's own failures read like that.
fn within(what: &str, refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Failed(why) => Refusal::Failed(format!("{what}: {why}")),
        other => other,
    }
}
