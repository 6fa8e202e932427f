//! Services get addresses and node ports of their own: what is used, and what requests under way have claimed.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use parking_lot::Mutex;
use serde_json::Value;
use thane_kv::Query as Range;

use crate::builtin::service::assign::{Error, Pool, assign};
use crate::builtin::service::{needs_address, needs_node_ports};
use crate::failure::{Failure, Result};
use crate::metadata;
use crate::objects::storage_failure;
use crate::verbs::Call;

/// Addresses and ports given out by requests that may not have stored them yet.
#[derive(Default)]
pub(crate) struct Addresses {
    book: Mutex<Book>,
}

/// Claims of requests, in the order of their beginnings and ends.
#[derive(Default)]
struct Book {
    moment: u64,
    claims: Vec<Entry>,
}

struct Entry {
    began: u64,
    /// When its request ended; what it stored is seen only by those that began to read later.
    ended: Option<u64>,
    has: Used,
}

/// What Services use.
#[derive(Default, Clone)]
struct Used {
    addresses: BTreeSet<Ipv4Addr>,
    ports: BTreeSet<u16>,
}

/// What one request has claimed; given back when the request ends.
pub(crate) struct Claim<'a> {
    addresses: &'a Addresses,
    began: u64,
}

impl Addresses {
    /// Begins a claim, before what is stored is read.
    fn begin(&self) -> Claim<'_> {
        let mut book = self.book.lock();
        book.moment += 1;
        let began = book.moment;
        book.claims.push(Entry { began, ended: None, has: Used::default() });
        Claim { addresses: self, began }
    }
}

impl Claim<'_> {
    /// Runs `choose` over what is used or claimed by others, and claims what it says.
    fn choose(&self, mut used: Used, choose: impl FnOnce(&Used) -> Result<Used>) -> Result<()> {
        let mut book = self.addresses.book.lock();
        let others = book.claims.iter().filter(|entry| entry.began != self.began);
        for entry in others.filter(|entry| entry.ended.is_none_or(|ended| ended > self.began)) {
            used.addresses.extend(&entry.has.addresses);
            used.ports.extend(&entry.has.ports);
        }
        let chosen = choose(&used)?;
        if let Some(own) = book.claims.iter_mut().find(|entry| entry.began == self.began) {
            own.has = chosen;
        }
        Ok(())
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut book = self.addresses.book.lock();
        book.moment += 1;
        let now = book.moment;
        for entry in book.claims.iter_mut().filter(|entry| entry.began == self.began) {
            entry.ended = Some(now);
        }
        // what ended before the oldest request under way began is of no interest to any
        let oldest = book.claims.iter().filter(|entry| entry.ended.is_none()).map(|entry| entry.began).min();
        book.claims.retain(|entry| entry.ended.is_none_or(|ended| oldest.is_some_and(|oldest| ended > oldest)));
    }
}

/// Gives a Service what its type needs and it does not have yet. The claim is to be held until the Service is stored.
pub(super) async fn give<'a>(call: &Call<'a>, object: &mut Value, old: Option<&Value>) -> Result<Option<Claim<'a>>> {
    if !needs_address(object) && !needs_node_ports(object) {
        return Ok(None);
    }
    let claim = call.server.addresses.begin();
    let used = used(call, old).await?;
    let (range, start) = (call.server.options.service_range, rand::random());
    claim.choose(used, |used| {
        let pool = Pool { range, addresses: &used.addresses, ports: &used.ports, start };
        match assign(object, old, &pool) {
            Ok(()) => Ok(Used::of(object)),
            Err(Error::Invalid(errors)) => Err(call.kind.invalid(metadata::name(object), &errors)),
            Err(Error::Full(why)) => Err(Failure::internal(why)),
        }
    })?;
    Ok(Some(claim))
}

impl Used {
    fn of(service: &Value) -> Self {
        let spec = &service["spec"];
        let ports = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
        let ports = ports.chain([&spec["healthCheckNodePort"]]).filter_map(Value::as_u64).filter(|port| *port > 0);
        Self {
            addresses: spec["clusterIP"].as_str().and_then(|text| text.parse().ok()).into_iter().collect(),
            ports: ports.filter_map(|port| u16::try_from(port).ok()).collect(),
        }
    }
}

/// What all Services but the one being changed use.
async fn used(call: &Call<'_>, old: Option<&Value>) -> Result<Used> {
    let all = Range::prefix(call.kind.prefix().to_owned());
    let page = call.objects().store().range(all).await.map_err(storage_failure)?;
    let own = old.map(metadata::uid).unwrap_or_default();
    let mut used = Used::default();
    for entry in &page.entries {
        let object = call.objects().open(&call.kind, entry)?.value(&call.kind)?;
        if metadata::uid(&object) == own {
            continue;
        }
        let Used { addresses, ports } = Used::of(&object);
        used.addresses.extend(addresses);
        used.ports.extend(ports);
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(claim: &Claim<'_>, stored: &[u16], wanted: u16) -> bool {
        let used = Used { ports: stored.iter().copied().collect(), ..Used::default() };
        let has = Used { ports: BTreeSet::from([wanted]), ..Used::default() };
        let choose = |used: &Used| {
            if used.ports.contains(&wanted) { Err(Failure::internal("taken")) } else { Ok(has) }
        };
        claim.choose(used, choose).is_ok()
    }

    #[test]
    fn nothing_is_given_twice() {
        let addresses = Addresses::default();
        let (first, second) = (addresses.begin(), addresses.begin());
        assert!(claims(&first, &[], 1));
        assert!(!claims(&second, &[], 1), "another request has it");
        drop(first);
        assert!(!claims(&second, &[], 1), "what it read may be older than what the first stored");
        let third = addresses.begin();
        assert!(claims(&third, &[], 1), "what was not stored in the end is free");
        assert!(!claims(&third, &[2], 2), "stored");
        drop((second, third));
        assert!(addresses.book.lock().claims.is_empty());
    }
}
