mod ask;
mod sockets;

use std::sync::Arc;

use proptest::prelude::*;

use super::Settings;
use super::answer::{Context, answer};
use super::lookup::lookup;
use super::name::Name;
use super::record::{Answer, Code, Data, Question, Record, kind};
use super::wire::{self, Edns, Malformed, Query};
use super::write::{self, Limits, Transport};
use ask::{ask, ask_seeded, many, registry};

/// Records as `dig` shows them, sorted; then the code if it is not plain, then what is in the other sections.
fn shown(answer: &Answer) -> String {
    let lines = |records: &[Record]| {
        let mut lines: Vec<String> = records.iter().map(line).collect();
        lines.sort();
        lines.join(" | ")
    };
    let code = if answer.code == Code::Ok { String::new() } else { format!("{:?} ", answer.code) };
    format!("{code}{} / {} / {}", lines(&answer.answers), lines(&answer.authorities), lines(&answer.additionals))
}

fn line(record: &Record) -> String {
    let data = match &record.data {
        Data::A(ip) => format!("A {ip}"),
        Data::Aaaa(ip) => format!("AAAA {ip}"),
        Data::Cname(name) => format!("CNAME {name}"),
        Data::Ns(name) => format!("NS {name}"),
        Data::Ptr(name) => format!("PTR {name}"),
        Data::Soa { ns, mailbox, serial } => format!("SOA {ns} {mailbox} {serial}"),
        Data::Srv { weight, port, target } => format!("SRV 1 {weight} {port} {target}"),
        Data::Txt(text) => format!("TXT {text}"),
    };
    format!("{} {data}", record.name)
}

const SOA: &str = "consul. SOA ns.consul. hostmaster.consul. 77";

#[test]
fn names_are_answered() {
    let nodata = format!(" / {SOA} / ");
    let nothing = format!("NoSuchName  / {SOA} / ");
    let srv = "SRV 1 3 81 0a010002.addr.dc1.consul.";
    let two = "web.service.consul. A 10.0.0.1 | web.service.consul. A 10.1.0.2 /  / ";
    let hints =
        "0a010002.addr.dc1.consul. A 10.1.0.2 | ext1.node.dc1.consul. A 10.0.0.1 | ext1.node.dc1.consul. TXT k=v";
    let cases: Vec<(&str, u16, String)> = vec![
        ("web.service.consul", kind::A, two.to_owned()),
        ("web.service.consul", kind::ANY, two.to_owned()),
        ("web.service.dc1.consul", kind::A, two.replace("service.", "service.dc1.")),
        ("WEB.Service.Consul", kind::A, two.replace("web.service.consul.", "WEB.Service.Consul.")),
        ("web.service.consul", kind::AAAA, nodata.clone()),
        ("web.service.consul", 15, nodata.clone()),
        (
            "web.service.consul",
            kind::SRV,
            format!("web.service.consul. SRV 1 1 80 ext1.node.dc1.consul. | web.service.consul. {srv} /  / {hints}"),
        ),
        (
            "_web._tcp.service.consul",
            kind::SRV,
            format!("_web._tcp.service.consul. SRV 1 1 80 ext1.node.dc1.consul. | _web._tcp.service.consul. {srv} /  / {hints}"),
        ),
        (
            "_web._v1.consul",
            kind::SRV,
            "_web._v1.consul. SRV 1 1 80 ext1.node.dc1.consul. /  / ext1.node.dc1.consul. A 10.0.0.1 | ext1.node.dc1.consul. TXT k=v"
                .to_owned(),
        ),
        ("v1.web.service.consul", kind::A, "v1.web.service.consul. A 10.0.0.1 /  / ".to_owned()),
        ("blue.web.service.consul", kind::A, "blue.web.service.consul. A 10.0.0.1 /  / ".to_owned()),
        ("red.web.service.consul", kind::A, nothing.clone()),
        ("web.service.dc9.consul", kind::A, nothing.clone()),
        ("dead.service.consul", kind::A, nothing.clone()),
        ("none.service.consul", kind::SRV, nothing.clone()),
        ("six.service.consul", kind::AAAA, "six.service.consul. AAAA fe80::4 /  / ".to_owned()),
        ("six.service.consul", kind::A, nodata.clone()),
        ("six.service.consul", kind::SRV, "six.service.consul. SRV 1 1 66 ext4.node.dc1.consul. /  / ext4.node.dc1.consul. AAAA fe80::4".to_owned()),
        ("named.service.consul", kind::A, "named.service.consul. CNAME www.example.com. /  / ".to_owned()),
        ("named.service.consul", kind::SRV, "named.service.consul. SRV 1 1 1 www.example.com. /  / ".to_owned()),
    ];
    for (name, kind, wanted) in cases {
        assert_eq!(shown(&ask(name, kind)), wanted, "{name} {kind}");
    }
}

