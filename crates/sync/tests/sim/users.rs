//! People at work on both sides.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use thane_sync::mapping::Mode;
use thane_sync::object::{self, Key, Kind, REFRESH, metadata_mut, set_annotation};

use crate::ledger::Asked;
use crate::world::{Happening, NAMESPACE, Site, World};

const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
const PROJECTS: [&str; 3] = ["default", "team", "web"];

impl World {
    pub(crate) fn users(&mut self) {
        if self.healed {
            return;
        }
        let every = self.setting.users;
        let delay = self.rng.between(1, every * 2);
        self.at(delay, Happening::Users);
        for _ in 0..self.rng.pick(&[1, 1, 1, 4]) {
            self.user();
        }
    }

    fn user(&mut self) {
        let agent = self.rng.index(self.agents.len());
        let name = self.agents[agent].name.clone();
        if self.rng.percent(15) {
            return self.shared();
        }
        if self.setting.tampering && self.rng.percent(15) {
            return self.tamper(agent, &name);
        }
        let (site, namespace) = match self.agents[agent].mode {
            Mode::Managed => (Site::Hub, name.as_str()),
            Mode::Autonomous => (Site::Agent(agent), NAMESPACE),
        };
        let app = format!("app{}", self.rng.below(4));
        let key = Key { kind: Kind::Application, namespace: namespace.to_owned(), name: app };
        match self.rng.below(10) {
            0..=2 => self.create_application(agent, site, &key, &name),
            3 | 4 if self.rng.percent(20) => {
                let place = format!("apps-{}", self.ledger.revision());
                self.log("user", format_args!("{site:?} moves {key:?} to {place}"));
                self.api(site).edit(&key, |app| app["spec"]["destination"]["namespace"] = json!(place));
            }
            3 | 4 => {
                let revision = self.ledger.revision();
                self.api(site).edit(&key, |app| app["spec"]["source"]["targetRevision"] = json!(revision));
                self.log("user", format_args!("{site:?} edits {key:?} to {revision}"));
            }
            5 => {
                self.log("user", format_args!("{site:?} deletes {key:?}"));
                // Whoever has asked for an operation of it is not waiting for that any more.
                let _ = self.api(site).delete(&key, None);
            }
            6 | 7 => self.operate(agent, &name, &key.name),
            8 => self.terminate(agent, &name, &key.name),
            _ => self.touch(agent, site, &key),
        }
    }

