//! Gives a service its addresses and node ports, between preparing and checking it, as Kubernetes does.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use super::super::access::{each_mut, items, map, map_mut, number, text, texts};
use super::allocate::{address, address_error, node_port, node_port_error};
use super::{needs_address, needs_health_port, needs_node_ports, validate};
use crate::field::{FieldError, Path};

/// What may be given out, and what the other services have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pool<'a> {
    /// Where cluster addresses come from.
    pub range: Ipv4Net,
    /// Addresses of other services.
    pub addresses: &'a BTreeSet<Ipv4Addr>,
    /// Node ports of other services.
    pub ports: &'a BTreeSet<u16>,
    /// Where to start looking; any number, best a random one.
    pub start: u32,
}

/// Why a service cannot have what it needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Error {
    /// It asks for something it cannot get. Kubernetes then tells nothing else that is wrong.
    Invalid(Vec<FieldError>),
    /// Nothing is left; an internal error in the words of Kubernetes.
    Full(&'static str),
}

/// Fills in cluster address, node ports and health check port.
pub(crate) fn assign(service: &mut Value, old: Option<&Value>, pool: &Pool<'_>) -> Result<(), Error> {
    if needs_address(service) {
        let wrong = validate::addresses(service);
        let wrong = if wrong.is_empty() { family_errors(service) } else { wrong };
        if !wrong.is_empty() {
            return Err(Error::Invalid(wrong));
        }
        assign_address(service, old, pool)?;
    }
    if needs_node_ports(service) {
        assign_ports(service, pool)?;
    }
    if needs_health_port(service) {
        assign_health_port(service, pool)?;
    }
    Ok(())
}

fn family_errors(service: &Value) -> Vec<FieldError> {
    let spec = Path::new("spec");
    let (addresses, families) = (texts(service, "/spec/clusterIPs"), texts(service, "/spec/ipFamilies"));
    let policy = text(service, "/spec/ipFamilyPolicy");
    let mut errors = Vec::new();
    if policy == "SingleStack" {
        for (count, what) in [(addresses.len(), "cluster IPs"), (families.len(), "IP families")] {
            if count == 2 {
                let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                errors.push(FieldError::invalid(&spec.child("ipFamilyPolicy"), policy, why));
            }
        }
    }
    for (at, _) in addresses.iter().enumerate().filter(|(at, ip)| ip.contains(':') && *at >= families.len()) {
        let path = spec.child("clusterIPs").index(at);
        errors.push(FieldError::invalid(&path, addresses.clone(), "IPv6 is not configured on this cluster"));
    }
    let free = addresses == ["None"] && map(service, "/spec/selector").is_none_or(serde_json::Map::is_empty);
    if !errors.is_empty() || free {
        return errors;
    }
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(&spec.child("ipFamilyPolicy"), policy, why));
    }
    for (at, family) in families.iter().enumerate().filter(|(_, family)| **family != "IPv4") {
        let path = spec.child("ipFamilies").index(at);
        errors.push(FieldError::invalid(&path, *family, "not configured on this cluster"));
    }
    errors
}

fn assign_address(service: &mut Value, old: Option<&Value>, pool: &Pool<'_>) -> Result<(), Error> {
    let wanted = text(service, "/spec/clusterIP").to_owned();
    if wanted.is_empty() {
        let free = address(pool.range, pool.addresses, pool.start)
            .ok_or(Error::Full("failed to allocate a serviceIP: range is full"))?
            .to_string();
        if let Some(spec) = map_mut(service, "spec") {
            spec.insert("clusterIPs".to_owned(), json!([free]));
            spec.insert("clusterIP".to_owned(), free.into());
        }
        return Ok(());
    }
    let kept = old.is_some_and(|old| text(old, "/spec/clusterIP") == wanted);
    if wanted == "None" || kept {
        return Ok(());
    }
    let path = Path::new("spec.clusterIPs");
    match address_error(pool.range, pool.addresses, &wanted, items(service, "/spec/clusterIPs"), &path) {
        Some(error) => Err(Error::Invalid(vec![error])),
        None => Ok(()),
    }
}

