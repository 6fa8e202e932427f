//! What is registered with the agent itself.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::json;

use super::bodies;
use super::call::{Call, Outcome, Problem, json as answer};
use super::view::{CheckView, LocalView};
use crate::agent::state::{check_ids, unknown_check};
use crate::model::{Check, Policy, Resource, Status};

impl Call<'_> {
    pub(super) fn services(&self) -> Outcome {
        let local = self.local()?;
        let (services, checks) = (local.services(), local.checks());
        let mut worst: BTreeMap<&str, Status> = BTreeMap::new();
        for check in checks.values() {
            let known = worst.entry(&check.service_id).or_insert(check.status);
            *known = check.status.max(*known);
        }
        let of = |id: &str| worst.get(id).copied().unwrap_or(Status::Passing);
        let shown =
            services.values().filter(|local| self.access.allows(Resource::Service, &local.service.name, Policy::Read));
        let views: Vec<LocalView<'_>> =
            shown.map(|local| LocalView::new(local, of(&local.service.id).max(of("")))).collect();
        Ok(answer(StatusCode::OK, &views))
    }

    pub(super) async fn register_service(&self) -> Outcome {
        let interval = (self.native.options.check_interval)();
        let (service, checks) = bodies::service(self.body()?, interval)?;
        let local = self.local()?;
        self.require(Resource::Service, &service.name, Policy::Write)?;
        if let Some(known) = local.service(&service.id) {
            self.require(Resource::Service, &known.name, Policy::Write)?;
        }
        for id in check_ids(&service, &checks) {
            self.may_replace(&id)?;
        }
        let id = service.id.clone();
        let replace = self.request.query.has("replace-existing-checks");
        local.register(service, checks, replace).await?;
        Ok(answer(StatusCode::OK, &json!({"id": id, "registered": true})))
    }

    pub(super) async fn deregister_service(&self, id: &str) -> Outcome {
        let local = self.local()?;
        if let Some(known) = local.service(id) {
            self.require(Resource::Service, &known.name, Policy::Write)?;
        }
        local.deregister(id).await?;
        Ok(answer(StatusCode::OK, &json!({"id": id, "deregistered": true})))
    }

    pub(super) fn checks(&self) -> Outcome {
        let checks = self.local()?.checks();
        let shown = checks.values().filter(|check| self.may(check, Policy::Read).is_ok());
        let views: Vec<CheckView<'_>> = shown.map(|check| CheckView::new(check)).collect();
        Ok(answer(StatusCode::OK, &views))
    }

    pub(super) async fn register_check(&self) -> Outcome {
        let interval = (self.native.options.check_interval)();
        let mut check = bodies::check(self.body()?, interval)?;
        let local = self.local()?;
        if let Some(known) = local.service(&check.service_id) {
            check.service_name.clone_from(&known.name);
        }
        self.may(&check, Policy::Write)?;
        self.may_replace(if check.id.is_empty() { &check.name } else { &check.id })?;
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
        let check = self.local()?.check(id).ok_or_else(|| unknown_check(id))?;
        self.may(&check, Policy::Write)
    }

    /// Refuses who may not change the check that has an id, if one has it.
    fn may_replace(&self, id: &str) -> Result<(), Problem> {
        self.local()?.check(id).map_or(Ok(()), |known| self.may(&known, Policy::Write))
    }

    /// A check of a service is the service's, another is the node's.
    fn may(&self, check: &Check, wanted: Policy) -> Result<(), Problem> {
        if check.service_id.is_empty() {
            return self.require(Resource::Node, &self.backend().place().node, wanted);
        }
        self.require(Resource::Service, &check.service_name, wanted)
    }
}
