//! Both sides of one connection over a network that loses nothing: what one digest, one request and one failure lead to.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "the simulation needs more of it")]
#[path = "../sim/api.rs"]
mod api;
mod waits;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use thane_api::event::{Event, TRACE_PARENT, Target, Type};
use thane_sync::Now;
use thane_sync::agent::{Agent, AgentLink};
use thane_sync::failure::Class;
use thane_sync::hub::{Hub, HubLink};
use thane_sync::link::{Effect, Link, Note, Options, Peer, Report, Side, TROUBLES, Whose};
use thane_sync::mapping::{Adoption, AgentSide, HubSide, Mismatch, Mode, OnRecreate, Pattern, Placement};
use thane_sync::object::{Key, Kind};
use thane_sync::resync::{Checksum, DIGEST, DigestItems, PLACES};
use thane_sync::work::{Failure, Outcome, Write};

use api::Api;

const OURS: &str = "argocd";
const ALL: [&str; 3] = [DIGEST, PLACES, TROUBLES];

struct Pair {
    mode: Mode,
    placement: Placement,
    hub: HubLink,
    agent: AgentLink,
    hub_api: Api,
    agent_api: Api,
    /// What the agent's API says to whoever wants to make something.
    refuses: Option<&'static str>,
    /// Which writes to the agent's API fail for now.
    fails: fn(&Key, &Write) -> bool,
    /// What was sent, and whether by the hub.
    sent: Vec<(bool, Event)>,
    /// What happened, and whether on the hub.
    notes: Vec<(bool, Note)>,
    reports: Vec<(Whose, Report)>,
    seconds: u64,
}

impl Pair {
    fn new(mode: Mode, placement: Placement) -> Self {
        Self::with(mode, placement, &Options::default())
    }

    fn with(mode: Mode, placement: Placement, options: &Options) -> Self {
        let side = HubSide { namespace: OURS.into(), placement, allowed_namespaces: vec![Pattern::glob("*")] };
        let hub = Hub::new(Arc::new(side), "principal".into(), "alpha".into(), "alpha".into(), false);
        Self {
            mode,
            placement,
            hub: HubLink::new(hub, options.clone(), "hub".into()),
            agent: agent(mode, placement, options, 0),
            hub_api: Api::new("hub"),
            agent_api: Api::new("agent"),
            refuses: None,
            fails: |_, _| false,
            sent: Vec::new(),
            notes: Vec::new(),
            reports: Vec::new(),
            seconds: 0,
        }
    }

    fn now(&self) -> Now {
        Now { monotonic: Duration::from_secs(self.seconds), wall: jiff::Timestamp::UNIX_EPOCH }
    }

    fn connect(&mut self, capabilities: &[&str]) {
        let capabilities: BTreeSet<String> = capabilities.iter().map(|word| (*word).to_owned()).collect();
        let (now, peer) = (self.now(), Peer { capabilities });
        self.hub.agent_connected(now, self.mode, OURS.into(), peer.clone());
        self.agent.hub_connected(now, "alpha".into(), OURS.into(), peer);
        self.settle();
    }

    fn disconnect(&mut self) {
        let now = self.now();
        self.hub.disconnected(now);
        self.agent.disconnected(now);
    }

    /// Another process of the agent, which knows what its API has.
    fn restart_agent(&mut self) {
        self.disconnect();
        self.seconds += 1;
        self.agent_api.unseen.clear();
        self.agent = agent(self.mode, self.placement, &Options::default(), self.seconds);
        for (key, object) in &self.agent_api.objects {
            self.agent.initial(key, Arc::clone(object));
        }
        self.agent.loaded();
    }

