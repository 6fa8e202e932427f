//! Answers to bytes, with names that were written before only pointed at, cut to what the client can take.

use std::collections::{HashMap, HashSet};

use super::name::Name;
use super::record::{Answer, CLASS_IN, Code, Data, Question, Record, kind};
use super::wire::Query;

/// What a client takes over UDP that says nothing about it.
pub(super) const UDP_MIN: usize = 512;
/// What we say we take, and the most we send over UDP: larger packets are fragmented and lost.
const UDP_OURS: u16 = 4096;
const TCP_MAX: usize = u16::MAX as usize;
/// Pointers reach no further.
const POINTER_MAX: usize = 0x3fff;
const TRUNCATED: u16 = 0x0200;
/// The least an answer takes: its name as a pointer, type, class, TTL, length, an address.
const RECORD_MIN: usize = 16;

/// How an answer travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// Limits beyond bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) transport: Transport,
    pub(super) udp_answers_max: usize,
    pub(super) truncate: bool,
}

/// The answer to a query in bytes, and whether something had to be left out.
pub(super) fn answer(query: &Query, mut answer: Answer, limits: Limits) -> (Vec<u8>, bool) {
    let size = match (limits.transport, query.edns) {
        (Transport::Tcp, _) => TCP_MAX,
        (Transport::Udp, None) => UDP_MIN,
        (Transport::Udp, Some(edns)) => usize::from(edns.size.clamp(512, UDP_OURS)),
    };
    let mut cut = false;
    if limits.transport == Transport::Udp && query.edns.is_none() && answer.answers.len() > limits.udp_answers_max {
        answer.answers.truncate(limits.udp_answers_max);
        keep_what_is_meant(&mut answer);
        cut = limits.truncate;
    }
    // What cannot fit in any case is not even tried: a large service must not make a small question expensive.
    let more = answer.answers.len() > size / RECORD_MIN;
    answer.answers.truncate(size / RECORD_MIN);
    let packet = message(query, &answer, cut);
    if packet.len() <= size && !more {
        return (packet, cut);
    }
    (fitting(query, answer, size), true)
}

/// Only that something was not understood.
pub(super) fn refusal(id: u16, opcode: u8, code: Code) -> Vec<u8> {
    let mut packet = Vec::with_capacity(12);
    let flags = 0x8000 | u16::from(opcode & 0xf) << 11 | (code as u16 & 0xf);
    for word in [id, flags, 0, 0, 0, 0] {
        packet.extend_from_slice(&word.to_be_bytes());
    }
    packet
}

/// As many answers as fit, found by halving; the hints go first, then what is behind.
fn fitting(query: &Query, mut answer: Answer, size: usize) -> Vec<u8> {
    let all = std::mem::take(&mut answer.answers);
    let hints = std::mem::take(&mut answer.additionals);
    let attempt = |count: usize, answer: &mut Answer| {
        answer.answers = all[..count].to_vec();
        answer.additionals.clone_from(&hints);
        keep_what_is_meant(answer);
        message(query, answer, true)
    };
    let (mut low, mut high) = (0, all.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        if attempt(middle, &mut answer).len() <= size { low = middle } else { high = middle - 1 }
    }
    let packet = attempt(low, &mut answer);
    if packet.len() <= size && (low > 0 || all.is_empty()) {
        return packet;
    }
    // Not even one fits with its hints: answers alone, and of those what there is room for.
    answer.additionals.clear();
    answer.authorities.clear();
    answer.answers = all;
    while message(query, &answer, true).len() > size && answer.answers.pop().is_some() {}
    message(query, &answer, true)
}

/// Hints for names no answer points at any more are left out.
fn keep_what_is_meant(answer: &mut Answer) {
    let mut meant: HashSet<&Name> = answer
        .answers
        .iter()
        .chain(&answer.authorities)
        .filter_map(|record| match &record.data {
            Data::Srv { target, .. } | Data::Ns(target) => Some(target),
            _ => None,
        })
        .collect();
    meant.extend(answer.answers.iter().map(|record| &record.name));
    answer.additionals.retain(|record| meant.contains(&record.name));
}

