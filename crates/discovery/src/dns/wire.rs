//! Queries from bytes. Nothing in them is trusted: names may not go on for ever, counts may lie.

use super::name::Name;
use super::record::{Question, kind};

const HEADER: usize = 12;
/// Jumps a name may make; more is a loop or malice.
const JUMPS_MAX: usize = 32;
/// Records after the question that are looked through for EDNS.
const RECORDS_MAX: usize = 16;

/// A query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) id: u16,
    pub(super) opcode: u8,
    pub(super) recursion_desired: bool,
    pub(super) question: Question,
    pub(super) edns: Option<Edns>,
}

/// What a client says it can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edns {
    pub(super) size: u16,
    pub(super) version: u8,
}

/// Bytes that are no query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    /// Not even enough to answer, or an answer itself: nothing is sent back, so nobody can be made to talk to himself.
    Silent,
    /// The sender learns that it was not understood.
    Told { id: u16, opcode: u8 },
}

/// Reads a query.
pub(super) fn read(packet: &[u8]) -> Result<Query, Malformed> {
    let mut reader = Reader { packet, at: 0 };
    let header: Option<[u16; 6]> =
        (0..6).map(|_| reader.u16()).collect::<Option<Vec<_>>>().and_then(|all| all.try_into().ok());
    let Some([id, flags, questions, answers, authorities, additionals]) = header else {
        return Err(Malformed::Silent);
    };
    if flags & 0x8000 != 0 {
        return Err(Malformed::Silent);
    }
    let opcode = u8::try_from(flags >> 11 & 0xf).unwrap_or(0);
    let told = Malformed::Told { id, opcode };
    if questions != 1 {
        return Err(told);
    }
    let question = reader.question().ok_or(told)?;
    let records = usize::from(answers) + usize::from(authorities) + usize::from(additionals);
    let edns = reader.edns(records, told)?;
    Ok(Query { id, opcode, recursion_desired: flags & 0x0100 != 0, question, edns })
}

struct Reader<'a> {
    packet: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn question(&mut self) -> Option<Question> {
        Some(Question { name: self.name()?, kind: self.u16()?, class: self.u16()? })
    }

    /// Looks for the one OPT record; two are an error, as is anything that is cut off.
    fn edns(&mut self, records: usize, wrong: Malformed) -> Result<Option<Edns>, Malformed> {
        let mut found = None;
        for _ in 0..records.min(RECORDS_MAX) {
            if let Some(edns) = self.record().ok_or(wrong)?
                && found.replace(edns).is_some()
            {
                return Err(wrong);
            }
        }
        Ok(found)
    }

    /// Passes over a record, and keeps it if it is the one of EDNS.
    #[expect(clippy::option_option, reason = "cut off, or another record, or the one")]
    fn record(&mut self) -> Option<Option<Edns>> {
        let root = self.name()?.labels().is_empty();
        let (kind, size) = (self.u16()?, self.u16()?);
        let (extended, _flags) = (self.u16()?, self.u16()?);
        let length = usize::from(self.u16()?);
        self.at = self.at.checked_add(length).filter(|end| *end <= self.packet.len())?;
        let edns = Edns { size, version: u8::try_from(extended & 0xff).unwrap_or(u8::MAX) };
        match (kind == kind::OPT, root) {
            (true, true) => Some(Some(edns)),
            (true, false) => None,
            (false, _) => Some(None),
        }
    }

    fn name(&mut self) -> Option<Name> {
        let mut labels = Vec::new();
        let (mut at, mut jumps, mut end) = (self.at, 0, None);
        loop {
            let length = *self.packet.get(at)?;
            match length {
                0 => break,
                1..=63 => {
                    let start = at + 1;
                    at = start + usize::from(length);
                    labels.push(self.packet.get(start..at)?.to_vec());
                }
                0xc0.. => {
                    let target = usize::from(length & 0x3f) << 8 | usize::from(*self.packet.get(at + 1)?);
                    end.get_or_insert(at + 2);
                    jumps += 1;
                    if jumps > JUMPS_MAX || target < HEADER || target >= at {
                        return None;
                    }
                    at = target;
                }
                _ => return None,
            }
            // More labels than fit into a name: stop before the loop is long.
            if labels.len() > 128 {
                return None;
            }
        }
        self.at = end.unwrap_or(at + 1);
        Name::new(labels)
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.packet.get(self.at..self.at + 2)?;
        self.at += 2;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }
}
