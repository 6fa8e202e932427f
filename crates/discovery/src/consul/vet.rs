//! Whether a token may write to the catalog: that depends on what is there, whatever a request says about it.

use super::call::Call;
use super::failure::Failure;
use super::hot::instances;
use super::options::ReadOptions;
use crate::backend::Reading;
use crate::command::{CatalogVerb, Deregistration, KvVerb, Registration, TxnOp};
use crate::model::{Check, Node, Policy, Resource};
use crate::topic::{Row, Topic};

/// A node as it is before a write.
struct Before(Reading);

impl Before {
    fn node(&self) -> Option<&Node> {
        self.0.data.rows.iter().find_map(|row| match row {
            Row::Node(node) => Some(node.value.as_ref()),
            _ => None,
        })
    }

    /// The name of the service that an instance is of.
    fn service(&self, id: &str) -> Option<&str> {
        instances(&self.0.data)
            .map(|it| &it.service.value)
            .find(|known| known.id == id)
            .map(|known| known.name.as_str())
    }

    fn check(&self, id: &str) -> Option<&Check> {
        let own = self.0.data.rows.iter().filter_map(|row| match row {
            Row::Check(_, check) => Some(check.value.as_ref()),
            _ => None,
        });
        let services = instances(&self.0.data).flat_map(|it| &it.checks).map(|check| check.value.as_ref());
        own.chain(services).find(|check| check.id == id)
    }
}

impl Call<'_> {
    async fn before(&self, node: &str) -> Result<Before, Failure> {
        Ok(Before(self.topic(&Topic::Node(node.to_lowercase()), &ReadOptions::default()).await?))
    }

    fn may_write(&self, resource: Resource, name: &str) -> Result<(), Failure> {
        Ok(self.access.require(resource, name, Policy::Write)?)
    }

    pub(super) async fn vet_register(&self, asked: &Registration) -> Result<(), Failure> {
        let own = asked.service.as_ref().map(|service| service.id.as_str());
        let of_others = |check: &Check| !check.service_id.is_empty() && Some(check.service_id.as_str()) != own;
        if self.access.is_open() && !asked.checks.iter().any(of_others) {
            return Ok(());
        }
        let before = self.before(&asked.node.name).await?;
        if let Some(service) = &asked.service {
            self.may_write(Resource::Service, &service.name)?;
        }
        if before.node().is_none_or(|node| !asked.keep_node && changes(node, &asked.node)) {
            self.may_write(Resource::Node, &asked.node.name)?;
        }
        if let Some(replaced) = own.and_then(|id| before.service(id))
            && !self.access.allows(Resource::Service, replaced, Policy::Write)
        {
            return Err(Failure::new(http::StatusCode::FORBIDDEN, "Permission denied"));
        }
        for check in &asked.checks {
            if check.service_id.is_empty() {
                self.may_write(Resource::Node, &asked.node.name)?;
            } else if of_others(check) {
                let Some(name) = before.service(&check.service_id) else {
                    let text = format!("Unknown service ID '{}' for check ID '{}'", check.service_id, check.id);
                    return Err(Failure::failed(text));
                };
                self.may_write(Resource::Service, name)?;
            }
        }
        Ok(())
    }

    pub(super) async fn vet_deregister(&self, asked: &Deregistration) -> Result<(), Failure> {
        // Who may write the node may clear it up.
        let Err(denied) = self.may_write(Resource::Node, &asked.node) else { return Ok(()) };
        let before = self.before(&asked.node).await?;
        match (&asked.service_id, &asked.check_id) {
            (Some(id), _) => match before.service(id) {
                Some(name) => self.may_write(Resource::Service, name),
                None => Err(Failure::failed(format!("Unknown service ID '{id}'"))),
            },
            (None, Some(id)) => match before.check(id) {
                Some(check) if check.service_id.is_empty() => Err(denied),
                Some(check) => self.may_write(Resource::Service, &check.service_name),
                None => Err(Failure::failed(format!("Unknown check ID '{id}'"))),
            },
            (None, None) => Err(denied),
        }
    }

    /// One operation of a transaction. What it reads is not refused but left out of the answer.
    pub(super) async fn vet_operation(&self, op: &TxnOp) -> Result<(), Failure> {
        if self.access.is_open() {
            return Ok(());
        }
        match op {
            TxnOp::Kv(kv) => Ok(match kv.verb {
                KvVerb::Get | KvVerb::GetOrEmpty | KvVerb::GetTree => Ok(()),
                KvVerb::CheckIndex | KvVerb::CheckSession => self.access.require(Resource::Key, &kv.key, Policy::Read),
                KvVerb::DeleteTree => self.access.require_tree(Resource::Key, &kv.key, Policy::Write),
                _ => self.access.require(Resource::Key, &kv.key, Policy::Write),
            }?),
            TxnOp::Node(CatalogVerb::Get, ..)
            | TxnOp::Service(CatalogVerb::Get, ..)
            | TxnOp::Check(CatalogVerb::Get, ..) => Ok(()),
            TxnOp::Node(_, node, _) => self.may_write(Resource::Node, &node.name),
            TxnOp::Service(_, node, service, _) => {
                self.may_write(Resource::Service, &service.name)?;
                match self.before(node).await?.service(&service.id) {
                    Some(replaced) => self.may_write(Resource::Service, replaced),
                    None => Ok(()),
                }
            }
            TxnOp::Check(_, node, check, _) => self.vet_check(node, check).await,
        }
    }

    async fn vet_check(&self, node: &str, check: &Check) -> Result<(), Failure> {
        let before = self.before(node).await?;
        // Of the service it is to be about, and of the one it is about.
        let known = before.check(&check.id).map(|known| known.service_id.as_str());
        for id in [Some(check.service_id.as_str()), known].into_iter().flatten() {
            if id.is_empty() {
                self.may_write(Resource::Node, node)?;
            } else {
                self.may_write(Resource::Service, before.service(id).unwrap_or(&check.service_name))?;
            }
        }
        Ok(())
    }
}

/// Whether a node would be another one; who only names it again need not be allowed to write it.
fn changes(node: &Node, asked: &Node) -> bool {
    (&node.id, &node.address, &node.tagged_addresses, &node.meta)
        != (&asked.id, &asked.address, &asked.tagged_addresses, &asked.meta)
}
