//! What must hold, at every step and in the end.

use std::collections::BTreeMap;

use serde_json::Value;
use thane_api::event::{Event, Target};
use thane_sync::mapping::{self, Mode};
use thane_sync::object::{self, Key, Kind, Object};
use thane_sync::work::Write;

use crate::world::{End, NAMESPACE, Site, World};

/// An operation that someone asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) agent: usize,
    pub(crate) name: String,
    /// The uid of the Application it is for.
    pub(crate) source: String,
    /// Whether something happened since that may end it, or start it again.
    pub(crate) is_void: bool,
    pub(crate) terminated: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) violation: Option<String>,
    pub(crate) asked: BTreeMap<String, Asked>,
    starts: BTreeMap<String, u32>,
    /// Whose Application has that uid.
    pub(crate) owners: BTreeMap<String, usize>,
    /// The newest revision written to a site of the object of a uid.
    newest: BTreeMap<(Site, String), i64>,
    /// The newest status written to the hub of the object of a uid.
    observed: BTreeMap<String, i64>,
    counter: u64,
    /// What may be queued at most, at any time so far.
    bounds: BTreeMap<End, usize>,
    /// Events sent, but for acknowledgements, by what they say.
    pub(crate) sent: BTreeMap<String, u64>,
}

impl Ledger {
    pub(crate) fn revision(&mut self) -> String {
        self.counter += 1;
        self.counter.to_string()
    }

    pub(crate) fn tick(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(crate) fn sent(&mut self, event: &Event) {
        if event.target != Target::Processed {
            *self.sent.entry(event.kind.as_str().into_owned()).or_default() += 1;
        }
    }

    /// What was queued for many objects is still there when most of them are gone.
    pub(crate) fn bound(&mut self, end: End, bound: usize) -> usize {
        let most = self.bounds.entry(end).or_default();
        *most = bound.max(*most);
        *most
    }

    pub(crate) fn void(&mut self, agent: usize, name: &str) {
        for asked in self.asked.values_mut().filter(|asked| asked.agent == agent && asked.name == name) {
            asked.is_void = true;
        }
    }

    pub(crate) fn started(&mut self, id: &str) {
        let starts = self.starts.entry(id.to_owned()).or_default();
        *starts += 1;
        let is_void = self.asked.get(id).is_none_or(|asked| asked.is_void);
        if *starts > 1 && !is_void {
            self.violation = Some(format!("operation {id} started {starts} times"));
        }
    }
}

impl World {
    /// What a link may write.
    pub(crate) fn check_write(&mut self, end: End, key: &Key, write: &Write) {
        let agent = end.agent();
        let node = &self.agents[agent];
        let is_theirs = match (end, key.kind) {
            (End::Agent(_), _) => key.namespace == NAMESPACE,
            (End::Hub(_), Kind::Application) => key.namespace == node.name,
            (End::Hub(_), Kind::AppProject) => key.name.starts_with(&format!("{}-", node.name)),
            (End::Hub(_), Kind::Repository) => false,
        };
        if !is_theirs {
            self.ledger.violation = Some(format!("{end:?} writes {key:?}, which is not its own"));
        }
        let (Write::Create(object) | Write::Replace(object)) = write else { return };
        let Some(source) = object::source_uid(object).filter(|_| key.kind == Kind::Application).map(str::to_owned)
        else {
            return;
        };
        if self.ledger.owners.get(&source) != Some(&agent) {
            self.ledger.violation = Some(format!("{end:?} writes {key:?} of {source}, which is another agent's"));
        }
        if would_fail(self.api(end.site()).get(key), write) {
            return;
        }
        let revision = revision(object);
        let newest = self.ledger.newest.entry((end.site(), source)).or_default();
        if revision >= 0 && revision < *newest {
            self.ledger.violation = Some(format!("{end:?} writes {key:?} at {revision} over {newest}"));
        }
        *newest = revision.max(*newest);
        if let (End::Hub(_), Some(tick)) = (end, object["status"]["tick"].as_i64()) {
            let observed = self.ledger.observed.entry(object::uid(object).to_owned()).or_default();
            if tick < *observed && matches!(write, Write::Replace(_)) {
                self.ledger.violation = Some(format!("{end:?} writes status {tick} of {key:?} over {observed}"));
            }
            *observed = tick.max(*observed);
        }
    }

    /// Why both sides are not in step, if they are not.
    pub(crate) fn difference(&self) -> Option<String> {
        let Some(hub) = &self.hub else { return Some("the hub is not there".to_owned()) };
        for (number, node) in self.agents.iter().enumerate() {
            let Some(link) = &node.link else { return Some(format!("agent {number} is not there")) };
            if node.agent_end.is_none() || node.agent_end != node.hub_end {
                return Some(format!("agent {number} is not connected"));
            }
            let differs = match node.mode {
                Mode::Managed => self.managed_difference(number),
                Mode::Autonomous => self.autonomous_difference(number),
            };
            if differs.is_some() {
                return differs;
            }
            for (what, core) in [("hub", &hub.links[number].core), ("agent", &link.core)] {
                if !core.is_quiet() {
                    return Some(format!("the {what}'s side of agent {number} is at work"));
                }
                if let Some((key, message)) = core.troubles().next() {
                    return Some(format!("the {what}'s side of agent {number} has trouble with {key:?}: {message}"));
                }
            }
            if hub.links[number].side.leftovers() + link.side.leftovers() > 0 {
                return Some(format!("something about agent {number} is still remembered"));
            }
        }
        None
    }

    fn is_exact(&self) -> bool {
        self.setting.digest && !self.setting.versions_change
    }

