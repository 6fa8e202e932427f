//! One hub, its agents, the APIs under them and the network between them, on one clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use thane_api::event::Event;
use thane_sync::Now;
use thane_sync::agent::AgentLink;
use thane_sync::hub::HubLink;
use thane_sync::link::{Effect, Note};
use thane_sync::mapping::{HubSide, Mode};
use thane_sync::object::Key;
use thane_sync::router::Router;
use thane_sync::work::{Outcome, Ticket, Write};

use crate::api::Api;
use crate::ledger::Ledger;
use crate::machine::Machine;
use crate::rng::Rng;
use crate::setting::Setting;
use crate::trace::Trace;

/// One end of a connection, by the agent's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Hub(usize),
    Agent(usize),
}

/// One API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Site {
    Hub,
    Agent(usize),
}

impl End {
    pub(crate) fn site(self) -> Site {
        match self {
            Self::Hub(_) => Site::Hub,
            Self::Agent(agent) => Site::Agent(agent),
        }
    }

    pub(crate) fn agent(self) -> usize {
        let (Self::Hub(agent) | Self::Agent(agent)) = self;
        agent
    }
}

#[derive(Debug)]
pub(crate) enum Happening {
    Watch(Site),
    Write(End, u64, Ticket, Key, Box<Write>),
    Answer(End, u64, Ticket, Box<Outcome>),
    /// The next packet of a connection arrives at this end.
    Packet(u64, End),
    Wake(End, u64),
    Dial(usize),
    Opened(usize, u64),
    Notice(End, u64),
    Start(Site),
    Users,
    Argo(usize),
    Fault,
    Heal,
}

pub(crate) struct HubProcess {
    pub(crate) router: Router,
    pub(crate) links: Vec<HubLink>,
}

pub(crate) struct AgentNode {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) api: Api,
    pub(crate) link: Option<AgentLink>,
    pub(crate) epoch: u64,
    /// Whether this process, and the hub's, compare by digest.
    pub(crate) digest: bool,
    pub(crate) partitioned_until: u64,
    pub(crate) hub_end: Option<u64>,
    pub(crate) agent_end: Option<u64>,
    pub(crate) opening: Option<u64>,
}

pub(crate) struct Conn {
    pub(crate) to_hub: VecDeque<Event>,
    pub(crate) to_agent: VecDeque<Event>,
    last_to_hub: u64,
    last_to_agent: u64,
    pub(crate) capacity: usize,
    pub(crate) latency: u64,
}

pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) setting: Setting,
    pub(crate) now: u64,
    pub(crate) wall_shift: i64,
    order: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    wakes: BTreeMap<End, u64>,
    pub(crate) side: Arc<HubSide>,
    pub(crate) hub_api: Api,
    pub(crate) hub: Option<HubProcess>,
    pub(crate) hub_epoch: u64,
    pub(crate) agents: Vec<AgentNode>,
    pub(crate) conns: BTreeMap<u64, Conn>,
    pub(crate) conn_ids: u64,
    pub(crate) healed: bool,
    pub(crate) trace: Trace,
    pub(crate) ledger: Ledger,
    /// Wakes in the current simulated second, to find a loop that never sleeps.
    wakes_in: (u64, u32),
    last_watch: BTreeMap<Site, u64>,
}

pub(crate) const NAMESPACE: &str = "argocd";
const WALL: i64 = 1_767_225_600_000;

impl World {
    pub(crate) fn new(seed: u64, is_traced: bool) -> Self {
        let mut rng = Rng::new(seed);
        let setting = Setting::random(&mut rng);
        let agents = setting.agents.iter().map(|(name, mode)| AgentNode {
            name: name.clone(),
            mode: *mode,
            api: Api::new(name),
            link: None,
            epoch: 0,
            digest: setting.digest,
            partitioned_until: 0,
            hub_end: None,
            agent_end: None,
            opening: None,
        });
        let mut world = Self {
            agents: agents.collect(),
            side: Arc::new(Setting::hub_side()),
            setting,
            rng,
            now: 0,
            wall_shift: 0,
            order: 0,
            queue: BTreeMap::new(),
            wakes: BTreeMap::new(),
            hub_api: Api::new("hub"),
            hub: None,
            hub_epoch: 0,
            conns: BTreeMap::new(),
            conn_ids: 0,
            healed: false,
            trace: Trace::new(is_traced),
            ledger: Ledger::default(),
            wakes_in: (0, 0),
            last_watch: BTreeMap::new(),
        };
        world.at(0, Happening::Start(Site::Hub));
        for agent in 0..world.agents.len() {
            world.at(1, Happening::Start(Site::Agent(agent)));
            world.at(10, Happening::Dial(agent));
            world.at(50, Happening::Argo(agent));
        }
        world.at(20, Happening::Users);
        world.at(500, Happening::Fault);
        let chaos = world.setting.chaos;
        world.at(chaos, Happening::Heal);
        world
    }

