//! Connections and processes come and go.

use std::sync::Arc;

use thane_sync::failure::Class;
use thane_sync::hub::Hub;
use thane_sync::link::{Link, Peer, TROUBLES};
use thane_sync::object::{Key, Kind};
use thane_sync::resync::{DIGEST, PLACES};
use thane_sync::router::{News, Router};
use thane_sync::store::Seen;
use thane_sync::work::{Failure, Outcome};

use crate::world::{End, Happening, HubProcess, NAMESPACE, Site, World};

impl World {
    pub(crate) fn failure(&mut self, is_applied: bool) -> Outcome {
        // What was acknowledged and then lost with a process only our own way to compare finds again.
        let is_exact = self.setting.digest && !self.setting.versions_change;
        let class = if is_exact && !is_applied && self.rng.percent(10) { Class::Permanent } else { Class::Temporary };
        Outcome::Failed(Failure { class, message: if is_applied { "no answer" } else { "refused" }.to_owned() })
    }

    /// Something a watch saw reaches the process that watches.
    pub(crate) fn tell(&mut self, site: Site, key: &Key, seen: Seen) {
        let now = self.time();
        match site {
            Site::Hub => {
                let Some(hub) = &mut self.hub else { return };
                let news = match seen {
                    Seen::Applied(object) => hub.router.applied(key.kind, object),
                    Seen::Gone(version) => hub.router.gone(key, version),
                };
                self.news(news);
            }
            Site::Agent(agent) => {
                if let Some(link) = &mut self.agents[agent].link {
                    link.seen(now, key, seen);
                }
            }
        }
    }

    fn news(&mut self, news: Vec<News>) {
        let now = self.time();
        for News { agent, key, seen } in news {
            let number = self.agents.iter().position(|node| node.name == agent).expect("news for an agent there is");
            if let Some(hub) = &mut self.hub {
                hub.links[number].seen(now, &key, seen);
            }
        }
    }

    /// A watch was too far behind: everything is listed, what is not in it is gone.
    fn relist(&mut self, site: Site) {
        let listed = self.api(site).objects.clone();
        self.api(site).unseen.clear();
        let version = self.api(site).version;
        let known: Vec<Key> = match site {
            Site::Hub => match &self.hub {
                Some(hub) => Kind::ALL.into_iter().flat_map(|kind| hub.router.keys(kind)).collect(),
                None => return,
            },
            Site::Agent(agent) => match &self.agents[agent].link {
                Some(link) => link.core.store.iter().map(|(key, _)| key.clone()).collect(),
                None => return,
            },
        };
        for key in known.iter().filter(|key| !listed.contains_key(key)) {
            self.tell(site, key, Seen::Gone(Some(version)));
        }
        // A link may know of objects by answers that the watch had not told of.
        let now = self.time();
        for link in self.hub.iter_mut().filter(|_| site == Site::Hub).flat_map(|hub| &mut hub.links) {
            for kind in Kind::ALL {
                link.listed(now, kind, version, |key| listed.contains_key(key));
            }
        }
        for (key, object) in &listed {
            self.tell(site, key, Seen::Applied(Arc::clone(object)));
        }
    }

    pub(crate) fn start(&mut self, site: Site) {
        self.log("start", format_args!("{site:?}"));
        self.api(site).unseen.clear();
        let objects = self.api(site).objects.clone();
        match site {
            Site::Hub => self.start_hub(),
            Site::Agent(agent) => {
                if self.setting.versions_change {
                    self.agents[agent].digest = self.rng.percent(50);
                }
                let node = &mut self.agents[agent];
                let rules = self.setting.agent_side(&node.name, node.mode);
                let salt = format!("{}{}", node.name, node.epoch);
                let mut link =
                    Link::new(thane_sync::agent::Agent::new(rules, false), self.setting.options.clone(), salt);
                for (key, object) in &objects {
                    link.initial(key, Arc::clone(object));
                }
                link.loaded();
                node.link = Some(link);
            }
        }
    }

    fn start_hub(&mut self) {
        let mut router = Router::new(Arc::clone(&self.side));
        let links = self.agents.iter().map(|node| {
            let side = Arc::clone(&self.side);
            let hub = Hub::new(side, "hub-uid".into(), node.name.clone(), node.name.clone(), false);
            Link::new(hub, self.setting.options.clone(), format!("hub-{}-{}", node.name, self.hub_epoch))
        });
        let links = links.collect();
        for node in &self.agents {
            router.add_agent(&node.name);
        }
        self.hub = Some(HubProcess { router, links });
        let objects = self.hub_api.objects.clone();
        for (key, object) in &objects {
            self.tell(Site::Hub, key, Seen::Applied(Arc::clone(object)));
        }
    }