    fn managed_difference(&self, number: usize) -> Option<String> {
        let node = &self.agents[number];
        let mut wanted: BTreeMap<Key, Value> = BTreeMap::new();
        let projects: BTreeMap<&str, Value> = self
            .hub_api
            .of_kind(Kind::AppProject)
            .filter(|(_, object)| mapping::is_distributed_project(&self.side, object))
            .filter(|(_, object)| mapping::project_goes_to(&self.side, object, &node.name))
            .map(|(key, object)| (key.name.as_str(), mapping::project_for_agent(&self.side, object, &node.name)))
            .collect();
        for (key, object) in &self.hub_api.objects {
            let local = Key { namespace: NAMESPACE.into(), ..key.clone() };
            match key.kind {
                Kind::Application if key.namespace == node.name => {
                    wanted.insert(local, (**object).clone());
                }
                Kind::AppProject => {
                    if let Some(project) = projects.get(key.name.as_str()) {
                        wanted.insert(local, project.clone());
                    }
                }
                Kind::Repository => {
                    let project = mapping::repository_project(object).unwrap_or_default();
                    if projects.contains_key(project.as_str()) {
                        wanted.insert(local, (**object).clone());
                    }
                }
                Kind::Application => {}
            }
        }
        let is_exact = self.is_exact();
        for (key, copy) in &node.api.objects {
            let Some(source) = wanted.remove(key) else { return Some(format!("agent {number} has {key:?} too much")) };
            if object::source_uid(copy) != Some(object::uid(&source)) {
                return Some(format!("agent {number} has {key:?} from another source"));
            }
            if let Some(field) = differing(&source, copy, is_exact) {
                return Some(format!("{field} of {key:?} at agent {number} differs"));
            }
        }
        wanted.keys().next().map(|key| format!("agent {number} lacks {key:?}"))
    }

    fn autonomous_difference(&self, number: usize) -> Option<String> {
        let node = &self.agents[number];
        let mut wanted: BTreeMap<Key, Value> = BTreeMap::new();
        for (key, object) in &node.api.objects {
            let (key, mirror) = match key.kind {
                Kind::Application => {
                    let on_hub = Key { namespace: node.name.clone(), ..key.clone() };
                    (on_hub, mapping::mirrored_application(&node.name, object))
                }
                Kind::AppProject => {
                    let on_hub = Key { name: format!("{}-{}", node.name, key.name), ..key.clone() };
                    (on_hub, mapping::mirrored_project(&node.name, object))
                }
                Kind::Repository => continue,
            };
            wanted.insert(key, mirror.expect("everything here can be mirrored"));
        }
        let is_mirror = |key: &Key, object: &Object| match key.kind {
            Kind::Application => key.namespace == node.name,
            Kind::AppProject => object::source_uid(object).is_some() && key.name.starts_with(&node.name),
            Kind::Repository => false,
        };
        let is_exact = self.is_exact();
        for (key, mirror) in self.hub_api.objects.iter().filter(|(key, object)| is_mirror(key, object)) {
            let Some(source) = wanted.remove(key) else { return Some(format!("the hub has {key:?} too much")) };
            if object::source_uid(mirror) != Some(object::uid(&source)) {
                return Some(format!("the hub has {key:?} from another source"));
            }
            if let Some(field) = differing(&source, mirror, is_exact) {
                return Some(format!("{field} of {key:?} on the hub differs"));
            }
        }
        wanted.keys().next().map(|key| format!("the hub lacks {key:?}"))
    }

    /// Operations that were neither run nor ended as asked.
    pub(crate) fn lost_operation(&self) -> Option<String> {
        // Upstream's hub takes what was acknowledged for done, and clears it with the next status.
        if !self.is_exact() {
            return None;
        }
        for (id, asked) in self.ledger.asked.iter().filter(|(_, asked)| !asked.is_void) {
            let node = &self.agents[asked.agent];
            let key = Key { kind: Kind::Application, namespace: NAMESPACE.into(), name: asked.name.clone() };
            let Some(app) = node.api.get(&key) else { continue };
            let source = object::origin_uid(app);
            if source != asked.source {
                continue;
            }
            let starts = self.ledger.starts.get(id).copied().unwrap_or_default();
            if starts != 1 {
                return Some(format!("operation {id} of {} started {starts} times", asked.name));
            }
            let state = &app["status"]["operationState"];
            if asked.terminated && state["phase"] == "Running" && state["operation"]["sync"]["revision"] == **id {
                return Some(format!("operation {id} of {} is not ended", asked.name));
            }
        }
        None
    }
}

fn would_fail(there: Option<&Object>, write: &Write) -> bool {
    match write {
        Write::Create(_) => there.is_some(),
        Write::Replace(object) => {
            there.is_none_or(|there| object::resource_version(object) != object::resource_version(there))
        }
        Write::Delete { .. } => false,
    }
}

fn revision(app: &Value) -> i64 {
    app["spec"]["source"]["targetRevision"].as_str().and_then(|text| text.parse().ok()).unwrap_or(-1)
}

/// Which part of a source and its copy is not the same, but for what is to differ.
fn differing(source: &Value, copy: &Value, is_exact: bool) -> Option<&'static str> {
    let spec = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Value::Object(fields) = &mut spec {
            fields.remove("destination");
        }
        spec
    };
    if spec(source) != spec(copy) || source["data"] != copy["data"] {
        return Some("spec");
    }
    if source["status"] != copy["status"] {
        return Some("status");
    }
    if source["operation"] != copy["operation"] {
        return Some("operation");
    }
    // Upstream's way to compare is blind to these.
    if is_exact && mapping::shared_destination(source) != mapping::shared_destination(copy) {
        return Some("destination");
    }
    if is_exact && !mapping::same(&source["metadata"]["labels"], &copy["metadata"]["labels"]) {
        return Some("labels");
    }
    None
}
