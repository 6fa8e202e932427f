//! Records and what is asked for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::name::Name;

/// Types of records, by their numbers.
pub(super) mod kind {
    pub(in super::super) const A: u16 = 1;
    pub(in super::super) const NS: u16 = 2;
    pub(in super::super) const CNAME: u16 = 5;
    pub(in super::super) const SOA: u16 = 6;
    pub(in super::super) const PTR: u16 = 12;
    pub(in super::super) const TXT: u16 = 16;
    pub(in super::super) const AAAA: u16 = 28;
    pub(in super::super) const SRV: u16 = 33;
    pub(in super::super) const OPT: u16 = 41;
    pub(in super::super) const IXFR: u16 = 251;
    pub(in super::super) const AXFR: u16 = 252;
    pub(in super::super) const ANY: u16 = 255;
}

/// The Internet.
pub(super) const CLASS_IN: u16 = 1;
/// Any class.
pub(super) const CLASS_ANY: u16 = 255;

/// How an answer turned out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Code {
    Ok = 0,
    Malformed = 1,
    ServerFailure = 2,
    NoSuchName = 3,
    NotImplemented = 4,
    Refused = 5,
    BadVersion = 16,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) name: Name,
    pub(super) kind: u16,
    pub(super) class: u16,
}

/// One record of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) name: Name,
    pub(super) ttl: u32,
    pub(super) data: Data,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(Name),
    Ns(Name),
    Ptr(Name),
    Soa { ns: Name, mailbox: Name, serial: u32 },
    Srv { weight: u16, port: u16, target: Name },
    Txt(String),
}

impl Data {
    pub(super) fn kind(&self) -> u16 {
        match self {
            Self::A(_) => kind::A,
            Self::Aaaa(_) => kind::AAAA,
            Self::Cname(_) => kind::CNAME,
            Self::Ns(_) => kind::NS,
            Self::Ptr(_) => kind::PTR,
            Self::Soa { .. } => kind::SOA,
            Self::Srv { .. } => kind::SRV,
            Self::Txt(_) => kind::TXT,
        }
    }

    pub(super) fn address(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::A(ip),
            IpAddr::V6(ip) => Self::Aaaa(ip),
        }
    }
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: Code,
    /// Whether we are who knows.
    pub(super) authoritative: bool,
    pub(super) answers: Vec<Record>,
    pub(super) authorities: Vec<Record>,
    pub(super) additionals: Vec<Record>,
}

impl Answer {
    /// An answer without records.
    pub(super) fn of(code: Code, authoritative: bool) -> Self {
        Self { code, authoritative, answers: Vec::new(), authorities: Vec::new(), additionals: Vec::new() }
    }
}
