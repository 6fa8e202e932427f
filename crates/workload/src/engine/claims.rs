//! Volumes made for one Workflow.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Effect, Operation};
use crate::status::Phase;
use crate::steps::names::WORKFLOW;

impl Operation<'_> {
    /// Asks for the claims of the spec.
    pub(super) fn claim(&mut self) -> Result<(), String> {
        let spec = Arc::clone(&self.spec);
        if spec.volume_claim_templates.len() == self.status.persistent_volume_claims.len() {
            return Ok(());
        }
        let mut volumes = Vec::new();
        for (index, template) in spec.volume_claim_templates.iter().enumerate() {
            let name = template.pointer("/metadata/name").and_then(Value::as_str).filter(|name| !name.is_empty());
            let Some(name) = name else {
                return Err(format!("volumeClaimTemplates[{index}].metadata.name is required"));
            };
            let claim = format!("{}-{name}", self.identity.name);
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
        let strategy = self.spec.volume_claim_gc.as_ref().map_or("", |gc| gc.strategy.as_str());
        if strategy != "OnWorkflowCompletion" && self.status.phase != Phase::Succeeded {
            return;
        }
        for volume in std::mem::take(&mut self.status.persistent_volume_claims) {
            if let Some(claim) = volume.pointer("/persistentVolumeClaim/claimName").and_then(|name| name.as_str()) {
                self.effects.push(Effect::Unclaim { claim: claim.to_owned() });
            }
        }
    }
}
