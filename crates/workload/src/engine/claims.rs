//! Volumes made for one Workflow.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Effect, Operation};
use crate::spec::{Workflow, WorkflowSpec};
use crate::status::{Phase, WorkflowStatus};
use crate::steps::names::WORKFLOW;

/// Whether a Workflow that has ended has no use for its claims any more.
fn gives_back(spec: &WorkflowSpec, status: &WorkflowStatus) -> bool {
    let strategy = spec.volume_claim_gc.as_ref().map_or("", |gc| gc.strategy.as_str());
    status.phase.is_completed() && (strategy == "OnWorkflowCompletion" || status.phase == Phase::Succeeded)
}

/// What the claim of a template is called.
fn claim_name(workflow: &str, template: &Value) -> Option<String> {
    let name = template.pointer("/metadata/name").and_then(Value::as_str).filter(|name| !name.is_empty())?;
    Some(format!("{workflow}-{name}"))
}

/// The claims that a Workflow gave back when it ended; whoever decided that may not have come to removing them.
pub(crate) fn unclaimed(workflow: &Workflow, status: &WorkflowStatus) -> Vec<String> {
    let spec = status.stored_spec.as_deref().unwrap_or(&workflow.spec);
    if !gives_back(spec, status) || !status.persistent_volume_claims.is_empty() {
        return Vec::new();
    }
    let name = workflow.metadata.name.as_deref().unwrap_or_default();
    spec.volume_claim_templates.iter().filter_map(|template| claim_name(name, template)).collect()
}

impl Operation<'_> {
    /// Asks for the claims of the spec.
    pub(super) fn claim(&mut self) -> Result<(), String> {
        let spec = Arc::clone(&self.spec);
        if spec.volume_claim_templates.len() == self.status.persistent_volume_claims.len() {
            return Ok(());
        }
        let mut volumes = Vec::new();
        for (index, template) in spec.volume_claim_templates.iter().enumerate() {
            let Some(claim) = claim_name(&self.identity.name, template) else {
                return Err(format!("volumeClaimTemplates[{index}].metadata.name is required"));
            };
            let name = &template["metadata"]["name"];
            let mut object = template.clone();
            object["apiVersion"] = json!("v1");
            object["kind"] = json!("PersistentVolumeClaim");
            object["metadata"]["name"] = json!(claim);
            object["metadata"]["labels"][WORKFLOW] = json!(self.identity.name);
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": self.identity.name,
                "uid": self.identity.uid, "controller": true, "blockOwnerDeletion": true,
            }]);
            self.effects.push(Effect::Claim(object));
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": claim}}));
        }
        self.status.persistent_volume_claims = volumes;
        self.changed = true;
        Ok(())
    }

    /// Gives claims back at the end, unless they are kept for a retry.
    pub(super) fn unclaim(&mut self) {
        if !gives_back(&self.spec, &self.status) {
            return;
        }
        for volume in std::mem::take(&mut self.status.persistent_volume_claims) {
            if let Some(claim) = volume.pointer("/persistentVolumeClaim/claimName").and_then(|name| name.as_str()) {
                self.effects.push(Effect::Unclaim { claim: claim.to_owned() });
            }
        }
    }
}
