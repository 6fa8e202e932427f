//! Whether a token may write: for the catalog that depends on what is there, whatever a request says about it.

use super::Access;
use crate::backend::{Backend, Consistency, Reading};
use crate::command::{CatalogVerb, Command, Deregistration, KvOp, KvVerb, Refusal, Registration, TxnOp};
use crate::model::{Check, Node, Policy, Resource};
use crate::topic::{Instance, Row, Topic};

/// Judges writes by what a caller may do and what is there.
pub(crate) struct Vet<'a> {
    pub(crate) access: &'a Access,
    pub(crate) backend: &'a dyn Backend,
}

/// A node as it is before a write.
struct Before(Reading);

impl Before {
    fn node(&self) -> Option<&Node> {
        self.0.data.rows.iter().find_map(|row| match row {
            Row::Node(node) => Some(node.value.as_ref()),
            _ => None,
        })
    }

    fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.0.data.rows.iter().filter_map(|row| match row {
            Row::Instance(instance) => Some(instance.as_ref()),
            _ => None,
        })
    }

    /// The name of the service that an instance is of; ids are compared without case.
    fn service(&self, id: &str) -> Option<&str> {
        let id = id.to_lowercase();
        let mut services = self.instances().map(|it| &it.service.value);
        services.find(|known| known.id.to_lowercase() == id).map(|known| known.name.as_str())
    }

    fn check(&self, id: &str) -> Option<&Check> {
        let own = self.0.data.rows.iter().filter_map(|row| match row {
            Row::Check(_, check) => Some(check.value.as_ref()),
            _ => None,
        });
        let services = self.instances().flat_map(|it| &it.checks).map(|check| check.value.as_ref());
        let id = id.to_lowercase();
        own.chain(services).find(|check| check.id.to_lowercase() == id)
    }
}

impl Vet<'_> {
    async fn topic(&self, topic: &Topic) -> Result<Reading, Refusal> {
        match self.backend.ready(topic, Consistency::Default) {
            Some(reading) => Ok(reading),
            None => self.backend.read(topic, Consistency::Default).await.map_err(|_| Refusal::NoHub),
        }
    }

    async fn before(&self, node: &str) -> Result<Before, Refusal> {
        self.topic(&Topic::Node(node.to_lowercase())).await.map(Before)
    }

    fn may_write(&self, resource: Resource, name: &str) -> Result<(), Refusal> {
        self.access.require(resource, name, Policy::Write)
    }

    /// Any command. What a transaction reads is not refused but left out of its results.
    pub(crate) async fn command(&self, command: &Command) -> Result<(), Refusal> {
        if self.access.is_open() {
            return Ok(());
        }
        match command {
            Command::Kv(op) => self.keys(op),
            Command::Txn(ops) => {
                for op in ops {
                    self.operation(op).await?;
                }
                Ok(())
            }
            Command::Register(asked) => self.register(asked).await,
            Command::Deregister(asked) => self.deregister(asked).await,
            Command::CreateSession(session) => self.may_write(Resource::Session, &session.node),
            Command::DestroySession(id) | Command::RenewSession(id) => self.session(id).await,
            Command::Fire(event) => {
                let may = self.access.allows(Resource::Event, &event.name, Policy::Write);
                may.then_some(()).ok_or_else(|| Refusal::Forbidden(String::new()))
            }
            // Refused by the registry once there is a token.
            Command::Bootstrap(_) => Ok(()),
            Command::PutToken(_) | Command::DeleteToken(_) | Command::PutRuleSet(_) | Command::DeleteRuleSet(_) => {
                self.may_write(Resource::Acl, "")
            }
            Command::Agent(..) => Err(Refusal::Forbidden("a batch is an agent's own".to_owned())),
        }
    }

    pub(crate) async fn register(&self, asked: &Registration) -> Result<(), Refusal> {
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
            return Err(Refusal::Forbidden(String::new()));
        }
        for check in &asked.checks {
            if check.service_id.is_empty() {
                self.may_write(Resource::Node, &asked.node.name)?;
            } else if of_others(check) {
                let Some(name) = before.service(&check.service_id) else {
                    let text = format!("Unknown service ID '{}' for check ID '{}'", check.service_id, check.id);
                    return Err(Refusal::Failed(text));
                };
                self.may_write(Resource::Service, name)?;
            }
        }
        Ok(())
    }

    pub(crate) async fn deregister(&self, asked: &Deregistration) -> Result<(), Refusal> {
        // Who may write the node may clear it up.
        let Err(denied) = self.may_write(Resource::Node, &asked.node) else { return Ok(()) };
        let before = self.before(&asked.node).await?;
        match (&asked.service_id, &asked.check_id) {
            (Some(id), _) => match before.service(id) {
                Some(name) => self.may_write(Resource::Service, name),
                None => Err(Refusal::Failed(format!("Unknown service ID '{id}'"))),
            },
            (None, Some(id)) => match before.check(id) {
                Some(check) if check.service_id.is_empty() => Err(denied),
                Some(check) => self.may_write(Resource::Service, &check.service_name),
                None => Err(Refusal::Failed(format!("Unknown check ID '{id}'"))),
            },
            (None, None) => Err(denied),
        }
    }

    /// What may be done with a session's node; a session that is not there is nobody's.
    pub(crate) async fn session(&self, id: &str) -> Result<(), Refusal> {
        if self.access.is_open() {
            return Ok(());
        }
        let reading = self.topic(&Topic::Sessions).await?;
        let node = reading.data.rows.iter().find_map(|row| match row {
            Row::Session(session) if session.value.id == id => Some(&session.value.node),
            _ => None,
        });
        node.map_or(Ok(()), |node| self.may_write(Resource::Session, node))
    }

    /// One operation of a transaction. What it reads is not refused but left out of the answer.
    pub(crate) async fn operation(&self, op: &TxnOp) -> Result<(), Refusal> {
        if self.access.is_open() {
            return Ok(());
        }
        match op {
            TxnOp::Kv(kv) => self.keys(kv),
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
            TxnOp::Check(_, node, check, _) => self.check(node, check).await,
        }
    }

    fn keys(&self, op: &KvOp) -> Result<(), Refusal> {
        match op.verb {
            KvVerb::Get | KvVerb::GetOrEmpty | KvVerb::GetTree => Ok(()),
            KvVerb::CheckIndex | KvVerb::CheckSession => self.access.require(Resource::Key, &op.key, Policy::Read),
            KvVerb::DeleteTree => self.access.require_tree(Resource::Key, &op.key, Policy::Write),
            _ => self.may_write(Resource::Key, &op.key),
        }
    }

    async fn check(&self, node: &str, check: &Check) -> Result<(), Refusal> {
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