    fn create_application(&mut self, agent: usize, site: Site, key: &Key, name: &str) {
        let revision = self.ledger.revision();
        let finalizers = if self.rng.percent(50) { json!([FINALIZER]) } else { json!([]) };
        let project = self.rng.pick(&PROJECTS);
        let mut app = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": key.name, "namespace": key.namespace, "finalizers": finalizers},
            "spec": {
                "project": project,
                "source": {"repoURL": "https://git.example/x", "targetRevision": revision},
                "destination": {"name": name, "namespace": "apps"},
            },
        });
        if finalizers == json!([]) {
            metadata_mut(&mut app).remove("finalizers");
        }
        if let Ok(made) = self.api(site).create(Kind::Application, app) {
            let uid = object::uid(&made).to_owned();
            self.log("user", format_args!("{site:?} creates {key:?} at {revision} as {uid}"));
            self.ledger.owners.insert(uid, agent);
        }
    }

    /// Labels, annotations, refresh.
    fn touch(&mut self, agent: usize, site: Site, key: &Key) {
        let revision = self.ledger.revision();
        if self.rng.percent(50) {
            let (namespace, name) = (self.agents[agent].name.clone(), key.name.clone());
            let on_hub = Key { kind: Kind::Application, namespace, name };
            self.hub_api.edit(&on_hub, |app| set_annotation(app, REFRESH, "normal"));
            self.log("user", format_args!("refreshes {on_hub:?}"));
            return;
        }
        self.api(site).edit(key, |app| {
            let labels = object::map_mut(&mut app["metadata"], "labels");
            labels.insert("tier".into(), json!(revision));
        });
        self.log("user", format_args!("{site:?} labels {key:?} {revision}"));
    }

    /// Asks for an operation on the hub, as Argo CD's API does: only when none is there.
    fn operate(&mut self, agent: usize, namespace: &str, name: &str) {
        let key = Key { kind: Kind::Application, namespace: namespace.to_owned(), name: name.to_owned() };
        let Some(app) = self.hub_api.get(&key) else { return };
        let phase = app["status"]["operationState"]["phase"].as_str().unwrap_or_default();
        let is_busy = !app["operation"].is_null() || matches!(phase, "Running" | "Terminating");
        if is_busy || object::is_deleting(app) {
            return;
        }
        let source = object::origin_uid(app).to_owned();
        if self.agents[agent].mode == Mode::Autonomous && object::source_uid(app).is_none() {
            return;
        }
        let id = self.ledger.revision();
        let endless = self.rng.percent(20);
        let id = if endless { format!("endless-{id}") } else { format!("op-{id}") };
        let operation = json!({"sync": {"revision": id}, "initiatedBy": {"username": "user"}});
        self.hub_api.edit(&key, |app| app["operation"] = operation);
        self.log("user", format_args!("asks for {id} of {key:?}"));
        self.ledger.asked.insert(id, Asked { agent, name: name.to_owned(), source, is_void: false, terminated: false });
    }

    fn terminate(&mut self, agent: usize, namespace: &str, name: &str) {
        let key = Key { kind: Kind::Application, namespace: namespace.to_owned(), name: name.to_owned() };
        let Some(app) = self.hub_api.get(&key) else { return };
        let state = &app["status"]["operationState"];
        if state["phase"] != "Running" || object::is_deleting(app) {
            return;
        }
        let id = state["operation"]["sync"]["revision"].as_str().unwrap_or_default().to_owned();
        self.hub_api.edit(&key, |app| app["status"]["operationState"]["phase"] = json!("Terminating"));
        self.log("user", format_args!("terminates {id} of {key:?} on agent {agent}"));
        if let Some(asked) = self.ledger.asked.get_mut(&id) {
            asked.terminated = true;
        }
    }

    /// Projects and repositories.
    fn shared(&mut self) {
        let revision = self.ledger.revision();
        let agent = self.rng.index(self.agents.len());
        let site = match self.agents[agent].mode {
            Mode::Autonomous if self.rng.percent(50) => Site::Agent(agent),
            _ => Site::Hub,
        };
        let is_project = site != Site::Hub || self.rng.percent(60);
        let project = self.rng.pick(&PROJECTS);
        let everyone = self.rng.percent(40);
        let target = if everyone { "*".to_owned() } else { self.agents[agent].name.clone() };
        let (kind, object) = if is_project {
            (
                Kind::AppProject,
                json!({
                    "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
                    "metadata": {"name": project, "namespace": NAMESPACE},
                    "spec": {
                        "description": revision, "sourceNamespaces": [target],
                        "destinations": [{"name": target, "namespace": "*"}],
                    },
                }),
            )
        } else {
            let text = |text: &str| BASE64_STANDARD.encode(text);
            (
                Kind::Repository,
                json!({
                    "apiVersion": "v1", "kind": "Secret",
                    "metadata": {
                        "name": format!("repo{}", self.rng.below(2)), "namespace": NAMESPACE,
                        "labels": {"argocd.argoproj.io/secret-type": "repository"},
                    },
                    "data": {"project": text(project), "url": text(&revision)},
                }),
            )
        };
        let key = Key::of(kind, &object);
        if self.rng.percent(20) {
            self.log("user", format_args!("{site:?} deletes {key:?}"));
            let _ = self.api(site).delete(&key, None);
            return;
        }
        self.log("user", format_args!("{site:?} writes {key:?} at {revision} for {target}"));
        if self.api(site).get(&key).is_none() {
            let _ = self.api(site).create(kind, object);
        } else {
            let field = if is_project { "spec" } else { "data" };
            self.api(site).edit(&key, |there| there[field] = object[field].clone());
        }
    }

    /// People change copies and mirrors, which are not theirs.
    fn tamper(&mut self, agent: usize, name: &str) {
        let is_managed = self.agents[agent].mode == Mode::Managed;
        let (site, namespace) = if is_managed { (Site::Agent(agent), NAMESPACE) } else { (Site::Hub, name) };
        let is_theirs = |(key, object): &(&Key, &object::Object)| {
            object::source_uid(object).is_some()
                && (key.namespace == namespace || (key.kind != Kind::Application && key.name.starts_with(name)))
        };
        let keys: Vec<Key> = self.api(site).objects.iter().filter(is_theirs).map(|(key, _)| key.clone()).collect();
        if keys.is_empty() {
            return;
        }
        let key = self.rng.pick(&keys);
        if self.rng.percent(40) {
            self.log("user", format_args!("{site:?} tampers: deletes {key:?}"));
            let _ = self.api(site).delete(&key, None);
            self.ledger.void(agent, &key.name);
            return;
        }
        self.log("user", format_args!("{site:?} tampers with {key:?}"));
        let is_moved = self.rng.percent(30);
        self.api(site).edit(&key, |object| match key.kind {
            Kind::Application if is_moved => object["spec"]["destination"]["namespace"] = json!("-1"),
            Kind::Application => object["spec"]["source"]["targetRevision"] = json!("-1"),
            Kind::AppProject => object["spec"]["description"] = json!("-1"),
            Kind::Repository => object["data"]["url"] = Value::from("LTE="),
        });
    }
}