#[test]
fn nodes_addresses_and_the_zone_are_answered() {
    let nodata = format!(" / {SOA} / ");
    let nothing = format!("NoSuchName  / {SOA} / ");
    let cases: Vec<(&str, u16, String)> = vec![
        ("ext1.node.consul", kind::A, "ext1.node.consul. A 10.0.0.1 /  / ext1.node.consul. TXT k=v".to_owned()),
        (
            "EXT1.node.dc1.consul",
            kind::ANY,
            "EXT1.node.dc1.consul. A 10.0.0.1 | EXT1.node.dc1.consul. TXT k=v /  / ".to_owned(),
        ),
        ("ext1.node.consul", kind::AAAA, nodata.clone()),
        ("ext1.node.consul", kind::TXT, "ext1.node.consul. TXT k=v /  / ".to_owned()),
        ("none.node.consul", kind::A, nothing.clone()),
        ("0a000001.addr.dc1.consul", kind::A, "0a000001.addr.dc1.consul. A 10.0.0.1 /  / ".to_owned()),
        ("0a000001.addr.dc1.consul", kind::AAAA, nodata.clone()),
        ("0a00000.addr.dc1.consul", kind::A, nothing.clone()),
        ("+a000001.addr.dc1.consul", kind::A, nothing.clone()),
        (
            "fe800000000000000000000000000004.addr.consul",
            kind::AAAA,
            "fe800000000000000000000000000004.addr.consul. AAAA fe80::4 /  / ".to_owned(),
        ),
        ("1.0.0.10.in-addr.arpa", kind::PTR, "1.0.0.10.in-addr.arpa. PTR ext1.node.dc1.consul. /  / ".to_owned()),
        ("2.0.1.10.in-addr.arpa", kind::PTR, "2.0.1.10.in-addr.arpa. PTR web.service.dc1.consul. /  / ".to_owned()),
        ("9.9.9.10.in-addr.arpa", kind::PTR, nothing.clone()),
        ("9.10.in-addr.arpa", kind::PTR, nothing.clone()),
        (
            "4.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.e.f.ip6.arpa",
            kind::PTR,
            "4.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.e.f.ip6.arpa. PTR ext4.node.dc1.consul. /  / "
                .to_owned(),
        ),
        ("consul", kind::SOA, format!("{SOA} / consul. NS here.node.dc1.consul. / here.node.dc1.consul. A 127.0.0.1")),
        ("consul", kind::NS, "consul. NS here.node.dc1.consul. /  / here.node.dc1.consul. A 127.0.0.1".to_owned()),
        ("consul", kind::A, nodata.clone()),
        ("service.consul", kind::A, nodata.clone()),
        ("node.dc1.consul", kind::A, nodata),
        ("x.consul", kind::A, nothing.clone()),
        ("foo.query.consul", kind::A, nothing),
        ("example.com", kind::A, "Refused  /  / ".to_owned()),
        ("", kind::NS, "Refused  /  / ".to_owned()),
    ];
    for (name, kind, wanted) in cases {
        assert_eq!(shown(&ask(name, kind)), wanted, "{name} {kind}");
    }
}

#[test]
fn instances_come_in_every_order_and_warnings_only_where_wanted() {
    let orders: std::collections::BTreeSet<String> =
        (0..50).map(|seed| line(&ask_seeded("web.service.consul", kind::A, seed).answers[0])).collect();
    assert_eq!(orders.len(), 2, "each is first at some time");
    let settings = Settings { only_passing: true, ..Settings::default() };
    let question = Question { name: Name::parse("web.service.consul").unwrap(), kind: kind::A, class: 1 };
    let place = ask::place();
    let context = Context { settings: &settings, place: &place, now: 77, seed: 1 };
    let found = lookup(&question, &settings, "dc1");
    let data = registry().get(&found.topic().unwrap()).cloned();
    let made = answer(&question, &found, data.as_deref(), None, context);
    assert_eq!(shown(&made), "web.service.consul. A 10.0.0.1 /  / ");
}

fn query(name: &str, kind: u16, edns: Option<u16>) -> Query {
    let question = Question { name: Name::parse(name).unwrap(), kind, class: 1 };
    Query { id: 7, opcode: 0, recursion_desired: true, question, edns: edns.map(|size| Edns { size, version: 0 }) }
}

fn counts(packet: &[u8]) -> (bool, u16, u16, u16) {
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    (word(2) & 0x0200 != 0, word(6), word(8), word(10))
}

