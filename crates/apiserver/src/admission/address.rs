//! Services get addresses and node ports of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use thane_kv::Query as Range;

use crate::builtin::service::{allocate, needs_address, needs_node_ports};
use crate::failure::{Failure, Result};
use crate::field::{FieldError, Path};
use crate::metadata;
use crate::objects::storage_failure;
use crate::verbs::Call;

/// A claim outlives the request that made it, which stores it or fails well before.
const CLAIM: Duration = Duration::from_secs(60);

/// Addresses and ports given out by requests that may not have stored them yet.
#[derive(Default)]
pub struct Addresses {
    claims: Mutex<Claims>,
}

#[derive(Default)]
struct Claims {
    addresses: BTreeMap<Ipv4Addr, Duration>,
    ports: BTreeMap<u16, Duration>,
}

/// What stored Services use.
#[derive(Default)]
struct Used {
    addresses: BTreeSet<Ipv4Addr>,
    ports: BTreeSet<u16>,
}

impl Addresses {
    /// Runs `choose` over what is used or claimed, and claims what it chose.
    fn claim(&self, mut used: Used, now: Duration, choose: impl FnOnce(&mut Used) -> Result<Used>) -> Result<()> {
        let mut claims = self.claims.lock();
        let fresh = |at: &Duration| now.saturating_sub(*at) < CLAIM;
        claims.addresses.retain(|_, at| fresh(at));
        claims.ports.retain(|_, at| fresh(at));
        used.addresses.extend(claims.addresses.keys());
        used.ports.extend(claims.ports.keys());
        let chosen = choose(&mut used)?;
        claims.addresses.extend(chosen.addresses.into_iter().map(|address| (address, now)));
        claims.ports.extend(chosen.ports.into_iter().map(|port| (port, now)));
        Ok(())
    }
}

/// Gives a Service what its type needs and it does not have yet.
pub(super) async fn assign(call: &Call<'_>, object: &mut Value, old: Option<&Value>, dry_run: bool) -> Result<()> {
    let wants_address = needs_address(object) && object["spec"]["clusterIP"] != "None";
    if !wants_address && !needs_node_ports(object) {
        return Ok(());
    }
    let used = used(call, old).await?;
    let now = call.server.clock.monotonic();
    let range = call.server.options.service_range;
    let mut chosen_object = object.clone();
    let result = call.server.addresses.claim(used, now, |used| {
        let mut chosen = Used::default();
        if wants_address {
            chosen.addresses.extend(assign_address(&mut chosen_object, old, range, used)?);
        }
        if needs_node_ports(&chosen_object) {
            assign_ports(&mut chosen_object, old, used, &mut chosen)?;
        }
        Ok(if dry_run { Used::default() } else { chosen })
    });
    *object = chosen_object;
    result
}

fn assign_address(
    object: &mut Value,
    old: Option<&Value>,
    range: ipnet::Ipv4Net,
    used: &Used,
) -> Result<Option<Ipv4Addr>> {
    let kept = old.and_then(|old| old["spec"]["clusterIP"].as_str()).filter(|ip| !ip.is_empty()).map(str::to_owned);
    let asked = object["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
    if let Some(kept) = kept {
        if asked.is_empty() {
            object["spec"]["clusterIP"] = kept.as_str().into();
            object["spec"]["clusterIPs"] = json!([kept]);
        }
        // an address never changes; validation says so
        return Ok(None);
    }
    let address = if asked.is_empty() {
        allocate::address(range, &used.addresses, rand::random())
            .ok_or_else(|| Failure::internal("failed to allocate a serviceIP: range is full"))?
    } else {
        let path = Path::new("spec.clusterIPs");
        if let Some(error) = allocate::address_error(range, &used.addresses, &asked, &[asked.as_str().into()], &path) {
            return Err(invalid(object, error));
        }
        asked.parse().map_err(Failure::internal)?
    };
    object["spec"]["clusterIP"] = address.to_string().into();
    object["spec"]["clusterIPs"] = json!([address.to_string()]);
    Ok(Some(address))
}

fn assign_ports(object: &mut Value, old: Option<&Value>, used: &mut Used, chosen: &mut Used) -> Result<()> {
    let had: BTreeSet<i64> = old.map(node_ports).unwrap_or_default().into_iter().collect();
    let mut ports = object["spec"]["ports"].as_array().cloned().unwrap_or_default();
    for (index, port) in ports.iter_mut().enumerate() {
        let wanted = port["nodePort"].as_i64().unwrap_or(0);
        if wanted == 0 {
            let free = allocate::node_port(&used.ports, rand::random())
                .ok_or_else(|| Failure::internal("failed to allocate a nodePort: range is full"))?;
            port["nodePort"] = free.into();
            used.ports.insert(free);
            chosen.ports.insert(free);
        } else if !had.contains(&wanted) {
            let path = Path::new("spec.ports").index(index).child("nodePort");
            if let Some(error) = allocate::node_port_error(&used.ports, wanted, &path) {
                return Err(invalid(object, error));
            }
            chosen.ports.extend(u16::try_from(wanted));
        }
    }
    object["spec"]["ports"] = ports.into();
    Ok(())
}

fn node_ports(service: &Value) -> Vec<i64> {
    let ports = service["spec"]["ports"].as_array();
    ports.into_iter().flatten().filter_map(|port| port["nodePort"].as_i64()).filter(|port| *port > 0).collect()
}

fn invalid(object: &Value, error: FieldError) -> Failure {
    Failure::invalid("", "Service", metadata::name(object), &[error])
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
        used.addresses.extend(object["spec"]["clusterIP"].as_str().and_then(|text| text.parse::<Ipv4Addr>().ok()));
        used.ports.extend(node_ports(&object).into_iter().filter_map(|port| u16::try_from(port).ok()));
    }
    Ok(used)
}
