//! What `/v1/agent/*` tells about the agent itself and its neighbours.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::options::ReadOptions;
use super::route::Endpoint;
use crate::backend::Consistency;
use crate::http::Answer;
use crate::model::{Check, Node, Policy, Resource, Status};
use crate::topic::{Row, Topic};

/// What a node's agent being there is called.
const AGENT_CHECK: &str = "serfHealth";
/// Serf's words for a member that is there, and for one that is not.
const ALIVE: u8 = 1;
const FAILED: u8 = 4;
/// Agents hear of each other from the hub.
const NO_GOSSIP: &str = "agents do not gossip here: each is told its hub by its configuration";

impl Call<'_> {
    pub(super) async fn agent(&self, endpoint: Endpoint) -> Outcome {
        match endpoint {
            Endpoint::AgentSelf => self.agent_self().await,
            Endpoint::AgentHost => self.agent_host(),
            Endpoint::AgentVersion => self.agent_version(),
            Endpoint::AgentMetrics => self.agent_metrics(),
            Endpoint::AgentReload => self.agent_reload().await,
            Endpoint::AgentMembers => self.agent_members().await,
            Endpoint::AgentJoin | Endpoint::AgentLeave | Endpoint::AgentForceLeave => {
                self.may_on_agent(Policy::Write)?;
                Err(Failure::failed(NO_GOSSIP))
            }
            _ => self.agent_local(endpoint).await,
        }
    }

    /// Refuses what the token may not do with this agent.
    pub(super) fn may_on_agent(&self, wanted: Policy) -> Result<(), Failure> {
        Ok(self.access.require(Resource::Agent, &self.place().node, wanted)?)
    }

    async fn agent_self(&self) -> Outcome {
        self.may_on_agent(Policy::Read)?;
        let place = self.place();
        let version = self.consul.options.version.as_str();
        let is_hub = self.backend().local().is_none();
        let own = self.own_node().await;
        let address = Some(place.address.as_str()).filter(|address| !address.is_empty());
        self.json(&json!({
            "Config": {
                "Datacenter": place.datacenter,
                "PrimaryDatacenter": place.datacenter,
                "NodeName": place.node,
                "NodeID": place.node_id,
                "Revision": "",
                "Server": is_hub,
                "Version": version,
                "BuildDate": BUILD_DATE,
                "BindAddr": address,
            },
            "DebugConfig": {
                "ACLsEnabled": !self.access.is_open(),
                "Datacenter": place.datacenter,
                "NodeID": place.node_id,
                "NodeName": place.node,
                "ServerMode": is_hub,
                "SessionTTLMin": "10s",
                "Version": version,
            },
            "Coord": null,
            "Member": member(&own, ALIVE),
            "Stats": {
                "agent": self.counts(),
                "build": {"prerelease": "", "revision": "", "version": version},
            },
            "Meta": own.meta,
            "xDS": null,
        }))
    }

    fn counts(&self) -> BTreeMap<&'static str, String> {
        let Some(local) = self.backend().local() else { return BTreeMap::new() };
        let ttls = local.checks().values().filter(|check| check.kind == "ttl").count();
        BTreeMap::from([
            ("services", local.services().len().to_string()),
            ("checks", local.checks().len().to_string()),
            ("check_ttls", ttls.to_string()),
            ("check_monitors", (local.checks().len() - ttls).to_string()),
        ])
    }

    /// This node as the registry has it, or as it is known here.
    async fn own_node(&self) -> Node {
        let place = self.place();
        let stale = ReadOptions { consistency: Consistency::Stale, ..ReadOptions::default() };
        let topic = Topic::Node(place.node.to_lowercase());
        let known = self.consul.read(&self.caller, &topic, &stale, |_| true).await.ok();
        let found = known.iter().flat_map(|reading| &reading.data.rows).find_map(|row| match row {
            Row::Node(node) => Some(node.value.as_ref().clone()),
            _ => None,
        });
        found.unwrap_or_else(|| Node {
            name: place.node.clone(),
            id: place.node_id.clone(),
            address: place.address.clone(),
            datacenter: place.datacenter.clone(),
            ..Node::default()
        })
    }

    /// The nodes that have an agent.
    async fn agent_members(&self) -> Outcome {
        if self.query().given("wan").is_some() && !matches!(self.query().get("segment"), "" | "_all") {
            return Err(Failure::bad("Cannot provide a segment with wan=true"));
        }
        let options = ReadOptions::default();
        let (nodes, checks) = (self.topic(&Topic::Nodes, &options).await?, self.topic(&Topic::Checks, &options).await?);
        let lost = |name: &str| {
            let gone = |check: &Check| check.id == AGENT_CHECK && check.status == Status::Critical;
            checks.data.rows.iter().any(|row| matches!(row, Row::Check(on, check) if on == name && gone(&check.value)))
        };
        let (mut members, mut hidden) = (Vec::new(), false);
        for row in &nodes.data.rows {
            let Row::Node(node) = row else { continue };
            if node.value.owner.is_none() {
                continue;
            }
            if self.access.allows(Resource::Node, &node.value.name, Policy::Read) {
                members.push(member(&node.value, if lost(&node.value.name) { FAILED } else { ALIVE }));
            } else {
                hidden = true;
            }
        }
        let mut answer = self.json(&members)?;
        self.tell_hidden(&mut answer, hidden);
        Ok(answer)
    }

    fn agent_host(&self) -> Outcome {
        self.access.require(Resource::Operator, "", Policy::Read)?;
        self.json(&json!({
            "Memory": null,
            "CPU": null,
            "Host": {"hostname": self.place().node, "os": std::env::consts::OS},
            "Disk": null,
            "CollectionTime": 0,
            "Errors": null,
        }))
    }

    fn agent_version(&self) -> Outcome {
        self.json(&json!({
            "SHA": "", "BuildDate": BUILD_DATE, "HumanVersion": self.consul.options.version, "FIPS": "",
        }))
    }

    fn agent_metrics(&self) -> Outcome {
        self.may_on_agent(Policy::Read)?;
        let text = self.consul.options.metrics_text.as_ref().map(|metrics| metrics()).unwrap_or_default();
        let accept = self.request.headers.get(http::header::ACCEPT).and_then(|value| value.to_str().ok());
        let wants_text = self.query().get("format") == "prometheus"
            || accept.is_some_and(|accept| accept.to_lowercase().contains("application/openmetrics-text"));
        if wants_text {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            return Ok(Answer::typed(StatusCode::OK, kind, text));
        }
        let gauges: Vec<Value> = text.lines().filter_map(sample).collect();
        self.json(&json!({"Timestamp": "", "Gauges": gauges, "Points": [], "Counters": [], "Samples": []}))
    }

    async fn agent_reload(&self) -> Outcome {
        self.may_on_agent(Policy::Write)?;
        self.local()?.reload().await?;
        Ok(Self::done())
    }
}

fn member(node: &Node, status: u8) -> Value {
    json!({
        "Name": node.name,
        "Addr": node.address,
        "Port": 0,
        "Tags": {"dc": node.datacenter, "id": node.id, "role": "node", "segment": ""},
        "Status": status,
        "ProtocolMin": 1,
        "ProtocolMax": 5,
        "ProtocolCur": 2,
        "DelegateMin": 2,
        "DelegateMax": 5,
        "DelegateCur": 4,
    })
}

/// Nobody keeps it; Consul's own builds without one say so.
const BUILD_DATE: &str = "1970-01-01T00:00:01Z";

/// One line of the text format.
fn sample(line: &str) -> Option<Value> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let (name, rest) = series.split_once('{').unwrap_or((series, ""));
    let labels: BTreeMap<&str, &str> = rest
        .trim_end_matches('}')
        .split(',')
        .filter_map(|label| label.split_once('='))
        .map(|(name, value)| (name, value.trim_matches('"')))
        .collect();
    Some(json!({"Name": name, "Value": value.parse::<f64>().ok()?, "Labels": labels}))
}
