//! What is registered with the agent by `/v1/agent/*`.

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::options::boolean;
use super::route::Endpoint;
use crate::agent::state::check_ids;
use crate::decode;
use crate::model::{Policy, Resource, Status};

impl Call<'_> {
    pub(super) async fn agent_local(&self, endpoint: Endpoint) -> Outcome {
        let note = || self.query().get("note").to_owned();
        match endpoint {
            Endpoint::AgentServices => self.agent_services(),
            Endpoint::AgentChecks => self.agent_checks(),
            Endpoint::AgentService => self.agent_service().await,
            Endpoint::AgentHealthById => self.agent_health_by_id(),
            Endpoint::AgentHealthByName => self.agent_health_by_name(),
            Endpoint::AgentRegisterService => self.register_service().await,
            Endpoint::AgentDeregisterService => self.deregister_service().await,
            Endpoint::AgentRegisterCheck => self.register_check().await,
            Endpoint::AgentDeregisterCheck => self.deregister_check().await,
            Endpoint::AgentCheckPass => self.update_check(Status::Passing, note()).await,
            Endpoint::AgentCheckWarn => self.update_check(Status::Warning, note()).await,
            Endpoint::AgentCheckFail => self.update_check(Status::Critical, note()).await,
            Endpoint::AgentCheckUpdate => {
                let (status, output) = decode::check_update(self.body()?)?;
                self.update_check(status, output).await
            }
            Endpoint::AgentServiceMaintenance => self.maintain_service().await,
            Endpoint::AgentMaintenance => self.maintain_node().await,
            _ => Err(Failure::not_found("")),
        }
    }

    async fn register_service(&self) -> Outcome {
        let (service, checks) = decode::service(self.body()?)?;
        self.access.require(Resource::Service, &service.name, Policy::Write)?;
        let local = self.local()?;
        if let Some(known) = local.service(&service.id) {
            self.access.require(Resource::Service, &known.name, Policy::Write)?;
        }
        for id in check_ids(&service, &checks) {
            self.may_replace(&id)?;
        }
        let query = self.query();
        let replace =
            query.has("replace-existing-checks") && matches!(query.get("replace-existing-checks"), "" | "true");
        local.register(service, checks, replace).await?;
        Ok(Self::done())
    }

    async fn deregister_service(&self) -> Outcome {
        self.may_on_service()?;
        self.local()?.deregister(self.rest).await?;
        Ok(Self::done())
    }

    /// Refuses what is not registered here, and what the token may not change.
    fn may_on_service(&self) -> Result<(), Failure> {
        let Some(known) = self.local()?.service(self.rest) else {
            return Err(Failure::not_found(format!(
                "Unknown service ID {:?}. Ensure that the service ID is passed, not the service name.",
                self.rest
            )));
        };
        Ok(self.access.require(Resource::Service, &known.name, Policy::Write)?)
    }

    async fn register_check(&self) -> Outcome {
        let mut check = decode::check(self.body()?)?;
        let local = self.local()?;
        if !check.service_id.is_empty() {
            let Some(known) = local.service(&check.service_id) else {
                return Err(Failure::not_found(format!("ServiceID {:?} does not exist", check.service_id)));
            };
            check.service_name.clone_from(&known.name);
            check.service_tags.clone_from(&known.tags);
        }
        self.may_on_check(&check.service_name)?;
        self.may_replace(if check.id.is_empty() { &check.name } else { &check.id })?;
        local.register_check(check).await?;
        Ok(Self::done())
    }

    async fn deregister_check(&self) -> Outcome {
        self.known_check()?;
        self.local()?.deregister_check(self.rest).await?;
        Ok(Self::done())
    }

    async fn update_check(&self, status: Status, output: String) -> Outcome {
        if self.known_check()? != "ttl" {
            return Err(Failure::failed(format!("CheckID {:?} does not have associated TTL", self.rest)));
        }
        self.local()?.update_check(self.rest, status, output).await?;
        Ok(Self::done())
    }

    /// The kind of a check; refuses what is not registered here, and what the token may not change.
    fn known_check(&self) -> Result<String, Failure> {
        let Some(check) = self.local()?.check(self.rest) else {
            return Err(Failure::not_found(format!(
                "Unknown check ID {:?}. Ensure that the check ID is passed, not the check name.",
                self.rest
            )));
        };
        self.may_on_check(&check.service_name)?;
        Ok(check.kind.clone())
    }

    /// Refuses who may not change the check that has an id, if one has it.
    fn may_replace(&self, id: &str) -> Result<(), Failure> {
        self.local()?.check(id).map_or(Ok(()), |known| self.may_on_check(&known.service_name))
    }

    fn may_on_check(&self, service: &str) -> Result<(), Failure> {
        Ok(if service.is_empty() {
            self.access.require(Resource::Node, &self.place().node, Policy::Write)
        } else {
            self.access.require(Resource::Service, service, Policy::Write)
        }?)
    }

    async fn maintain_service(&self) -> Outcome {
        let id = self.named("Missing service ID")?;
        let enable = self.enable()?;
        self.may_on_service()?;
        self.local()?.maintain(Some(id), enable, self.query().get("reason")).await?;
        Ok(Self::done())
    }

    async fn maintain_node(&self) -> Outcome {
        let enable = self.enable()?;
        self.access.require(Resource::Node, &self.place().node, Policy::Write)?;
        self.local()?.maintain(None, enable, self.query().get("reason")).await?;
        Ok(Self::done())
    }

    fn enable(&self) -> Result<bool, Failure> {
        if !self.query().has("enable") {
            return Err(Failure::bad("Missing value for enable"));
        }
        let text = self.query().get("enable");
        boolean(text).ok_or_else(|| Failure::bad(format!("Invalid value for enable: {text:?}")))
    }
}