fn message(query: &Query, answer: &Answer, truncated: bool) -> Vec<u8> {
    let mut writer = Writer { packet: Vec::with_capacity(UDP_MIN), names: HashMap::new() };
    let mut flags = 0x8000 | u16::from(query.opcode & 0xf) << 11 | (answer.code as u16 & 0xf);
    if answer.authoritative {
        flags |= 0x0400;
    }
    if query.recursion_desired {
        flags |= 0x0100;
    }
    if truncated {
        flags |= TRUNCATED;
    }
    writer.u16(query.id);
    writer.u16(flags);
    writer.u16(1);
    writer.count(answer.answers.len());
    writer.count(answer.authorities.len());
    writer.count(answer.additionals.len() + usize::from(query.edns.is_some()));
    writer.question(&query.question);
    for record in answer.answers.iter().chain(&answer.authorities).chain(&answer.additionals) {
        writer.record(record);
    }
    if query.edns.is_some() {
        writer.options(answer.code);
    }
    writer.packet
}

struct Writer<'a> {
    packet: Vec<u8>,
    /// Where an end of a name was written.
    names: HashMap<&'a [Vec<u8>], u16>,
}

impl<'a> Writer<'a> {
    fn question(&mut self, question: &'a Question) {
        self.name(&question.name);
        self.u16(question.kind);
        self.u16(question.class);
    }

    fn record(&mut self, record: &'a Record) {
        self.name(&record.name);
        self.u16(record.data.kind());
        self.u16(CLASS_IN);
        self.u32(record.ttl);
        let length_at = self.packet.len();
        self.u16(0);
        self.data(&record.data);
        let length = self.packet.len() - length_at - 2;
        let length = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
        self.packet[length_at..length_at + 2].copy_from_slice(&length);
    }

    fn data(&mut self, data: &'a Data) {
        match data {
            Data::A(ip) => self.packet.extend_from_slice(&ip.octets()),
            Data::Aaaa(ip) => self.packet.extend_from_slice(&ip.octets()),
            Data::Cname(name) | Data::Ns(name) | Data::Ptr(name) => self.name(name),
            Data::Soa { ns, mailbox, serial } => {
                self.name(ns);
                self.name(mailbox);
                for number in [*serial, 3600, 600, 86400, 0] {
                    self.u32(number);
                }
            }
            Data::Srv { weight, port, target } => {
                for number in [1, *weight, *port] {
                    self.u16(number);
                }
                // Written in full: not every client follows pointers here.
                self.labels(target.labels());
                self.packet.push(0);
            }
            Data::Txt(text) => {
                let bytes = text.as_bytes();
                for chunk in bytes.chunks(usize::from(u8::MAX)).take(255) {
                    self.packet.push(u8::try_from(chunk.len()).unwrap_or(u8::MAX));
                    self.packet.extend_from_slice(chunk);
                }
                if bytes.is_empty() {
                    self.packet.push(0);
                }
            }
        }
    }

    /// EDNS: what we take, and the upper part of the code.
    fn options(&mut self, code: Code) {
        self.packet.push(0);
        self.u16(kind::OPT);
        self.u16(UDP_OURS);
        self.u32(u32::from(code as u16 >> 4) << 24);
        self.u16(0);
    }

    fn name(&mut self, name: &'a Name) {
        let mut rest = name.labels();
        while let Some((label, after)) = rest.split_first() {
            if let Some(at) = self.names.get(rest) {
                return self.u16(0xc000 | *at);
            }
            let here = self.packet.len();
            if here <= POINTER_MAX {
                self.names.insert(rest, u16::try_from(here).unwrap_or(0));
            }
            self.labels(std::slice::from_ref(label));
            rest = after;
        }
        self.packet.push(0);
    }

    fn labels(&mut self, labels: &[Vec<u8>]) {
        for label in labels {
            self.packet.push(u8::try_from(label.len()).unwrap_or(0));
            self.packet.extend_from_slice(label);
        }
    }

    fn count(&mut self, count: usize) {
        self.u16(u16::try_from(count).unwrap_or(u16::MAX));
    }

    fn u16(&mut self, number: u16) {
        self.packet.extend_from_slice(&number.to_be_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.packet.extend_from_slice(&number.to_be_bytes());
    }
}