fn assign_ports(service: &mut Value, pool: &Pool<'_>) -> Result<(), Error> {
    let path = Path::new("spec.ports");
    let mut taken = pool.ports.clone();
    let mut own = BTreeSet::new();
    for (at, port) in items(service, "/spec/ports").iter().enumerate() {
        let wanted = number(port, "/nodePort");
        if wanted == 0 {
            continue;
        }
        let path = path.index(at).child("nodePort");
        if let Some(error) = node_port_error(pool.ports, wanted, &path) {
            return Err(Error::Invalid(vec![error]));
        }
        // One service may use a port once for each protocol.
        if !own.insert((text(port, "/protocol").to_owned(), wanted)) {
            let error = FieldError::invalid(&path, wanted, "provided port is already allocated");
            return Err(Error::Invalid(vec![error]));
        }
        taken.extend(u16::try_from(wanted));
    }
    for port in each_mut(service, "/spec/ports") {
        if port.get("nodePort").and_then(Value::as_i64).unwrap_or_default() == 0 {
            let free = free_port(&taken, pool)?;
            taken.insert(free);
            port.insert("nodePort".to_owned(), free.into());
        }
    }
    Ok(())
}

fn assign_health_port(service: &mut Value, pool: &Pool<'_>) -> Result<(), Error> {
    let wanted = number(service, "/spec/healthCheckNodePort");
    let mut taken = pool.ports.clone();
    taken.extend(items(service, "/spec/ports").iter().filter_map(|port| u16::try_from(number(port, "/nodePort")).ok()));
    if wanted != 0 {
        return match node_port_error(&taken, wanted, &Path::new("spec.healthCheckNodePort")) {
            Some(error) => Err(Error::Invalid(vec![error])),
            None => Ok(()),
        };
    }
    let free = free_port(&taken, pool)?;
    if let Some(spec) = map_mut(service, "spec") {
        spec.insert("healthCheckNodePort".to_owned(), free.into());
    }
    Ok(())
}

fn free_port(taken: &BTreeSet<u16>, pool: &Pool<'_>) -> Result<u16, Error> {
    let start = u16::try_from(pool.start % u32::from(u16::MAX)).unwrap_or_default();
    node_port(taken, start).ok_or(Error::Full("failed to allocate a nodePort: range is full"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(spec: impl Into<Value>) -> Result<Value, Error> {
        let spec = spec.into();
        let addresses = BTreeSet::from(["10.0.0.2".parse().unwrap()]);
        let ports = BTreeSet::from([30_000]);
        let range = "10.0.0.0/29".parse().unwrap();
        let mut service = json!({ "spec": spec });
        let pool = Pool { range, addresses: &addresses, ports: &ports, start: 1 };
        assign(&mut service, None, &pool)?;
        Ok(service["spec"].clone())
    }

    #[test]
    fn what_is_missing_is_filled_in() {
        let spec = assigned(json!({"type": "NodePort", "ports": [{"port": 80}, {"port": 81}]})).unwrap();
        assert_eq!(spec["clusterIP"], "10.0.0.3");
        assert_eq!(spec["clusterIPs"], json!(["10.0.0.3"]));
        assert_eq!(spec["ports"], json!([{"port": 80, "nodePort": 30001}, {"port": 81, "nodePort": 30002}]));
        let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]});
        assert_eq!(assigned(local).unwrap()["healthCheckNodePort"], 30002);
        let headless = json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]});
        assert_eq!(assigned(headless.clone()).unwrap(), headless);
        let named = json!({"type": "ExternalName"});
        assert_eq!(assigned(named.clone()).unwrap(), named);
    }

    #[test]
    fn what_is_taken_is_refused() {
        let refused = |spec: Value| match assigned(spec) {
            Err(Error::Invalid(errors)) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            other => format!("{other:?}"),
        };
        assert_eq!(
            refused(json!({"type": "ClusterIP", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]})),
            "spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: failed to allocate IP 10.0.0.2: provided IP is already \
             allocated"
        );
        assert_eq!(
            refused(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000}]})),
            "spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated"
        );
        let both = json!([
            {"port": 80, "nodePort": 30001, "protocol": "TCP"},
            {"port": 80, "nodePort": 30001, "protocol": "UDP"},
        ]);
        assert!(assigned(json!({"type": "NodePort", "ports": both})).is_ok());
    }
}