    pub(crate) fn dial(&mut self, agent: usize) -> Result<(), String> {
        let delay = self.rng.between(200, 2_000);
        self.at(delay, Happening::Dial(agent));
        let node = &self.agents[agent];
        let can = node.link.is_some() && node.agent_end.is_none() && node.opening.is_none();
        if !can || self.hub.is_none() || (!self.healed && node.partitioned_until > self.now) {
            return Ok(());
        }
        let id = self.open_conn();
        let now = self.time();
        self.trace.mark(self.now, "dial", &id.to_string());
        self.log("connect", format_args!("agent {agent} as {id}"));
        if let Some(old) = self.agents[agent].hub_end.take() {
            self.conns.remove(&old);
            if let Some(hub) = &mut self.hub {
                hub.links[agent].disconnected(now);
            }
        }
        let (name, mode) = (self.agents[agent].name.clone(), self.agents[agent].mode);
        let news = self.hub.as_mut().map(|hub| hub.router.set_mode(&name, mode)).unwrap_or_default();
        self.news(news);
        let peer = self.peer(agent);
        if let Some(hub) = &mut self.hub {
            hub.links[agent].agent_connected(now, mode, NAMESPACE.into(), peer);
        }
        self.agents[agent].hub_end = Some(id);
        self.agents[agent].opening = Some(id);
        let delay = self.rng.between(1, 50);
        self.at(delay, Happening::Opened(agent, id));
        self.pump_all()
    }

    fn peer(&self, agent: usize) -> Peer {
        let ours: &[&str] = if self.agents[agent].digest { &[DIGEST, PLACES, TROUBLES] } else { &[] };
        let capabilities = ours.iter().map(|word| (*word).to_owned()).collect();
        Peer { capabilities }
    }

    pub(crate) fn opened(&mut self, agent: usize, id: u64) -> Result<(), String> {
        if self.agents[agent].opening == Some(id) {
            self.agents[agent].opening = None;
        }
        if !self.conns.contains_key(&id) || self.agents[agent].link.is_none() {
            return Ok(());
        }
        let (now, peer) = (self.time(), self.peer(agent));
        let node = &mut self.agents[agent];
        node.agent_end = Some(id);
        let name = node.name.clone();
        if let Some(link) = &mut node.link {
            link.hub_connected(now, name, NAMESPACE.into(), peer);
        }
        self.pump(End::Agent(agent))
    }

    pub(crate) fn notice(&mut self, end: End, id: u64) -> Result<(), String> {
        let now = self.time();
        let node = &mut self.agents[end.agent()];
        let slot = if matches!(end, End::Hub(_)) { &mut node.hub_end } else { &mut node.agent_end };
        if *slot == Some(id) {
            *slot = None;
            self.log("disconnect", format_args!("{end:?} of {id}"));
            if let Some(machine) = self.machine(end) {
                machine.disconnected(now);
            }
            self.pump(end)?;
        }
        Ok(())
    }

    fn break_conn(&mut self, agent: usize) {
        let node = &mut self.agents[agent];
        let ids: Vec<u64> = [node.hub_end, node.agent_end, node.opening].into_iter().flatten().collect();
        node.opening = None;
        for id in ids {
            if self.conns.remove(&id).is_some() {
                let (first, second) = (self.rng.between(0, 15_000), self.rng.between(0, 15_000));
                self.at(first, Happening::Notice(End::Hub(agent), id));
                self.at(second, Happening::Notice(End::Agent(agent), id));
            }
        }
    }

    pub(crate) fn fault(&mut self) -> Result<(), String> {
        let Some(every) = self.setting.faults.filter(|_| !self.healed) else { return Ok(()) };
        let delay = self.rng.between(1, every * 2);
        self.at(delay, Happening::Fault);
        let agent = self.rng.index(self.agents.len());
        let what = self.rng.below(8);
        self.log("fault", format_args!("{what} at agent {agent}"));
        match what {
            0 | 1 => self.break_conn(agent),
            2 => {
                let length = self.rng.pick(&[1_000, 10_000, 60_000]);
                self.agents[agent].partitioned_until = self.now + length;
                self.break_conn(agent);
            }
            3 => self.crash(Site::Hub),
            4 => self.crash(Site::Agent(agent)),
            5 => {
                let site = if self.rng.percent(50) { Site::Hub } else { Site::Agent(agent) };
                self.relist(site);
            }
            6 => {
                let jump = i64::try_from(self.rng.below(7_200_000)).expect("two hours");
                self.wall_shift += jump - 3_600_000;
            }
            _ => {
                let now = self.time();
                let end = if self.rng.percent(50) { End::Hub(agent) } else { End::Agent(agent) };
                if let Some(machine) = self.machine(end) {
                    machine.resync(now);
                }
            }
        }
        self.watches_follow();
        self.pump_all()
    }

    fn crash(&mut self, site: Site) {
        self.hasten_writes(site);
        match site {
            Site::Hub => {
                if self.hub.take().is_none() {
                    return;
                }
                self.hub_epoch += 1;
                for agent in 0..self.agents.len() {
                    self.break_conn(agent);
                    self.agents[agent].hub_end = None;
                }
            }
            Site::Agent(agent) => {
                if self.agents[agent].link.take().is_none() {
                    return;
                }
                self.break_conn(agent);
                self.agents[agent].epoch += 1;
                self.agents[agent].agent_end = None;
            }
        }
        let delay = self.rng.pick(&[100, 2_000, 20_000]);
        self.at(delay, Happening::Start(site));
    }

    pub(crate) fn heal(&mut self) {
        self.log("heal", format_args!(""));
        self.healed = true;
    }
}
