//! The answer to a question: a function of what is asked and what a topic holds.

use std::collections::HashSet;
use std::net::IpAddr;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::backend::Place;
use crate::model::{Node, Status};
use crate::topic::{Instance, Row, TopicData};

use super::Settings;
use super::lookup::{Lookup, to_hex};
use super::name::Name;
use super::record::{Answer, Code, Data, Question, Record, kind};

/// What an answer is made from besides the question.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) settings: &'a Settings,
    pub(super) place: &'a Place,
    /// Seconds since 1970: the zone's serial.
    pub(super) now: i64,
    /// What the order of instances is drawn from.
    pub(super) seed: u64,
}

/// The answer, given the content of the lookup's topic, if it has one. For addresses nobody among the nodes has, `more`
/// is every instance there is.
pub(super) fn answer(
    question: &Question,
    lookup: &Lookup,
    data: Option<&TopicData>,
    more: Option<&TopicData>,
    context: Context<'_>,
) -> Answer {
    let rows = data.map_or(&[][..], |data| data.rows.as_slice());
    let mut made = Answer::of(Code::Ok, true);
    match lookup {
        Lookup::Elsewhere => return Answer::of(Code::Refused, false),
        Lookup::Nothing => made.code = Code::NoSuchName,
        Lookup::Empty => {}
        Lookup::Zone => context.zone(question, &mut made),
        Lookup::Address(ip) => context.address(question, *ip, &mut made),
        Lookup::Service { tag, .. } => context.service(question, tag.as_deref(), rows, &mut made),
        Lookup::Node(_) => context.node(question, rows, &mut made),
        Lookup::Reverse(ip) => {
            let instances = more.map_or(&[][..], |data| data.rows.as_slice());
            context.reverse(question, *ip, rows, instances, &mut made);
        }
    }
    if made.answers.is_empty() {
        made.additionals.clear();
        made.authorities = context.soa().into_iter().collect();
    }
    made
}

/// Whether nodes alone answer who has an address.
pub(super) fn found_among_nodes(ip: IpAddr, nodes: &TopicData) -> bool {
    nodes.rows.iter().any(|row| matches!(row, Row::Node(node) if node.value.address.parse() == Ok(ip)))
}