    /// Lets both sides do what there is to do now.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let now = self.now();
            for (key, seen) in std::mem::take(&mut self.hub_api.unseen) {
                self.hub.seen(now, &key, seen);
            }
            for (key, seen) in std::mem::take(&mut self.agent_api.unseen) {
                self.agent.seen(now, &key, seen);
            }
            let hub_effects = self.hub.effects();
            let agent_effects = self.agent.effects();
            let mut is_idle = hub_effects.is_empty() && agent_effects.is_empty();
            for effect in hub_effects {
                let (link, api) = (&mut self.hub, &mut self.hub_api);
                effected(link, api, now, effect, |_, _| None, true, &mut self.notes, &mut self.reports);
            }
            for effect in agent_effects {
                let (link, api) = (&mut self.agent, &mut self.agent_api);
                let (refuses, fails) = (self.refuses, self.fails);
                let failure = |key: &Key, write: &Write| match refuses.filter(|_| matches!(write, Write::Create(_))) {
                    Some(why) => Some((Class::Permanent, why)),
                    None => fails(key, write).then_some((Class::Temporary, "not now")),
                };
                effected(link, api, now, effect, failure, false, &mut self.notes, &mut self.reports);
            }
            let (down, up) = (self.hub.due(now, 100), self.agent.due(now, 100));
            is_idle &= down.is_empty() && up.is_empty();
            for event in down {
                self.sent.push((true, event.clone()));
                self.agent.received(now, event);
            }
            for event in up {
                self.sent.push((false, event.clone()));
                self.hub.received(now, event);
            }
            if is_idle && self.hub_api.unseen.is_empty() && self.agent_api.unseen.is_empty() {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.sent.iter().rev().take(10).collect::<Vec<_>>());
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.seconds += 1;
            let now = self.now();
            self.hub.tick(now);
            self.agent.tick(now);
            self.settle();
        }
    }

    fn sent(&self, by_hub: bool, kind: &Type) -> Vec<&Event> {
        let of_kind = self.sent.iter().filter(|(hub, event)| *hub == by_hub && event.kind == *kind);
        of_kind.map(|(_, event)| event).collect()
    }

    /// How much was sent again on each side because somebody asked.
    fn resent(&self) -> Vec<(bool, usize)> {
        let asked = self.notes.iter().filter_map(|(on_hub, note)| match note {
            Note::Resent { reason: "asked", objects } => Some((*on_hub, *objects)),
            _ => None,
        });
        asked.collect()
    }

    fn last_report(&self) -> &Report {
        let (whose, report) = self.reports.last().expect("something was told");
        assert_eq!(*whose, Whose::Agent);
        report
    }
}

#[expect(clippy::too_many_arguments, reason = "a pair has many parts")]
fn effected<S: Side>(
    link: &mut Link<S>,
    api: &mut Api,
    now: Now,
    effect: Effect,
    failure: impl Fn(&Key, &Write) -> Option<(Class, &'static str)>,
    on_hub: bool,
    notes: &mut Vec<(bool, Note)>,
    reports: &mut Vec<(Whose, Report)>,
) {
    match effect {
        Effect::Write(ticket, key, write) => {
            let outcome = match failure(&key, &write) {
                Some((class, why)) => Outcome::Failed(Failure { class, message: why.to_owned() }),
                None => api.write(&key, &write),
            };
            link.written(now, ticket, outcome);
        }
        Effect::Note(note) => notes.push((on_hub, note)),
        Effect::Troubles(whose, report) => reports.push((whose, report)),
        Effect::Pass(event) => panic!("{event:?}"),
    }
}

fn agent(mode: Mode, placement: Placement, options: &Options, start: u64) -> AgentLink {
    let side = AgentSide {
        name: "alpha".into(),
        mode,
        namespace: OURS.into(),
        hub_namespace: OURS.into(),
        placement,
        allowed_namespaces: Vec::new(),
        mismatch: Mismatch::Recreate,
        adoption: Adoption::Always,
        on_recreate: OnRecreate::Ignore,
    };
    AgentLink::new(Agent::new(side, false), options.clone(), format!("agent-{start}"))
}

fn application(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "project": "default", "source": {"repoURL": "https://git.example/x", "targetRevision": "1"},
            "destination": {"name": "alpha", "namespace": "apps"},
        },
    })
}

fn key(namespace: &str, name: &str) -> Key {
    Key { kind: Kind::Application, namespace: namespace.into(), name: name.into() }
}

fn managed() -> Pair {
    let mut pair = Pair::new(Mode::Managed, Placement::Namespace);
    pair.hub_api.create(Kind::Application, application("alpha", "shop")).unwrap();
    pair
}

fn autonomous() -> Pair {
    let mut pair = Pair::new(Mode::Autonomous, Placement::Namespace);
    pair.agent_api.create(Kind::Application, application(OURS, "shop")).unwrap();
    pair
}

fn trace(event: &Event) -> String {
    event.extensions[TRACE_PARENT].split('-').nth(1).unwrap().to_owned()
}

