//! Random commands, against what must always hold and against a simple model of keys and locks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::access::ANONYMOUS;
use crate::access::builtin::MANAGEMENT;
use crate::command::{Batch, CatalogVerb, Item, TxnOp};
use crate::model::{RuleSet, Token, UserEvent};

const NODES: [&str; 3] = ["n1", "N1", "n2"];
const NODE_IDS: [&str; 3] = ["", "aaaaaaaa-0000-0000-0000-000000000001", "bbbbbbbb-0000-0000-0000-000000000002"];
const SERVICES: [&str; 3] = ["web", "Web", "db"];
const INSTANCES: [&str; 3] = ["w", "x", "y"];
const TAGS: [&[&str]; 4] = [&[], &["a"], &["b", "a"], &["b"]];
const CHECKS: [&str; 3] = ["c", "d", SERF_HEALTH];
const KEYS: [&str; 5] = ["a", "a/b", "a/c", "ab", "b"];
const SESSIONS: [&str; 3] = ["s1", "s2", "s3"];
const AGENTS: [&str; 2] = ["agent-1", "agent-2"];
const STATUSES: [Status; 3] = [Status::Passing, Status::Warning, Status::Critical];

/// Numbers that choose.
type Dice = [u8; 8];

fn pick<T: Copy>(from: &[T], die: u8) -> T {
    from[usize::from(die) % from.len()]
}