impl Context<'_> {
    fn zone(&self, question: &Question, made: &mut Answer) {
        let ns = self.node_name(&self.place.node);
        let apex = question.name.clone();
        let record = ns.clone().map(|target| Record { name: apex, ttl: 0, data: Data::Ns(target) });
        match question.kind {
            kind::SOA => {
                made.answers.extend(self.soa());
                made.authorities.extend(record);
            }
            kind::NS | kind::ANY => made.answers.extend(record),
            _ => return,
        }
        if let (Some(name), Ok(ip)) = (ns, self.place.address.parse()) {
            made.additionals.push(Record { name, ttl: 0, data: Data::address(ip) });
        }
    }

    fn address(&self, question: &Question, ip: IpAddr, made: &mut Answer) {
        let record = Record { name: question.name.clone(), ttl: self.settings.node_ttl, data: Data::address(ip) };
        if wanted(question.kind, &record.data) {
            made.answers.push(record);
        }
    }

    fn service(&self, question: &Question, tag: Option<&str>, rows: &[Row], made: &mut Answer) {
        let mut instances: Vec<(&Instance, Status)> = rows
            .iter()
            .filter_map(|row| match row {
                Row::Instance(instance) => Some((instance.as_ref(), status(instance))),
                _ => None,
            })
            .filter(|(instance, status)| self.usable(*status) && tagged(instance, tag))
            .collect();
        if instances.is_empty() {
            made.code = Code::NoSuchName;
            return;
        }
        instances.shuffle(&mut SmallRng::seed_from_u64(self.seed));
        match question.kind {
            kind::SRV => {
                let mut seen = HashSet::new();
                for (instance, status) in &instances {
                    self.srv(question, instance, *status, &mut seen, made);
                }
            }
            kind::A | kind::AAAA | kind::CNAME | kind::ANY => {
                let reached = instances.iter().map(|(instance, _)| reached(instance));
                addresses(question, reached, self.settings.service_ttl, made);
            }
            _ => {}
        }
    }

    fn srv(
        &self,
        question: &Question,
        instance: &Instance,
        status: Status,
        seen: &mut HashSet<(Name, Option<u16>)>,
        made: &mut Answer,
    ) {
        let (service, node) = (&instance.service.value, &instance.node.value);
        let ttl = self.settings.service_ttl;
        let own: Option<IpAddr> = service.address.parse().ok();
        let at_node = service.address.is_empty();
        let hint: Option<IpAddr> = if at_node { node.address.parse().ok() } else { own };
        let target = match (hint, at_node) {
            (Some(_), true) => self.node_name(&node.name),
            (Some(ip), false) => self.made_name(&to_hex(ip), "addr"),
            (None, _) => hostname(reached(instance)),
        };
        let Some(target) = target else { return };
        let weight = if status == Status::Warning { service.weights.warning } else { service.weights.passing };
        let weight = u16::try_from(weight).unwrap_or(u16::MAX);
        let data = Data::Srv { weight, port: service.port, target: target.clone() };
        if !seen.insert((target.clone(), Some(service.port))) {
            return;
        }
        made.answers.push(Record { name: question.name.clone(), ttl, data });
        let Some(ip) = hint else { return };
        // The target itself, whatever the port: its hints are given once.
        if seen.insert((target.clone(), None)) {
            made.additionals.push(Record { name: target.clone(), ttl, data: Data::address(ip) });
            if at_node {
                made.additionals.extend(labels(node, &target, ttl));
            }
        }
    }

    fn node(&self, question: &Question, rows: &[Row], made: &mut Answer) {
        let found = rows.iter().find_map(|row| match row {
            Row::Node(node) => Some(&node.value),
            _ => None,
        });
        let Some(node) = found else {
            made.code = Code::NoSuchName;
            return;
        };
        let ttl = self.settings.node_ttl;
        if matches!(question.kind, kind::A | kind::AAAA | kind::CNAME | kind::ANY) {
            addresses(question, std::iter::once(node.address.as_str()), ttl, made);
        }
        let texts = labels(node, &question.name, ttl);
        match question.kind {
            kind::TXT | kind::ANY => made.answers.extend(texts),
            _ => made.additionals.extend(texts),
        }
    }

    fn reverse(&self, question: &Question, ip: IpAddr, nodes: &[Row], instances: &[Row], made: &mut Answer) {
        let mut names: Vec<Name> = nodes
            .iter()
            .filter_map(|row| match row {
                Row::Node(node) if node.value.address.parse() == Ok(ip) => self.node_name(&node.value.name),
                _ => None,
            })
            .collect();
        if names.is_empty() {
            names.extend(instances.iter().filter_map(|row| match row {
                Row::Instance(it) if it.service.value.address.parse() == Ok(ip) => {
                    self.made_name(&it.service.value.name, "service")
                }
                _ => None,
            }));
        }
        if names.is_empty() {
            made.code = Code::NoSuchName;
        }
        if matches!(question.kind, kind::PTR | kind::ANY) {
            for name in names {
                let record = Record { name: question.name.clone(), ttl: self.settings.node_ttl, data: Data::Ptr(name) };
                if !made.answers.contains(&record) {
                    made.answers.push(record);
                }
            }
        }
    }

    fn usable(&self, status: Status) -> bool {
        match status {
            Status::Passing => true,
            Status::Warning => !self.settings.only_passing,
            Status::Critical => false,
        }
    }

    fn soa(&self) -> Option<Record> {
        let zone = self.settings.zones.first()?;
        let name = Name::parse(zone)?;
        let (ns, mailbox) = (Name::parse(&format!("ns.{zone}"))?, Name::parse(&format!("hostmaster.{zone}"))?);
        // A serial is compared modulo its size; that it wraps is meant to be.
        let serial = u32::try_from(self.now.rem_euclid(1 << 32)).unwrap_or(0);
        Some(Record { name, ttl: 0, data: Data::Soa { ns, mailbox, serial } })
    }

    fn node_name(&self, node: &str) -> Option<Name> {
        self.made_name(node, "node")
    }

    fn made_name(&self, first: &str, kind: &str) -> Option<Name> {
        let zone = self.settings.zones.first()?;
        Name::parse(&format!("{first}.{kind}.{}.{zone}", self.place.datacenter))
    }
}

/// Addresses; a name among them is an answer only where there is no address, for a CNAME stands alone.
fn addresses<'a>(question: &Question, addresses: impl Iterator<Item = &'a str>, ttl: u32, made: &mut Answer) {
    let mut alias = None;
    let mut seen = HashSet::new();
    for text in addresses {
        let Ok(ip) = text.parse::<IpAddr>() else {
            alias = alias.or_else(|| hostname(text));
            continue;
        };
        let record = Record { name: question.name.clone(), ttl, data: Data::address(ip) };
        if wanted(question.kind, &record.data) && seen.insert(ip) {
            made.answers.push(record);
        }
    }
    if made.answers.is_empty()
        && let Some(target) = alias
    {
        made.answers.push(Record { name: question.name.clone(), ttl, data: Data::Cname(target) });
    }
}

fn wanted(asked: u16, data: &Data) -> bool {
    asked == kind::ANY || asked == data.kind()
}

fn status(instance: &Instance) -> Status {
    instance.checks.iter().map(|check| check.value.status).max().unwrap_or(Status::Passing)
}

fn tagged(instance: &Instance, tag: Option<&str>) -> bool {
    tag.is_none_or(|tag| instance.service.value.tags.iter().any(|own| own.to_lowercase() == tag))
}

/// Where an instance is reached.
fn reached(instance: &Instance) -> &str {
    let own = instance.service.value.address.as_str();
    if own.is_empty() { &instance.node.value.address } else { own }
}

/// A name that can be pointed at.
fn hostname(text: &str) -> Option<Name> {
    Name::parse(text).filter(|name| !name.labels().is_empty())
}

/// What a node's owner says about it.
fn labels(node: &Node, name: &Name, ttl: u32) -> Vec<Record> {
    let text = |(key, value): (&String, &String)| {
        // Consul's way to say: the value alone is the record.
        if key.to_ascii_lowercase().starts_with("rfc1035-") { value.clone() } else { format!("{key}={value}") }
    };
    node.meta.iter().map(|pair| Record { name: name.clone(), ttl, data: Data::Txt(text(pair)) }).collect()
}