    pub(crate) fn at(&mut self, delay: u64, happening: Happening) {
        self.order += 1;
        self.queue.insert((self.now + delay, self.order), happening);
    }

    /// What a process that dies had sent reaches the API at once or never.
    pub(crate) fn hasten_writes(&mut self, site: Site) {
        let sent: Vec<(u64, u64)> = self
            .queue
            .iter()
            .filter(|(_, happening)| matches!(happening, Happening::Write(end, ..) if end.site() == site))
            .map(|(at, _)| *at)
            .collect();
        for at in sent {
            if let Some(write) = self.queue.remove(&at)
                && self.rng.percent(50)
            {
                self.at(1, write);
            }
        }
    }

    pub(crate) fn time(&self) -> Now {
        let wall = WALL + i64::try_from(self.now).expect("a short run") + self.wall_shift;
        Now {
            monotonic: Duration::from_millis(self.now),
            wall: Timestamp::from_millisecond(wall).expect("a time in this century"),
        }
    }

    pub(crate) fn api(&mut self, site: Site) -> &mut Api {
        match site {
            Site::Hub => &mut self.hub_api,
            Site::Agent(agent) => &mut self.agents[agent].api,
        }
    }

    pub(crate) fn machine(&mut self, end: End) -> Option<&mut dyn Machine> {
        match end {
            End::Hub(agent) => self.hub.as_mut().map(|hub| &mut hub.links[agent] as &mut dyn Machine),
            End::Agent(agent) => self.agents[agent].link.as_mut().map(|link| link as &mut dyn Machine),
        }
    }

    fn epoch(&self, end: End) -> u64 {
        match end {
            End::Hub(_) => self.hub_epoch,
            End::Agent(agent) => self.agents[agent].epoch,
        }
    }

    pub(crate) fn log(&mut self, what: &str, text: std::fmt::Arguments<'_>) {
        self.trace.line(self.now, what, text);
    }

