//! Writes of `/v1/catalog/*`.

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::hot::instances;
use super::options::ReadOptions;
use super::view::kind;
use crate::command::{Command, Registration};
use crate::decode;
use crate::model::{Check, Policy, Resource};
use crate::topic::Topic;

impl Call<'_> {
    pub(super) async fn catalog_register(&self) -> Outcome {
        let mut registration = decode::register(self.body()?)?;
        self.is_here(&registration.node.datacenter)?;
        registration.node.datacenter.clone_from(&self.place().datacenter);
        let node = registration.node.name.clone();
        if !registration.keep_node {
            self.access.require(Resource::Node, &node, Policy::Write)?;
        }
        if let Some(service) = &registration.service {
            self.access.require(Resource::Service, &service.name, Policy::Write)?;
        }
        for check in &mut registration.checks {
            if check.service_id.is_empty() || check.service_name.is_empty() {
                self.access.require(Resource::Node, &node, Policy::Write)?;
            } else {
                self.access.require(Resource::Service, &check.service_name, Policy::Write)?;
            }
            not_run_here(check);
        }
        self.refuse_unknown_services(&registration).await?;
        self.write(Command::Register(Box::new(registration))).await?;
        self.json(&true)
    }

    /// Complains about checks of services that are neither registered with them nor there.
    async fn refuse_unknown_services(&self, registration: &Registration) -> Result<(), Failure> {
        let own = registration.service.as_ref().map(|service| service.id.as_str());
        let others = |check: &&Check| !check.service_id.is_empty() && Some(check.service_id.as_str()) != own;
        let others: Vec<&Check> = registration.checks.iter().filter(others).collect();
        if others.is_empty() {
            return Ok(());
        }
        let topic = Topic::Node(registration.node.name.to_lowercase());
        let reading = self.topic(&topic, &ReadOptions::default()).await?;
        for check in others {
            if !instances(&reading.data).any(|it| it.service.value.id == check.service_id) {
                let text = format!("Unknown service ID '{}' for check ID '{}'", check.service_id, check.id);
                return Err(Failure::failed(text));
            }
        }
        Ok(())
    }

    pub(super) async fn catalog_deregister(&self) -> Outcome {
        let (what, datacenter) = decode::deregister(self.body()?)?;
        self.is_here(&datacenter)?;
        self.access.require(Resource::Node, &what.node, Policy::Write)?;
        self.write(Command::Deregister(what)).await?;
        self.json(&true)
    }
}

/// No agent runs a check of the catalog: it has no kind of its own, and shows how it is defined instead.
pub(super) fn not_run_here(check: &mut Check) {
    if check.kind == kind(&check.definition) {
        check.kind.clear();
    }
}
