//! What Argo CD does with the Applications of a cluster: operations, status, finalizers.

use serde_json::json;
use thane_sync::object::{self, Key, Kind, REFRESH, metadata_mut, remove_annotation};

use crate::world::{Happening, World};

impl World {
    pub(crate) fn argo(&mut self, agent: usize) {
        let delay = if self.healed { self.rng.between(300, 900) } else { self.rng.between(50, 1_500) };
        self.at(delay, Happening::Argo(agent));
        let apps: Vec<Key> = self.agents[agent].api.of_kind(Kind::Application).map(|(key, _)| key.clone()).collect();
        for key in apps {
            if self.healed || self.rng.percent(70) {
                self.reconcile(agent, &key);
            }
        }
    }

    fn reconcile(&mut self, agent: usize, key: &Key) {
        let Some(app) = self.agents[agent].api.get(key).cloned() else { return };
        if object::is_deleting(&app) {
            if self.healed || self.rng.percent(40) {
                self.agents[agent].api.edit(key, |app| {
                    metadata_mut(app).remove("finalizers");
                });
            }
            return;
        }
        let state = &app["status"]["operationState"];
        let is_running = matches!(state["phase"].as_str(), Some("Running" | "Terminating"));
        if is_running {
            return self.run(agent, key);
        }
        if !app["operation"].is_null() {
            return self.begin(agent, key);
        }
        if !self.healed && self.rng.percent(self.setting.autosync) {
            let id = self.ledger.revision();
            let operation = json!({"sync": {"revision": format!("auto-{id}")}, "initiatedBy": {"automated": true}});
            self.log("argo", format_args!("agent {agent} syncs {} by itself: auto-{id}", key.name));
            self.agents[agent].api.edit(key, |app| app["operation"] = operation);
            return;
        }
        let revision = app["spec"]["source"]["targetRevision"].clone();
        let is_seen = app["status"]["sync"]["revision"] == revision;
        let is_asked = object::annotation(&app, REFRESH).is_some();
        if is_seen && !is_asked && (self.healed || !self.rng.percent(5)) {
            return;
        }
        let tick = self.ledger.tick();
        self.agents[agent].api.edit(key, |app| {
            remove_annotation(app, REFRESH);
            app["status"]["sync"] = json!({"status": "Synced", "revision": revision});
            app["status"]["health"] = json!({"status": "Healthy"});
            app["status"]["tick"] = json!(tick);
        });
    }

    fn begin(&mut self, agent: usize, key: &Key) {
        let (tick, at) = (self.ledger.tick(), self.time().wall);
        let mut id = String::new();
        self.agents[agent].api.edit(key, |app| {
            app["operation"]["sync"]["revision"].as_str().unwrap_or_default().clone_into(&mut id);
            let started = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            app["status"]["operationState"] =
                json!({"phase": "Running", "operation": app["operation"], "startedAt": started, "tick": tick});
            app["status"]["tick"] = json!(tick);
        });
        self.log("argo", format_args!("agent {agent} begins {id} of {}", key.name));
        self.ledger.started(&id);
    }

    fn run(&mut self, agent: usize, key: &Key) {
        let Some(app) = self.agents[agent].api.get(key).cloned() else { return };
        let state = &app["status"]["operationState"];
        let id = state["operation"]["sync"]["revision"].as_str().unwrap_or_default().to_owned();
        let phase = if state["phase"] == "Terminating" { "Failed" } else { "Succeeded" };
        let is_endless = id.starts_with("endless") && phase == "Succeeded";
        let source = object::origin_uid(&app);
        let is_unheard = self
            .ledger
            .asked
            .get(&id)
            .is_some_and(|asked| asked.terminated && !asked.is_void && asked.source == source);
        if is_endless && (!self.healed || is_unheard) || !self.rng.percent(30) {
            return;
        }
        let tick = self.ledger.tick();
        self.log("argo", format_args!("agent {agent} ends {id} of {}: {phase}", key.name));
        self.agents[agent].api.edit(key, |app| {
            app["status"]["operationState"]["phase"] = json!(phase);
            app["status"]["operationState"]["tick"] = json!(tick);
            app["status"]["tick"] = json!(tick);
            app.as_object_mut().expect("an object").remove("operation");
        });
    }
}
