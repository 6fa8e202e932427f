//! What is registered with the agent itself.

use http::StatusCode;
use serde_json::json;

use super::bodies;
use super::call::{Call, Outcome, Problem, json as answer};
use super::view::{CheckView, LocalView};
use crate::agent::state::unknown_check;
use crate::model::{Check, Policy, Resource};

impl Call<'_> {
    pub(super) fn services(&self) -> Outcome {
        let local = self.local()?;
        let (services, checks) = (local.services(), local.checks());
        let shown =
            services.values().filter(|local| self.access.allows(Resource::Service, &local.service.name, Policy::Read));
        let views: Vec<LocalView<'_>> = shown.map(|service| LocalView::new(service, &checks)).collect();
        Ok(answer(StatusCode::OK, &views))
    }

    pub(super) async fn register_service(&self) -> Outcome {
        let interval = (self.native.options.check_interval)();
        let (service, checks) = bodies::service(self.body()?, interval)?;
        let local = self.local()?;
        self.require(Resource::Service, &service.name, Policy::Write)?;
        if let Some(known) = local.services().get(&service.id) {
            self.require(Resource::Service, &known.service.name, Policy::Write)?;
        }
        let id = service.id.clone();
        let replace = self.request.query.has("replace-existing-checks");
        local.register(service, checks, replace).await?;
        Ok(answer(StatusCode::OK, &json!({"id": id, "registered": true})))
    }

    pub(super) async fn deregister_service(&self, id: &str) -> Outcome {
        let local = self.local()?;
        if let Some(known) = local.services().get(id) {
            self.require(Resource::Service, &known.service.name, Policy::Write)?;
        }
        local.deregister(id).await?;
        Ok(answer(StatusCode::OK, &json!({"id": id, "deregistered": true})))
    }

    pub(super) fn checks(&self) -> Outcome {
        let checks = self.local()?.checks();
        let shown = checks.values().filter(|check| self.may(check, Policy::Read).is_ok());
        let views: Vec<CheckView<'_>> = shown.map(CheckView::new).collect();
        Ok(answer(StatusCode::OK, &views))
    }

    pub(super) async fn register_check(&self) -> Outcome {
        let interval = (self.native.options.check_interval)();
        let mut check = bodies::check(self.body()?, interval)?;
        let local = self.local()?;
        if let Some(known) = local.services().get(&check.service_id) {
            check.service_name.clone_from(&known.service.name);
        }
        self.may(&check, Policy::Write)?;
        if let Some(known) = local.checks().get(&check.id) {
            self.may(known, Policy::Write)?;
        }
        let id = check.id.clone();
        local.register_check(check).await?;
        Ok(answer(StatusCode::OK, &json!({"id": id, "registered": true})))
    }

    pub(super) async fn update_check(&self, id: &str) -> Outcome {
        let (status, output) = bodies::update(self.body()?)?;
        let local = self.local()?;
        self.may_known(id)?;
        local.update_check(id, status, output).await?;
        Ok(answer(StatusCode::OK, &json!({"id": id, "status": status})))
    }

    pub(super) async fn deregister_check(&self, id: &str) -> Outcome {
        let local = self.local()?;
        self.may_known(id)?;
        local.deregister_check(id).await?;
        Ok(answer(StatusCode::OK, &json!({"id": id, "deregistered": true})))
    }

    fn may_known(&self, id: &str) -> Result<(), Problem> {
        let checks = self.local()?.checks();
        self.may(checks.get(id).ok_or_else(|| unknown_check(id))?, Policy::Write)
    }

    /// A check of a service is the service's, another is the node's.
    fn may(&self, check: &Check, wanted: Policy) -> Result<(), Problem> {
        if check.service_id.is_empty() {
            return self.require(Resource::Node, &self.backend().place().node, wanted);
        }
        self.require(Resource::Service, &check.service_name, wanted)
    }
}