#[test]
fn a_destination_that_differs_is_found_where_both_sides_look_for_it() {
    for (capabilities, expected) in [(&ALL[..], "apps"), (&[DIGEST][..], "elsewhere")] {
        let mut pair = managed();
        pair.connect(capabilities);
        let copy = key(OURS, "shop");
        assert_eq!(pair.agent_api.get(&copy).unwrap()["spec"]["destination"]["name"], "in-cluster");
        pair.agent_api.edit(&copy, |app| app["spec"]["destination"]["namespace"] = json!("elsewhere"));
        pair.restart_agent();
        pair.connect(capabilities);
        pair.pass(2);
        assert_eq!(pair.agent_api.get(&copy).unwrap()["spec"]["destination"]["namespace"], expected);
        let found = pair.sent(true, &Type::DigestItems).len();
        // An older peer has no such digest, and the comparison with it says that all is well.
        let before = found;
        pair.pass(700);
        assert_eq!(pair.sent(true, &Type::DigestItems).len(), before, "it settles");
    }
}

#[test]
fn mirrors_are_deployed_where_their_originals_are() {
    let mut pair = autonomous();
    pair.connect(&ALL);
    let mirror = key("alpha", "shop");
    assert_eq!(
        pair.hub_api.get(&mirror).unwrap()["spec"]["destination"],
        json!({"name": "alpha", "namespace": "apps"})
    );
    pair.disconnect();
    pair.agent_api.edit(&key(OURS, "shop"), |app| app["spec"]["destination"]["namespace"] = json!("elsewhere"));
    pair.restart_agent();
    pair.connect(&ALL);
    pair.pass(2);
    assert_eq!(pair.hub_api.get(&mirror).unwrap()["spec"]["destination"]["namespace"], "elsewhere");
    let before = pair.sent(true, &Type::DigestItems).len();
    pair.pass(700);
    assert_eq!(pair.sent(true, &Type::DigestItems).len(), before, "it settles");
}

#[test]
fn whoever_asks_gets_everything_again_even_if_the_agent_is_away() {
    for is_away in [false, true] {
        let mut pair = managed();
        pair.connect(&ALL);
        pair.agent_api.edit(&key(OURS, "shop"), |app| app["status"] = json!({"sync": {"status": "Synced"}}));
        pair.settle();
        pair.sent.clear();
        if is_away {
            pair.disconnect();
        }
        let now = pair.now();
        pair.hub.send_everything(now);
        pair.settle();
        if is_away {
            assert!(pair.sent.is_empty());
            pair.connect(&ALL);
        }
        pair.pass(3);
        assert_eq!(pair.sent(true, &Type::SpecUpdate).len(), 1, "away: {is_away}");
        assert_eq!(pair.sent(false, &Type::StatusUpdate).len(), 1, "away: {is_away}");
        assert_eq!(pair.resent(), [(true, 1), (false, 1)]);
        pair.sent.clear();
        pair.pass(400);
        assert!(pair.sent(true, &Type::SpecUpdate).is_empty(), "once");
    }
}

#[test]
fn an_autonomous_agent_sends_everything_when_its_hub_is_asked() {
    for is_away in [false, true] {
        let mut pair = autonomous();
        pair.connect(&ALL);
        pair.pass(2);
        pair.sent.clear();
        if is_away {
            pair.disconnect();
        }
        let now = pair.now();
        pair.hub.send_everything(now);
        pair.settle();
        if is_away {
            pair.connect(&ALL);
        }
        pair.pass(3);
        assert_eq!(pair.sent(false, &Type::Create).len(), 1, "away: {is_away}");
        assert_eq!(pair.resent(), [(true, 0), (false, 1)]);
    }
}

#[test]
fn an_application_of_the_hubs_people_beside_mirrors_is_no_difference() {
    let mut pair = autonomous();
    pair.hub_api.create(Kind::Application, application("alpha", "theirs")).unwrap();
    pair.connect(&ALL);
    pair.pass(5);
    pair.sent.clear();
    pair.pass(1_000);
    assert!(pair.sent(true, &Type::DigestItems).is_empty());
    assert!(!pair.sent(false, &Type::Digest).is_empty(), "they did compare");
    assert!(pair.hub_api.get(&key("alpha", "theirs")).is_some());
}

