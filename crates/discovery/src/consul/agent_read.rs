//! What is registered with the agent, and how it does.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout_at};

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::filtered::{lets_through, parsed};
use super::options::ReadOptions;
use super::view::{AgentServiceView, CheckView};
use crate::access::hex;
use crate::filter::Subject;
use crate::http::Answer;
use crate::model::{Check, Policy, Resource, Service, Status};

const CONTENT_HASH: HeaderName = HeaderName::from_static("x-consul-contenthash");
const REASON: HeaderName = HeaderName::from_static("x-consul-reason");
/// How long a query for another hash waits if it does not say, and at most.
const WAIT_MAX: Duration = Duration::from_mins(10);

impl Call<'_> {
    pub(super) fn agent_services(&self) -> Outcome {
        let filter = self.query().given("filter").map(|text| parsed(text, Subject::NodeServices)).transpose()?;
        let services = self.local()?.services();
        let (mut views, mut hidden) = (BTreeMap::new(), false);
        for (id, known) in services.iter() {
            let view = AgentServiceView::new(&known.service, &self.place().datacenter);
            if !self.access.allows(Resource::Service, &known.service.name, Policy::Read) {
                hidden = true;
            } else if filter.as_ref().map_or(Ok(true), |filter| lets_through(filter, &view))? {
                views.insert(id, view);
            }
        }
        let mut answer = self.json(&views)?;
        self.tell_hidden(&mut answer, hidden);
        Ok(answer)
    }

    pub(super) fn agent_checks(&self) -> Outcome {
        let filter = self.query().given("filter").map(|text| parsed(text, Subject::Checks)).transpose()?;
        let checks = self.local()?.checks();
        let (mut views, mut hidden) = (BTreeMap::new(), false);
        for (id, check) in checks.iter() {
            let view = CheckView::local(&self.place().node, check);
            if !self.sees_check(&self.place().node, &check.service_name) {
                hidden = true;
            } else if filter.as_ref().map_or(Ok(true), |filter| lets_through(filter, &view))? {
                views.insert(id, view);
            }
        }
        let mut answer = self.json(&views)?;
        self.tell_hidden(&mut answer, hidden);
        Ok(answer)
    }

    /// One instance; with a hash, when it is another one than that.
    pub(super) async fn agent_service(&self) -> Outcome {
        let options = ReadOptions::parse_wait(self.request)?;
        let (local, known) = (self.local()?, self.query().given("hash"));
        let deadline = Instant::now() + options.wait.unwrap_or(WAIT_MAX).min(WAIT_MAX);
        loop {
            // What is registered here changes without the hub.
            let wake = local.changed();
            let Some(found) = local.service(self.rest) else {
                return Err(Failure::not_found(format!("unknown service ID: {}", self.rest)));
            };
            self.access.require(Resource::Service, &found.name, Policy::Read)?;
            let view = AgentServiceView::new(&found, &self.place().datacenter);
            let hash = content_hash(&self.rendered(&view)?);
            if known != Some(hash.as_str()) || timeout_at(deadline, wake).await.is_err() {
                let mut answer = self.json(&view.with_hash(&hash))?;
                if let Ok(value) = HeaderValue::from_str(&hash) {
                    answer.headers.insert(CONTENT_HASH, value);
                }
                return Ok(answer);
            }
        }
    }

    pub(super) fn agent_health_by_id(&self) -> Outcome {
        let id = self.named("Missing serviceID")?;
        let local = self.local()?;
        let Some(found) = local.service(id) else {
            let reason = format!("ServiceId {id} not found");
            let nothing = Health { aggregated_status: "critical", service: None, checks: None };
            return self.judged(StatusCode::NOT_FOUND, &reason, &nothing);
        };
        self.access.require(Resource::Service, &found.name, Policy::Read)?;
        let checks = [local.checks_about(id), local.checks_about("")].concat();
        let health = self.health(&found, checks.iter().map(AsRef::as_ref).collect());
        self.judged(status_of(health.aggregated_status), health.aggregated_status, &health)
    }

    pub(super) fn agent_health_by_name(&self) -> Outcome {
        let name = self.named("Missing service Name")?;
        self.access.require(Resource::Service, name, Policy::Read)?;
        let local = self.local()?;
        let services = local.services();
        let named = services.values().map(|known| &known.service).filter(|service| service.name == name);
        let of_node = local.checks_about("");
        let each: Vec<_> =
            named.map(|service| (service, [local.checks_about(&service.id), of_node.clone()].concat())).collect();
        let all: Vec<Health<'_>> = each
            .iter()
            .map(|(service, checks)| self.health(service, checks.iter().map(AsRef::as_ref).collect()))
            .collect();
        let worst = all.iter().map(|health| health.aggregated_status).max_by_key(|word| status_of(word).as_u16());
        match worst {
            Some(word) => self.judged(status_of(word), word, &all),
            None => self.judged(StatusCode::NOT_FOUND, &format!("ServiceName {name} Not Found"), &all),
        }
    }

    /// How an instance does, by its own checks and then its node's.
    fn health<'d>(&'d self, service: &'d Service, checks: Vec<&'d Check>) -> Health<'d> {
        Health {
            aggregated_status: aggregated(&checks),
            service: Some(AgentServiceView::new(service, &self.place().datacenter)),
            checks: Some(checks.into_iter().map(|check| BriefCheck::new(&self.place().node, check)).collect()),
        }
    }

    /// A verdict in the status code, as a word or whole.
    fn judged<T: Serialize>(&self, status: StatusCode, reason: &str, health: &T) -> Outcome {
        let accept = self.request.headers.get(http::header::ACCEPT).and_then(|value| value.to_str().ok());
        let text =
            accept.is_some_and(|accept| accept.starts_with("text/plain")) || self.query().get("format") == "text";
        let mut answer = if text {
            Answer::typed(status, "text/plain", reason.to_owned())
        } else {
            Answer::json(status, self.rendered(health)?)
        };
        if let Ok(value) = HeaderValue::from_str(reason) {
            answer.headers.insert(REASON, value);
        }
        Ok(answer)
    }
}

