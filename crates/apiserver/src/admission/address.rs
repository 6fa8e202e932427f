//! Services get an address of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use thane_kv::Query as Range;

use crate::builtin::service;
use crate::failure::{Failure, Result};
use crate::field::{FieldError, Path};
use crate::metadata;
use crate::objects::storage_failure;
use crate::verbs::Call;

/// A claim outlives the request that made it, which stores it or fails well before.
const CLAIM_SECONDS: u64 = 60;

/// Addresses given out by requests that may not have stored them yet.
#[derive(Default)]
pub struct Addresses {
    claims: Mutex<BTreeMap<Ipv4Addr, Duration>>,
}

impl Addresses {
    /// Takes the first free address, or the one asked for if it is free.
    fn claim(
        &self,
        range: ipnet::Ipv4Net,
        used: &BTreeSet<Ipv4Addr>,
        wanted: Option<Ipv4Addr>,
        now: Duration,
    ) -> Option<Ipv4Addr> {
        let mut claims = self.claims.lock();
        claims.retain(|_, at| now.saturating_sub(*at) < Duration::from_secs(CLAIM_SECONDS));
        let mut taken = used.clone();
        taken.extend(claims.keys().copied());
        let address = match wanted {
            Some(address) => (!taken.contains(&address)).then_some(address),
            None => service::allocate(range, &taken),
        }?;
        claims.insert(address, now);
        Some(address)
    }

    fn release(&self, address: Ipv4Addr) {
        self.claims.lock().remove(&address);
    }
}

/// Gives a Service its cluster address, keeps the one it has, or takes it away with the type that needs it.
pub(super) async fn assign(call: &Call<'_>, object: &mut Value, old: Option<&Value>, dry_run: bool) -> Result<()> {
    let kind = object["spec"]["type"].as_str().unwrap_or("ClusterIP");
    if kind == "ExternalName" {
        return Ok(());
    }
    let asked = object["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
    if asked == "None" {
        object["spec"]["clusterIPs"] = json!(["None"]);
        return Ok(());
    }
    let kept = old.and_then(|old| old["spec"]["clusterIP"].as_str()).unwrap_or_default();
    if !kept.is_empty() && (asked.is_empty() || asked == kept) {
        object["spec"]["clusterIP"] = kept.into();
        object["spec"]["clusterIPs"] = json!([kept]);
        return Ok(());
    }
    if !kept.is_empty() {
        // an address never changes; validation says so
        return Ok(());
    }
    let range = call.server.options.service_range;
    let wanted = match asked.as_str() {
        "" => None,
        text => Some(text.parse::<Ipv4Addr>().ok().filter(|address| range.contains(address)).ok_or_else(|| {
            let why = format!("failed to allocate IP {text}: the provided IP ({text}) is not in the valid range. The range of valid IPs is {range}");
            invalid(object, text, why)
        })?),
    };
    let used = used(call).await?;
    let now = call.server.clock.monotonic();
    let Some(address) = call.server.addresses.claim(range, &used, wanted, now) else {
        return Err(match wanted {
            Some(_) => {
                let why = format!("failed to allocate IP {asked}: provided IP is already allocated");
                invalid(object, &asked, why)
            }
            None => Failure::internal("failed to allocate a serviceIP: range is full"),
        });
    };
    if dry_run {
        call.server.addresses.release(address);
    }
    object["spec"]["clusterIP"] = address.to_string().into();
    object["spec"]["clusterIPs"] = json!([address.to_string()]);
    Ok(())
}

fn invalid(object: &Value, asked: &str, why: String) -> Failure {
    let error = FieldError::invalid(&Path::new("spec.clusterIPs"), json!([asked]), why);
    Failure::invalid("", "Service", metadata::name(object), &[error])
}

async fn used(call: &Call<'_>) -> Result<BTreeSet<Ipv4Addr>> {
    let page = call.objects().store().range(Range::prefix(call.kind.prefix().to_owned())).await.map_err(storage_failure)?;
    let mut used = BTreeSet::new();
    for entry in &page.entries {
        let object = call.objects().open(&call.kind, entry)?.value(&call.kind)?;
        used.extend(object["spec"]["clusterIP"].as_str().and_then(|text| text.parse::<Ipv4Addr>().ok()));
    }
    Ok(used)
}
