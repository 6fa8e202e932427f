//! Which paths there are, and which methods each takes.

use http::Method;

/// What a path asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    AclBootstrap,
    AclTokens,
    AclTokenCreate,
    AclTokenSelf,
    AclToken,
    AclPolicies,
    AclPolicyCreate,
    AclPolicyByName,
    AclPolicy,
    /// What there is none of here, and never is.
    AclNone,
    AgentSelf,
    AgentHost,
    AgentVersion,
    AgentMetrics,
    AgentReload,
    AgentMembers,
    AgentJoin,
    AgentLeave,
    AgentForceLeave,
    AgentMaintenance,
    AgentServices,
    AgentService,
    AgentRegisterService,
    AgentDeregisterService,
    AgentServiceMaintenance,
    AgentChecks,
    AgentRegisterCheck,
    AgentDeregisterCheck,
    AgentCheckPass,
    AgentCheckWarn,
    AgentCheckFail,
    AgentCheckUpdate,
    AgentHealthById,
    AgentHealthByName,
    CatalogRegister,
    CatalogDeregister,
    CatalogDatacenters,
    CatalogNodes,
    CatalogServices,
    CatalogService,
    CatalogNode,
    CatalogNodeServices,
    CatalogConnect,
    CoordinateDatacenters,
    CoordinateNodes,
    CoordinateNode,
    EventFire,
    EventList,
    HealthNode,
    HealthChecks,
    HealthState,
    HealthService,
    HealthConnect,
    Kv,
    SessionCreate,
    SessionDestroy,
    SessionRenew,
    SessionInfo,
    SessionNode,
    SessionList,
    Snapshot,
    StatusLeader,
    StatusPeers,
    Txn,
}

/// Paths, those with a slash at the end with everything below; the longest that fits counts.
const TABLE: &[(&str, &[Method], Endpoint)] = &[
    ("/v1/acl/bootstrap", &[Method::PUT], Endpoint::AclBootstrap),
    ("/v1/acl/tokens", &[Method::GET], Endpoint::AclTokens),
    ("/v1/acl/token", &[Method::PUT], Endpoint::AclTokenCreate),
    ("/v1/acl/token/self", &[Method::GET], Endpoint::AclTokenSelf),
    ("/v1/acl/token/", &[Method::GET, Method::PUT, Method::DELETE], Endpoint::AclToken),
    ("/v1/acl/policies", &[Method::GET], Endpoint::AclPolicies),
    ("/v1/acl/policy", &[Method::PUT], Endpoint::AclPolicyCreate),
    ("/v1/acl/policy/name/", &[Method::GET], Endpoint::AclPolicyByName),
    ("/v1/acl/policy/", &[Method::GET, Method::PUT, Method::DELETE], Endpoint::AclPolicy),
    ("/v1/acl/roles", &[Method::GET], Endpoint::AclNone),
    ("/v1/acl/auth-methods", &[Method::GET], Endpoint::AclNone),
    ("/v1/acl/binding-rules", &[Method::GET], Endpoint::AclNone),
    ("/v1/agent/self", &[Method::GET], Endpoint::AgentSelf),
    ("/v1/agent/host", &[Method::GET], Endpoint::AgentHost),
    ("/v1/agent/version", &[Method::GET], Endpoint::AgentVersion),
    ("/v1/agent/metrics", &[Method::GET], Endpoint::AgentMetrics),
    ("/v1/agent/reload", &[Method::PUT], Endpoint::AgentReload),
    ("/v1/agent/members", &[Method::GET], Endpoint::AgentMembers),
    ("/v1/agent/join/", &[Method::PUT], Endpoint::AgentJoin),
    ("/v1/agent/leave", &[Method::PUT], Endpoint::AgentLeave),
    ("/v1/agent/force-leave/", &[Method::PUT], Endpoint::AgentForceLeave),
    ("/v1/agent/maintenance", &[Method::PUT], Endpoint::AgentMaintenance),
    ("/v1/agent/services", &[Method::GET], Endpoint::AgentServices),
    ("/v1/agent/service/", &[Method::GET], Endpoint::AgentService),
    ("/v1/agent/service/register", &[Method::PUT], Endpoint::AgentRegisterService),
    ("/v1/agent/service/deregister/", &[Method::PUT], Endpoint::AgentDeregisterService),
    ("/v1/agent/service/maintenance/", &[Method::PUT], Endpoint::AgentServiceMaintenance),
    ("/v1/agent/checks", &[Method::GET], Endpoint::AgentChecks),
    ("/v1/agent/check/register", &[Method::PUT], Endpoint::AgentRegisterCheck),
    ("/v1/agent/check/deregister/", &[Method::PUT], Endpoint::AgentDeregisterCheck),
    ("/v1/agent/check/pass/", &[Method::PUT], Endpoint::AgentCheckPass),
    ("/v1/agent/check/warn/", &[Method::PUT], Endpoint::AgentCheckWarn),
    ("/v1/agent/check/fail/", &[Method::PUT], Endpoint::AgentCheckFail),
    ("/v1/agent/check/update/", &[Method::PUT], Endpoint::AgentCheckUpdate),
    ("/v1/agent/health/service/id/", &[Method::GET], Endpoint::AgentHealthById),
    ("/v1/agent/health/service/name/", &[Method::GET], Endpoint::AgentHealthByName),
    ("/v1/catalog/register", &[Method::PUT], Endpoint::CatalogRegister),
    ("/v1/catalog/deregister", &[Method::PUT], Endpoint::CatalogDeregister),
    ("/v1/catalog/datacenters", &[Method::GET], Endpoint::CatalogDatacenters),
    ("/v1/catalog/nodes", &[Method::GET], Endpoint::CatalogNodes),
    ("/v1/catalog/services", &[Method::GET], Endpoint::CatalogServices),
    ("/v1/catalog/service/", &[Method::GET], Endpoint::CatalogService),
    ("/v1/catalog/node/", &[Method::GET], Endpoint::CatalogNode),
    ("/v1/catalog/node-services/", &[Method::GET], Endpoint::CatalogNodeServices),
    ("/v1/catalog/connect/", &[Method::GET], Endpoint::CatalogConnect),
    ("/v1/coordinate/datacenters", &[Method::GET], Endpoint::CoordinateDatacenters),
    ("/v1/coordinate/nodes", &[Method::GET], Endpoint::CoordinateNodes),
    ("/v1/coordinate/node/", &[Method::GET], Endpoint::CoordinateNode),
    ("/v1/event/fire/", &[Method::PUT], Endpoint::EventFire),
    ("/v1/event/list", &[Method::GET], Endpoint::EventList),
    ("/v1/health/node/", &[Method::GET], Endpoint::HealthNode),
    ("/v1/health/checks/", &[Method::GET], Endpoint::HealthChecks),
    ("/v1/health/state/", &[Method::GET], Endpoint::HealthState),
    ("/v1/health/service/", &[Method::GET], Endpoint::HealthService),
    ("/v1/health/connect/", &[Method::GET], Endpoint::HealthConnect),
    ("/v1/kv/", &[Method::GET, Method::PUT, Method::DELETE], Endpoint::Kv),
    ("/v1/session/create", &[Method::PUT], Endpoint::SessionCreate),
    ("/v1/session/destroy/", &[Method::PUT], Endpoint::SessionDestroy),
    ("/v1/session/renew/", &[Method::PUT], Endpoint::SessionRenew),
    ("/v1/session/info/", &[Method::GET], Endpoint::SessionInfo),
    ("/v1/session/node/", &[Method::GET], Endpoint::SessionNode),
    ("/v1/session/list", &[Method::GET], Endpoint::SessionList),
    ("/v1/snapshot", &[Method::GET, Method::PUT], Endpoint::Snapshot),
    ("/v1/status/leader", &[Method::GET], Endpoint::StatusLeader),
    ("/v1/status/peers", &[Method::GET], Endpoint::StatusPeers),
    ("/v1/txn", &[Method::PUT], Endpoint::Txn),
];

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route<'a> {
    pub(super) endpoint: Endpoint,
    pub(super) methods: &'static [Method],
    /// What follows the path's fixed part: a name, an id, a key.
    pub(super) rest: &'a str,
}