/// How an instance does.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Health<'a> {
    aggregated_status: &'static str,
    service: Option<AgentServiceView<'a>>,
    checks: Option<Vec<BriefCheck<'a>>>,
}

/// A check in a verdict: what it says, not how it is run. Consul writes that part too, always empty.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct BriefCheck<'a> {
    node: &'a str,
    #[serde(rename = "CheckID")]
    check_id: &'a str,
    name: &'a str,
    status: &'static str,
    notes: &'a str,
    output: &'a str,
    #[serde(rename = "ServiceID")]
    service_id: &'a str,
    service_name: &'a str,
    service_tags: Option<&'a [String]>,
    #[serde(rename = "Type")]
    kind: &'static str,
    exposed_port: u16,
    definition: NoDefinition,
    create_index: u64,
    modify_index: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct NoDefinition {
    interval: &'static str,
    timeout: &'static str,
    deregister_critical_service_after: &'static str,
    #[serde(rename = "HTTP")]
    http: &'static str,
    header: Option<()>,
    method: &'static str,
    body: &'static str,
    #[serde(rename = "TLSServerName")]
    tls_server_name: &'static str,
    #[serde(rename = "TLSSkipVerify")]
    tls_skip_verify: bool,
    #[serde(rename = "TCP")]
    tcp: &'static str,
    #[serde(rename = "TCPUseTLS")]
    tcp_use_tls: bool,
    #[serde(rename = "UDP")]
    udp: &'static str,
    #[serde(rename = "GRPC")]
    grpc: &'static str,
    #[serde(rename = "OSService")]
    os_service: &'static str,
    #[serde(rename = "GRPCUseTLS")]
    grpc_use_tls: bool,
}

const NO_DEFINITION: NoDefinition = NoDefinition {
    interval: "0s",
    timeout: "0s",
    deregister_critical_service_after: "0s",
    http: "",
    header: None,
    method: "",
    body: "",
    tls_server_name: "",
    tls_skip_verify: false,
    tcp: "",
    tcp_use_tls: false,
    udp: "",
    grpc: "",
    os_service: "",
    grpc_use_tls: false,
};

impl<'a> BriefCheck<'a> {
    fn new(node: &'a str, check: &'a Check) -> Self {
        Self {
            node,
            check_id: &check.id,
            name: &check.name,
            status: check.status.as_str(),
            notes: &check.notes,
            output: &check.output,
            service_id: &check.service_id,
            service_name: &check.service_name,
            service_tags: Some(check.service_tags.as_slice()).filter(|tags| !tags.is_empty()),
            kind: "",
            exposed_port: 0,
            definition: NO_DEFINITION,
            create_index: 0,
            modify_index: 0,
        }
    }
}

/// The worst of several checks; maintenance is worse than critical.
fn aggregated(checks: &[&Check]) -> &'static str {
    let out = |check: &&Check| check.id == "_node_maintenance" || check.id.starts_with("_service_maintenance:");
    if checks.iter().any(out) {
        return "maintenance";
    }
    checks.iter().map(|check| check.status).max().unwrap_or(Status::Passing).as_str()
}

fn status_of(word: &str) -> StatusCode {
    match word {
        "passing" => StatusCode::OK,
        "warning" => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn content_hash(text: &[u8]) -> String {
    hex(&Sha256::digest(text)[..8])
}