#[derive(Debug, Clone)]
enum Step {
    Command(Option<&'static str>, Box<Command>),
    Due(Due),
    Seen(&'static str),
    Pass(u64),
}

fn a_node(dice: Dice) -> Node {
    let address = pick(&["10.0.0.1", "10.0.0.2"], dice[7]).to_owned();
    Node { id: pick(&NODE_IDS, dice[6] / 4).to_owned(), address, ..node(pick(&NODES, dice[1])) }
}

fn a_service(dice: Dice) -> Service {
    service(pick(&INSTANCES, dice[2]), pick(&SERVICES, dice[3]), pick(&TAGS, dice[4]))
}

fn a_check(dice: Dice) -> Check {
    check(pick(&CHECKS, dice[5]), pick(&["", "w", "x"], dice[2]), pick(&STATUSES, dice[6]))
}

fn a_kv(dice: Dice) -> KvOp {
    const VERBS: [KvVerb; 10] = [
        KvVerb::Set,
        KvVerb::Set,
        KvVerb::Cas,
        KvVerb::Lock,
        KvVerb::Lock,
        KvVerb::Lock,
        KvVerb::Unlock,
        KvVerb::Delete,
        KvVerb::DeleteTree,
        KvVerb::DeleteCas,
    ];
    KvOp {
        value: Bytes::from(pick(&["1", "2"], dice[3])),
        index: u64::from(dice[4] % 32),
        session: pick(&SESSIONS, dice[5]).to_owned(),
        ..op(pick(&VERBS, dice[1]), pick(&KEYS, dice[2]))
    }
}

fn a_batch(dice: Dice) -> Batch {
    let items = vec![
        Item::Service(Box::new(a_service(dice))),
        Item::Check(Box::new(a_check(dice))),
        if pick(&[true, false], dice[3]) {
            Item::NoService(pick(&INSTANCES, dice[4]).to_owned())
        } else {
            Item::NoCheck(pick(&CHECKS, dice[5]).to_owned())
        },
    ];
    let incarnation = pick(&["one", "two"], dice[4] / 64).to_owned();
    let items = items.into_iter().take(usize::from(dice[7] % 4)).collect();
    Batch { node: a_node(dice), incarnation, sequence: u64::from(dice[6]), full: dice[5] < 64, items }
}

fn a_txn(dice: Dice) -> Vec<TxnOp> {
    let other = [dice[0], dice[2], dice[1], dice[4], dice[3], dice[6], dice[5], dice[0]];
    let on = pick(&NODES, dice[1]).to_owned();
    let verb = pick(&[CatalogVerb::Set, CatalogVerb::Delete, CatalogVerb::Set, CatalogVerb::Get], dice[2]);
    let mut ops = vec![
        TxnOp::Kv(a_kv(dice)),
        TxnOp::Node(verb, Box::new(a_node(other)), 0),
        TxnOp::Service(verb, on.clone(), Box::new(a_service(dice)), 0),
        TxnOp::Check(verb, on, Box::new(a_check(other)), 0),
        TxnOp::Kv(a_kv(other)),
    ];
    ops.rotate_left(usize::from(dice[7]) % 5);
    ops.truncate(1 + usize::from(dice[6]) % 4);
    ops
}

fn a_session(dice: Dice) -> Session {
    let node_checks = if dice[4] < 128 { vec![] } else { vec![pick(&CHECKS, dice[5]).to_owned()] };
    let behavior = pick(&[Behavior::Release, Behavior::Delete], dice[3]);
    let lock_delay = Duration::from_secs(u64::from(dice[6] % 3) * 10);
    Session { lock_delay, node_checks, ..session(pick(&SESSIONS, dice[1]), pick(&NODES, dice[2]), behavior) }
}

fn step(dice: Dice) -> Step {
    let agent = pick(&AGENTS, dice[7]);
    let command = match dice[0] % 20 {
        0..=3 => Command::Kv(a_kv(dice)),
        4..=6 => register(
            a_node(dice),
            (dice[4] < 170).then(|| a_service(dice)),
            if dice[5] < 128 { vec![a_check(dice)] } else { vec![] },
        ),
        7 => deregister(pick(&NODES, dice[1]), Some(pick(&INSTANCES, dice[2])), None),
        8 => deregister(pick(&NODES, dice[1]), None, Some(pick(&CHECKS, dice[2]))),
        9 if dice[2] < 128 => deregister(pick(&NODES, dice[1]), None, None),
        10 | 11 => Command::CreateSession(a_session(dice)),
        12 => Command::DestroySession(pick(&SESSIONS, dice[1]).to_owned()),
        13 | 14 => Command::Txn(a_txn(dice)),
        15 | 16 => return Step::Command(None, Box::new(Command::Agent(agent.to_owned(), a_batch(dice)))),
        17 => match dice[1] % 4 {
            0 => return Step::Seen(agent),
            1 => return Step::Due(Due::Lease(agent.to_owned())),
            2 => return Step::Due(Due::Reap(agent.to_owned())),
            _ => return Step::Due(Due::Session(pick(&SESSIONS, dice[2]).to_owned())),
        },
        18 => match dice[1] % 3 {
            0 => Command::Fire(UserEvent { id: dice[2].to_string(), name: "e".to_owned(), ..UserEvent::default() }),
            1 if dice[2].is_multiple_of(2) => Command::DeleteToken(ANONYMOUS.to_owned()),
            1 => Command::DeleteRuleSet("set".to_owned()),
            _ if dice[2].is_multiple_of(4) => {
                Command::PutRuleSet(RuleSet { id: "set".to_owned(), name: dice[3].to_string(), ..RuleSet::default() })
            }
            _ => Command::PutToken(Token {
                accessor: ANONYMOUS.to_owned(),
                description: dice[2].to_string(),
                rule_sets: vec![if dice[2].is_multiple_of(3) { "set" } else { MANAGEMENT }.to_owned()],
                ..Token::default()
            }),
        },
        _ => return Step::Pass(u64::from(dice[1] % 12)),
    };
    Step::Command((dice[6] < 128).then_some(agent), Box::new(command))
}

fn topics() -> Vec<Topic> {
    let own = |text: &str| text.to_owned();
    let mut topics = vec![Topic::Services, Topic::Instances, Topic::Nodes, Topic::Checks];
    topics.extend([Topic::Sessions, Topic::Events, Topic::Tokens]);
    topics.extend(["web", "db", "none"].map(|name| Topic::Service(own(name))));
    topics.extend(["n1", "n2", "n3"].map(|name| Topic::Node(own(name))));
    topics.extend(KEYS.map(|key| Topic::Key(own(key))));
    topics.extend(["", "a", "a/", "b", "z"].map(|prefix| Topic::Keys(own(prefix))));
    topics
}

/// What a step did, whatever it was.
fn take(bench: &mut Bench, step: &Step) -> (Applied, Option<Result<Outcome, Refusal>>) {
    match step {
        Step::Command(agent, command) => {
            let decided = decide(&bench.tables, command, &bench.asker(*agent));
            match decided {
                Ok((changes, outcome)) => (bench.apply(&changes), Some(Ok(outcome))),
                Err(refusal) => (Applied { index: bench.tables.index(), ..Applied::default() }, Some(Err(refusal))),
            }
        }
        Step::Due(what) => (bench.due(what), None),
        Step::Seen(agent) => {
            let changes = seen(&bench.tables, agent, &bench.asker(None));
            (bench.apply(&changes), None)
        }
        Step::Pass(seconds) => {
            bench.pass(*seconds);
            (Applied { index: bench.tables.index(), ..Applied::default() }, None)
        }
    }
}

/// What every topic said at some points in the past.
struct Watched {
    topic: Topic,
    past: Vec<TopicData>,
}

impl Watched {
    /// Compares the topic with what it was, after a change that touched `touches`.
    fn follow(&mut self, tables: &Tables, applied: &Applied) {
        let topic = &self.topic;
        let now = tables.topic(topic);
        let before = self.past.last().expect("there is always one");
        assert!(now.index >= before.index && now.index <= tables.index(), "{topic:?}: {before:?} {now:?}");
        assert_eq!(now.index == before.index, now.rows == before.rows, "{topic:?}: {before:#?} {now:#?}");
        let touches: BTreeMap<Touch, Index> = applied
            .touches
            .iter()
            .filter(|touch| touch.concerns(topic))
            .map(|touch| (touch.clone(), applied.index))
            .collect();
        assert_eq!(touches.is_empty(), now.index == before.index, "{topic:?}: {touches:?}");
        if !touches.is_empty() {
            let again = Arc::new(TopicData::new(before.index, before.rows.clone()));
            assert_eq!(*tables.refresh(topic, again, &touches), now, "{topic:?}: {touches:?}");
        }
        for past in &self.past {
            let delta = tables.delta(topic, &now, past.index);
            assert_eq!(past.apply(&delta).as_ref(), Some(&now), "{topic:?} from {}: {delta:?}", past.index);
        }
        if now.index != before.index {
            self.past.push(now);
            if self.past.len() > 6 {
                self.past.remove(1);
            }
        }
    }
}

/// Keys and who holds them, told in the simplest way.
#[derive(Debug, Default, PartialEq)]
struct Model {
    keys: BTreeMap<String, (String, Option<String>)>,
    sessions: BTreeMap<String, (Behavior, Duration)>,
    delays: BTreeMap<String, Timestamp>,
}

impl Model {
    fn of(tables: &Tables) -> Self {
        let mut model = Self::default();
        for (id, thing) in tables.iter() {
            match (id, thing) {
                (Id::Key(key), Thing::Key(entry)) => {
                    let value = String::from_utf8_lossy(&entry.value.value).into_owned();
                    model.keys.insert(key.clone(), (value, entry.value.session.clone()));
                }
                (Id::Session(id), Thing::Session(session)) => {
                    model.sessions.insert(id.clone(), (session.value.behavior, session.value.lock_delay));
                }
                _ => {}
            }
        }
        model
    }

    /// What one operation by itself must come to.
    fn kv(&mut self, op: &KvOp, index: Index, now: Timestamp) -> Option<bool> {
        let value = String::from_utf8_lossy(&op.value).into_owned();
        let holder = self.keys.get(&op.key).and_then(|(_, holder)| holder.clone());
        let me = Some(op.session.clone());
        Some(match op.verb {
            KvVerb::Set => self.put(op, value, holder),
            KvVerb::Cas => op.index == index && self.put(op, value, holder),
            KvVerb::Lock if self.delays.get(&op.key).is_some_and(|until| *until > now) => false,
            KvVerb::Lock if !self.sessions.contains_key(&op.session) => return None,
            KvVerb::Lock => (holder.is_none() || holder == me) && self.put(op, value, me),
            KvVerb::Unlock => holder.is_some() && holder == me && self.put(op, value, None),
            KvVerb::DeleteCas if index != 0 && op.index != index => false,
            KvVerb::DeleteTree => {
                self.keys.retain(|key, _| !key.starts_with(&op.key));
                true
            }
            _ => {
                self.keys.remove(&op.key);
                true
            }
        })
    }

    fn put(&mut self, op: &KvOp, value: String, holder: Option<String>) -> bool {
        self.keys.insert(op.key.clone(), (value, holder));
        true
    }

    /// Ends the sessions that are no longer there.
    fn end(&mut self, alive: &BTreeSet<String>, now: Timestamp) {
        let ended: Vec<_> = self.sessions.keys().filter(|id| !alive.contains(*id)).cloned().collect();
        for id in ended {
            let Some((behavior, delay)) = self.sessions.remove(&id) else { continue };
            for (key, (_, holder)) in &mut self.keys {
                if holder.as_ref() == Some(&id) {
                    *holder = None;
                    if !delay.is_zero() {
                        self.delays.insert(key.clone(), now.saturating_add(delay).expect("not for ever"));
                    }
                    if behavior == Behavior::Delete {
                        *holder = Some("deleted".to_owned());
                    }
                }
            }
            self.keys.retain(|_, (_, holder)| holder.as_deref() != Some("deleted"));
        }
    }
}

fn run(dice: &[Dice]) {
    let mut bench = Bench::new();
    let mut watched: Vec<Watched> =
        topics().into_iter().map(|topic| Watched { past: vec![bench.topic(&topic)], topic }).collect();
    let mut model = Model::default();
    for (number, dice) in dice.iter().enumerate() {
        let step = step(*dice);
        let before = bench.tables.clone();
        let (applied, result) = take(&mut bench, &step);
        assert_eq!(applied.index, bench.tables.index());
        assert!(applied.index == before.index() || applied.index == before.index() + 1, "{step:?}");
        if matches!(result, Some(Err(_) | Ok(Outcome::Txn(Err(_))))) {
            assert_eq!(bench.tables, before, "refused, so nothing changed: {step:?}");
        }
        for watched in &mut watched {
            watched.follow(&bench.tables, &applied);
        }
        let found = Model::of(&bench.tables);
        let command = match &step {
            Step::Command(_, command) => Some(&**command),
            _ => None,
        };
        if let (Some(Command::Kv(op)), Some(result)) = (command, result) {
            let index = before.key(&op.key).map_or(0, |entry| entry.modify_index);
            let expected = model.kv(op, index, bench.now);
            assert_eq!(result.ok(), expected.map(Outcome::Kv), "{step:?} on {before:?}");
        } else if !matches!(command, Some(Command::Txn(_))) {
            model.end(&found.sessions.keys().cloned().collect(), bench.now);
            model.sessions.clone_from(&found.sessions);
        } else {
            // What a transaction does is the same, operation by operation; here only its end counts.
            let ended: BTreeSet<_> = model.sessions.keys().filter(|id| !found.sessions.contains_key(*id)).collect();
            assert!(found.keys.values().all(|(_, holder)| holder.as_ref().is_none_or(|id| !ended.contains(id))));
            model.keys.clone_from(&found.keys);
            model.sessions.clone_from(&found.sessions);
            model.delays = delays(&bench.tables);
        }
        assert_eq!((&model.keys, &model.sessions), (&found.keys, &found.sessions), "{step:?}");
        let holders = found.keys.values().filter_map(|(_, holder)| holder.as_ref());
        assert!(holders.into_iter().all(|holder| found.sessions.contains_key(holder)), "held by nobody: {found:?}");
        if number.is_multiple_of(8) {
            assert_eq!(bench.reload(), bench.tables);
        }
    }
    assert_eq!(bench.reload(), bench.tables);
    assert!(bench.tables.repair().is_empty());
}

fn delays(tables: &Tables) -> BTreeMap<String, Timestamp> {
    let delay = |(id, thing): (&Id, &Thing)| match (id, thing) {
        (Id::Delay(key), Thing::Delay(delay)) => Some((key.clone(), delay.value.until)),
        _ => None,
    };
    tables.iter().filter_map(delay).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_must_hold_holds_whatever_is_asked(dice in proptest::collection::vec(any::<Dice>(), 1..80)) {
        run(&dice);
    }
}