/// Finds the endpoint of a decoded path.
pub(super) fn find(path: &str) -> Option<Route<'_>> {
    let fits = |known: &str| if known.ends_with('/') { path.starts_with(known) } else { path == known };
    let found = TABLE.iter().filter(|(known, ..)| fits(known)).max_by_key(|(known, ..)| known.len())?;
    Some(Route { endpoint: found.2, methods: found.1, rest: &path[found.0.len()..] })
}

/// Whether a path only lacks its last slash.
pub(super) fn lacks_slash(path: &str) -> bool {
    TABLE.iter().any(|(known, ..)| known.strip_suffix('/') == Some(path))
}

/// The `Allow` header of an endpoint.
pub(super) fn allow(methods: &[Method]) -> String {
    methods.iter().fold("OPTIONS".to_owned(), |list, method| format!("{list},{method}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_path_counts() {
        let table = [
            ("/v1/agent/service/register", Some((Endpoint::AgentRegisterService, ""))),
            ("/v1/agent/service/registered", Some((Endpoint::AgentService, "registered"))),
            ("/v1/agent/service/deregister/a/b", Some((Endpoint::AgentDeregisterService, "a/b"))),
            ("/v1/kv/", Some((Endpoint::Kv, ""))),
            ("/v1/kv", None),
            ("/v1/catalog/nodes/", None),
            ("/v1/connect/intentions", None),
        ];
        for (path, expected) in table {
            assert_eq!(find(path).map(|route| (route.endpoint, route.rest)), expected, "{path}");
        }
        assert!(lacks_slash("/v1/kv") && !lacks_slash("/v1/kv/") && !lacks_slash("/v1/txn"));
        assert_eq!(allow(find("/v1/kv/a").unwrap().methods), "OPTIONS,GET,PUT,DELETE");
    }
}