#[test]
fn one_trace_leads_from_the_hubs_write_to_its_effect_and_back() {
    let mut pair = managed();
    pair.connect(&ALL);
    pair.pass(2);
    let of_creation =
        pair.sent.iter().rfind(|(by_hub, event)| *by_hub && event.target == Target::Application).unwrap().clone();
    let id = trace(&of_creation.1);
    let applied = pair.notes.iter().rev().find_map(|(on_hub, note)| match note {
        Note::Applied { target: Target::Application, trace, .. } if !on_hub => trace.clone(),
        _ => None,
    });
    assert_eq!(applied.as_ref(), Some(&of_creation.1.extensions[TRACE_PARENT]));
    let acknowledged = pair.notes.iter().any(|(on_hub, note)| match note {
        Note::Acknowledged { trace, .. } => *on_hub && *trace == applied,
        _ => false,
    });
    assert!(acknowledged, "the sender says so, too");
    pair.agent_api.edit(&key(OURS, "shop"), |app| app["status"] = json!({"sync": {"status": "Synced"}}));
    pair.settle();
    let status = pair.sent(false, &Type::StatusUpdate);
    let last = status.last().unwrap();
    assert_eq!(trace(last), id);
    assert_ne!(last.extensions[TRACE_PARENT], applied.unwrap(), "a span of its own");
    pair.hub_api.edit(&key("alpha", "shop"), |app| app["spec"]["source"]["targetRevision"] = json!("2"));
    pair.settle();
    assert_ne!(trace(pair.sent(true, &Type::SpecUpdate).last().unwrap()), id, "another write, another trace");
}

#[test]
fn the_hub_hears_of_what_its_agent_may_not_do_until_it_may() {
    let mut pair = managed();
    pair.refuses = Some("applications.argoproj.io is forbidden: User \"agent\" cannot create resource");
    pair.connect(&ALL);
    pair.pass(2);
    let report = pair.last_report();
    assert_eq!((report.count, &*report.items[0].name, &*report.items[0].namespace), (1, "shop", OURS));
    assert!(report.items[0].message.contains("cannot create"), "{report:?}");
    let told = pair.reports.len();
    pair.pass(200);
    assert_eq!(pair.reports.len(), told, "the same trouble is told once");
    pair.disconnect();
    pair.connect(&ALL);
    assert!(pair.reports.len() > told, "and again on a new stream");
    assert_eq!(pair.last_report().count, 1);
    pair.refuses = None;
    pair.pass(1_000);
    assert_eq!(*pair.last_report(), Report::default());
    assert!(pair.agent_api.get(&key(OURS, "shop")).is_some());
}

#[test]
fn an_agent_that_is_told_nothing_of_troubles_says_nothing() {
    let mut pair = managed();
    pair.refuses = Some("forbidden");
    pair.connect(&[DIGEST]);
    pair.pass(100);
    assert!(pair.reports.is_empty() && pair.sent(false, &Type::Troubles).is_empty());
}

#[test]
fn a_namespace_that_is_not_allowed_is_trouble_until_the_application_goes() {
    let mut pair = Pair::new(Mode::Managed, Placement::Destination);
    pair.hub_api.create(Kind::Application, application("team", "shop")).unwrap();
    pair.connect(&ALL);
    pair.pass(2);
    let report = pair.last_report();
    assert_eq!((report.count, &*report.items[0].namespace), (1, "team"));
    assert!(report.items[0].message.contains("not one of those allowed"), "{report:?}");
    pair.hub_api.delete(&key("team", "shop"), None).unwrap();
    pair.settle();
    assert_eq!(*pair.last_report(), Report::default());
}

#[test]
fn parts_of_an_earlier_comparison_are_not_believed() {
    let mut pair = managed();
    pair.connect(&ALL);
    pair.pass(2);
    pair.sent.clear();
    let items = DigestItems { round: Checksum(Some(vec![1; 32])), more: false, items: Vec::new() };
    let event = Event {
        target: Target::ResourceResync,
        kind: Type::DigestItems,
        resource_id: "stale".into(),
        event_id: "stale".into(),
        subject: None,
        data: Bytes::from(serde_json::to_vec(&items).unwrap()),
        extensions: [].into(),
    };
    let now = pair.now();
    pair.agent.received(now, event);
    pair.settle();
    assert!(pair.sent(false, &Type::RequestUpdate).is_empty(), "{:?}", pair.sent);
}

#[test]
fn a_stream_without_room_does_not_stop_the_clock() {
    let mut pair = managed();
    pair.connect(&ALL);
    pair.pass(2);
    pair.hub_api.edit(&key("alpha", "shop"), |app| app["spec"]["source"]["targetRevision"] = json!("2"));
    let now = pair.now();
    for (key, seen) in std::mem::take(&mut pair.hub_api.unseen) {
        pair.hub.seen(now, &key, seen);
    }
    assert_eq!(pair.hub.next_wake(now), Some(now.monotonic), "there is something to send");
    let next = pair.hub.next_tick().unwrap();
    assert!(next > now.monotonic, "without room for it the next comparison is what is due: {next:?}");
}