    /// Runs everything up to that time.
    pub(crate) fn run_until(&mut self, until: u64) -> Result<(), String> {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((at, _), happening) = entry.remove_entry();
            self.now = at;
            self.happen(happening)?;
            if let Some(violation) = self.ledger.violation.take() {
                return Err(violation);
            }
        }
        self.now = until;
        Ok(())
    }

    fn happen(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Watch(site) => self.watch(site),
            Happening::Write(end, epoch, ticket, key, write) => self.write(end, epoch, ticket, &key, &write),
            Happening::Answer(end, epoch, ticket, outcome) => {
                if epoch == self.epoch(end) {
                    let now = self.time();
                    if let Some(machine) = self.machine(end) {
                        machine.written(now, ticket, *outcome);
                    }
                    self.pump(end)?;
                }
                return Ok(());
            }
            Happening::Packet(conn, end) => return self.packet(conn, end),
            Happening::Wake(end, epoch) => return self.wake(end, epoch),
            Happening::Dial(agent) => return self.dial(agent),
            Happening::Opened(agent, conn) => return self.opened(agent, conn),
            Happening::Notice(end, conn) => return self.notice(end, conn),
            Happening::Start(site) => self.start(site),
            Happening::Users => self.users(),
            Happening::Argo(agent) => self.argo(agent),
            Happening::Fault => return self.fault(),
            Happening::Heal => self.heal(),
        }
        self.watches_follow();
        self.pump_all()
    }

    /// Whatever changed on an API is told to its watch, a little later and in order.
    pub(crate) fn watches_follow(&mut self) {
        let sites: Vec<Site> = std::iter::once(Site::Hub).chain((0..self.agents.len()).map(Site::Agent)).collect();
        for site in sites {
            if self.api(site).unseen.is_empty() || self.last_watch.get(&site).is_some_and(|at| *at > self.now) {
                continue;
            }
            let slow = self.setting.slow_watch && !self.healed;
            let delay = if slow { self.rng.between(1, 3_000) } else { self.rng.between(1, 40) };
            self.last_watch.insert(site, self.now + delay);
            self.at(delay, Happening::Watch(site));
        }
    }

    fn watch(&mut self, site: Site) {
        let count = self.rng.between(1, 4);
        for _ in 0..count {
            let Some((key, seen)) = self.api(site).unseen.pop_front() else { return };
            self.tell(site, &key, seen);
        }
    }

    fn write(&mut self, end: End, epoch: u64, ticket: Ticket, key: &Key, write: &Write) {
        let fails = !self.healed && self.rng.percent(self.setting.write_failures);
        let is_applied = !fails || self.rng.percent(50);
        let mut outcome = Outcome::Gone;
        if is_applied {
            self.check_write(end, key, write);
            outcome = self.api(end.site()).write(key, write);
            let result = match &outcome {
                Outcome::Written(object) => format!("written {}", thane_sync::object::resource_version(object)),
                Outcome::Gone => "gone".to_owned(),
                Outcome::Stale(_) => "stale".to_owned(),
                Outcome::Failed(_) => "failed".to_owned(),
            };
            self.log(&format!("{end:?} write"), format_args!("{} {key:?}: {result}", verb(write)));
            self.trace.mark(self.now, "write", &key.name);
        }
        if fails {
            outcome = self.failure(is_applied);
            self.log(&format!("{end:?} write"), format_args!("{} {key:?}: {outcome:?}", verb(write)));
        }
        let delay = self.write_delay();
        self.at(delay, Happening::Answer(end, epoch, ticket, Box::new(outcome)));
    }

    fn write_delay(&mut self) -> u64 {
        if self.setting.slow_writes && !self.healed && self.rng.percent(20) {
            self.rng.between(50, 5_000)
        } else {
            self.rng.between(1, 30)
        }
    }

    fn wake(&mut self, end: End, epoch: u64) -> Result<(), String> {
        if self.wakes.get(&end) == Some(&self.now) {
            self.wakes.remove(&end);
        }
        if epoch != self.epoch(end) {
            return Ok(());
        }
        let second = self.now / 1000;
        self.wakes_in = if self.wakes_in.0 == second { (second, self.wakes_in.1 + 1) } else { (second, 1) };
        if self.wakes_in.1 > 700 * u32::try_from(self.agents.len()).expect("few") {
            return Err(format!("{end:?} never sleeps"));
        }
        let now = self.time();
        if let Some(machine) = self.machine(end) {
            machine.tick(now);
        }
        self.pump(end)
    }

    pub(crate) fn pump_all(&mut self) -> Result<(), String> {
        for agent in 0..self.agents.len() {
            self.pump(End::Hub(agent))?;
            self.pump(End::Agent(agent))?;
        }
        Ok(())
    }

    /// Does what a link wants done.
    pub(crate) fn pump(&mut self, end: End) -> Result<(), String> {
        let now = self.time();
        let epoch = self.epoch(end);
        let Some(machine) = self.machine(end) else { return Ok(()) };
        let effects = machine.effects();
        let queued = machine.core().outbox.len();
        let bound = machine.core().comparison_max() + machine.core().options().outbox.queue_max;
        let bound = self.ledger.bound(end, bound);
        if queued > bound {
            return Err(format!("{end:?} has {queued} events queued, more than {bound}"));
        }
        for effect in effects {
            match effect {
                Effect::Write(ticket, key, write) => {
                    let delay = self.write_delay();
                    self.at(delay, Happening::Write(end, epoch, ticket, key, Box::new(write)));
                }
                Effect::Pass(_) => return Err("live access without anybody who asked".to_owned()),
                Effect::Troubles(whose, report) => {
                    self.log(&format!("{end:?} troubles"), format_args!("{whose:?} {report:?}"));
                }
                Effect::Note(note) => self.note(end, &note),
            }
        }
        // Without room nothing is sent, however due: the other end's reading brings it on.
        let is_blocked = self.send(end);
        let Some(machine) = self.machine(end) else { return Ok(()) };
        if let Some(at) = if is_blocked { machine.next_tick() } else { machine.next_wake(now) } {
            let at = u64::try_from(at.as_micros().div_ceil(1000)).expect("a short run").max(self.now + 1);
            if self.wakes.get(&end).is_none_or(|scheduled| *scheduled > at || *scheduled <= self.now) {
                self.wakes.insert(end, at);
                self.at(at - self.now, Happening::Wake(end, epoch));
            }
        }
        Ok(())
    }

    fn note(&mut self, end: End, note: &Note) {
        if !matches!(note, Note::Acknowledged { .. } | Note::Applied { wrote: true, .. }) {
            self.log(&format!("{end:?} note"), format_args!("{note:?}"));
        }
    }

    /// Sends what is due; whether there is no room for more.
    fn send(&mut self, end: End) -> bool {
        let agent = end.agent();
        let is_to_hub = matches!(end, End::Agent(_));
        let Some(id) = (if is_to_hub { self.agents[agent].agent_end } else { self.agents[agent].hub_end }) else {
            return false;
        };
        let now = self.time();
        let duplicates = if self.healed { 0 } else { self.setting.duplicates };
        let room = self.room(id, is_to_hub);
        let Some(machine) = self.machine(end) else { return false };
        for event in machine.due(now, room) {
            self.ledger.sent(&event);
            self.trace.packets += 1;
            self.trace.mark(self.now, "send", &event.event_id);
            self.log(&format!("{end:?} sends"), format_args!("{}", describe(&event)));
            if self.setting.is_verbose {
                self.log("", format_args!("{}", String::from_utf8_lossy(&event.data)));
            }
            let copies = if self.rng.percent(duplicates) { 2 } else { 1 };
            for _ in 0..copies {
                let jitter = self.rng.between(0, 10);
                let Some(conn) = self.conns.get_mut(&id) else { break };
                let (queue, last) = if is_to_hub {
                    (&mut conn.to_hub, &mut conn.last_to_hub)
                } else {
                    (&mut conn.to_agent, &mut conn.last_to_agent)
                };
                queue.push_back(event.clone());
                *last = (self.now + conn.latency + jitter).max(*last);
                let (delay, there) = (*last - self.now, other(end));
                self.at(delay, Happening::Packet(id, there));
            }
        }
        self.room(id, is_to_hub) == 0
    }

    fn room(&self, id: u64, is_to_hub: bool) -> usize {
        // What is sent on a connection that is broken is lost.
        self.conns.get(&id).map_or(4, |conn| {
            conn.capacity.saturating_sub(if is_to_hub { conn.to_hub.len() } else { conn.to_agent.len() })
        })
    }

    fn packet(&mut self, id: u64, end: End) -> Result<(), String> {
        let agent = end.agent();
        if !self.conns.contains_key(&id) {
            return Ok(());
        }
        let open = if matches!(end, End::Hub(_)) { self.agents[agent].hub_end } else { self.agents[agent].agent_end };
        let is_ready = open == Some(id) && self.machine(end).is_some_and(|machine| !machine.is_full());
        if !is_ready {
            self.at(7, Happening::Packet(id, end));
            return Ok(());
        }
        let Some(conn) = self.conns.get_mut(&id) else { return Ok(()) };
        let queue = if matches!(end, End::Hub(_)) { &mut conn.to_hub } else { &mut conn.to_agent };
        let Some(event) = queue.pop_front() else { return Ok(()) };
        let now = self.time();
        if let Some(machine) = self.machine(end) {
            machine.received(now, event);
        }
        self.pump(end)?;
        // There is room again.
        self.pump(other(end))
    }

    pub(crate) fn open_conn(&mut self) -> u64 {
        self.conn_ids += 1;
        let latency = if self.healed { self.rng.between(1, 20) } else { self.rng.between(1, self.setting.latency) };
        let conn = Conn {
            to_hub: VecDeque::new(),
            to_agent: VecDeque::new(),
            last_to_hub: 0,
            last_to_agent: 0,
            capacity: self.setting.room,
            latency,
        };
        self.conns.insert(self.conn_ids, conn);
        self.conn_ids
    }
}

pub(crate) fn other(end: End) -> End {
    match end {
        End::Hub(agent) => End::Agent(agent),
        End::Agent(agent) => End::Hub(agent),
    }
}

fn verb(write: &Write) -> &'static str {
    match write {
        Write::Create(_) => "create",
        Write::Replace(_) => "replace",
        Write::Delete { .. } => "delete",
    }
}

fn describe(event: &Event) -> String {
    let (target, kind) = (event.target.as_str(), event.kind.as_str());
    format!("{target} {kind} {} {}", event.subject.as_deref().unwrap_or("-"), event.event_id)
}