#[test]
fn answers_are_cut_to_what_a_client_takes() {
    let limits = |transport, truncate| Limits { transport, udp_answers_max: 3, truncate };
    let made = |kind| many(kind, 300);
    let udp = |kind, edns, truncate| {
        let query = query("many.service.consul", kind, edns);
        let (packet, cut) = write::answer(&query, made(kind), limits(Transport::Udp, truncate));
        let size = edns.unwrap_or(512).clamp(512, 4096);
        assert!(packet.len() <= usize::from(size), "{} > {size}", packet.len());
        let (truncated, answers, _, additionals) = counts(&packet);
        assert_eq!(truncated, cut);
        (truncated, answers, additionals)
    };
    assert_eq!(udp(kind::A, None, false), (false, 3, 0), "a client without EDNS gets a few");
    assert_eq!(udp(kind::A, None, true), (true, 3, 0), "and is told, where that is asked for");
    assert_eq!(udp(kind::SRV, None, false), (false, 3, 3), "with the hints for these");
    let (truncated, answers, additionals) = udp(kind::SRV, Some(1232), false);
    assert!(truncated && answers > 3 && additionals == answers + 1, "{answers} {additionals}");
    let (truncated, answers, _) = udp(kind::A, Some(65535), false);
    assert!(truncated && answers > 200, "{answers}");
    let tcp = |count| {
        let query = query("many.service.consul", kind::SRV, None);
        let (packet, _) = write::answer(&query, many(kind::SRV, count), limits(Transport::Tcp, false));
        assert!(packet.len() <= 65535);
        counts(&packet)
    };
    assert_eq!(tcp(300), (false, 300, 0, 300));
    let (truncated, answers, ..) = tcp(5000);
    assert!(truncated && answers > 500, "{answers}");
}

#[test]
fn strange_packets_are_told_or_ignored() {
    let good = ask::packet("web.service.consul", kind::A);
    assert_eq!(wire::read(&good).unwrap().question.kind, kind::A);
    assert_eq!(wire::read(&good[..11]), Err(Malformed::Silent), "no header");
    let mut answer = good.clone();
    answer[2] |= 0x80;
    assert_eq!(wire::read(&answer), Err(Malformed::Silent), "an answer is not answered");
    let told = Err(Malformed::Told { id: 0x1234, opcode: 0 });
    assert_eq!(wire::read(&good[..20]), told, "cut off");
    let mut two = good.clone();
    two[5] = 2;
    assert_eq!(wire::read(&two), told, "two questions");
    let mut circle = good[..12].to_vec();
    circle.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1]);
    assert_eq!(wire::read(&circle), told, "a name that points at itself");
    let mut forward = good[..12].to_vec();
    forward.extend_from_slice(&[0xc0, 200, 0, 1, 0, 1]);
    assert_eq!(wire::read(&forward), told);
    let mut long = good[..12].to_vec();
    for _ in 0..5 {
        long.push(63);
        long.extend_from_slice(&[b'a'; 63]);
    }
    long.extend_from_slice(&[0, 0, 1, 0, 1]);
    assert_eq!(wire::read(&long), told, "longer than a name may be");
    let mut lies = good;
    lies[11] = 9;
    assert_eq!(wire::read(&lies), told, "records that are not there");
}

proptest! {
    #[test]
    fn no_packet_is_too_strange(packet in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = wire::read(&packet);
    }

    #[test]
    fn a_query_that_is_changed_anywhere_does_no_harm(at in 0usize..40, to: u8, cut in 12usize..60) {
        let mut packet = ask::packet("_web._tcp.service.consul", kind::SRV);
        if let Some(byte) = packet.get_mut(at) {
            *byte = to;
        }
        packet.truncate(cut);
        if let Ok(query) = wire::read(&packet) {
            let settings = Settings::default();
            let found = lookup(&query.question, &settings, "dc1");
            let data = found.topic().and_then(|topic| registry().get(&topic).cloned());
            let place = ask::place();
            let context = Context { settings: &settings, place: &place, now: 0, seed: 0 };
            let made = answer(&query.question, &found, data.as_deref(), None, context);
            let limits = Limits { transport: Transport::Udp, udp_answers_max: 3, truncate: false };
            let (packet, _) = write::answer(&query, made, limits);
            prop_assert!(packet.len() <= 4096);
        }
    }

    #[test]
    fn any_name_is_looked_up(labels in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..64), 0..8)) {
        if let Some(name) = Name::new(labels) {
            let question = Question { name, kind: kind::ANY, class: 1 };
            let _ = lookup(&question, &Settings::default(), "dc1");
        }
    }

    #[test]
    fn what_is_written_is_what_was_asked(name in "[a-z_]{1,20}(\\.[a-z0-9-]{1,20}){0,5}", kind: u16, id: u16) {
        let question = Question { name: Name::parse(&name).unwrap(), kind, class: 1 };
        let query = Query { id, opcode: 0, recursion_desired: false, question, edns: None };
        let limits = Limits { transport: Transport::Udp, udp_answers_max: 3, truncate: false };
        let (mut packet, _) = write::answer(&query, Answer::of(Code::Ok, false), limits);
        packet[2] &= 0x7f;
        prop_assert_eq!(wire::read(&packet).unwrap(), query);
    }
}
