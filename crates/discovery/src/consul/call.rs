//! One request on its way to an answer.

use http::StatusCode;
use serde::Serialize;

use super::Consul;
use super::failure::Failure;
use super::headers::{Detail, put_filtered, put_reading};
use super::options::{ReadOptions, token};
use super::route::Endpoint;
use crate::access::{Access, Vet};
use crate::backend::{Backend, Caller, LocalAgent, Place, Reading};
use crate::command::{Command, Done};
use crate::http::{Answer, Query, Request};
use crate::topic::{Topic, TopicData};

/// A request, what follows its path, and what its token may do.
pub(super) struct Call<'a> {
    pub(super) consul: &'a Consul,
    pub(super) request: &'a Request,
    pub(super) rest: &'a str,
    pub(super) access: Access,
    pub(super) caller: Caller,
}

/// What an endpoint answers.
pub(super) type Outcome = Result<Answer, Failure>;

impl<'a> Call<'a> {
    pub(super) async fn new(consul: &'a Consul, request: &'a Request, rest: &'a str) -> Result<Self, Failure> {
        for (name, what) in [("ns", "Namespaces"), ("partition", "Partitions")] {
            if request.query.given(name).is_some() {
                let text = format!("Invalid query parameter: {name:?} - {what} are a Consul Enterprise feature");
                return Err(Failure::bad(text));
            }
        }
        let caller = Caller { token: token(&request.query, &request.headers).map(str::to_owned) };
        let access = consul.guard.access(caller.token.as_deref()).await?;
        Ok(Self { consul, request, rest, access, caller })
    }

    pub(super) async fn dispatch(&self, endpoint: Endpoint) -> Outcome {
        match endpoint {
            Endpoint::AgentSelf
            | Endpoint::AgentHost
            | Endpoint::AgentVersion
            | Endpoint::AgentMetrics
            | Endpoint::AgentReload
            | Endpoint::AgentMembers
            | Endpoint::AgentJoin
            | Endpoint::AgentLeave
            | Endpoint::AgentForceLeave
            | Endpoint::AgentMaintenance
            | Endpoint::AgentServices
            | Endpoint::AgentService
            | Endpoint::AgentRegisterService
            | Endpoint::AgentDeregisterService
            | Endpoint::AgentServiceMaintenance
            | Endpoint::AgentChecks
            | Endpoint::AgentRegisterCheck
            | Endpoint::AgentDeregisterCheck
            | Endpoint::AgentCheckPass
            | Endpoint::AgentCheckWarn
            | Endpoint::AgentCheckFail
            | Endpoint::AgentCheckUpdate
            | Endpoint::AgentHealthById
            | Endpoint::AgentHealthByName => self.agent(endpoint).await,
            Endpoint::AclBootstrap => self.acl_bootstrap().await,
            Endpoint::AclTokens => self.acl_tokens().await,
            Endpoint::AclTokenCreate => self.acl_token_create().await,
            Endpoint::AclTokenSelf => self.acl_token_self().await,
            Endpoint::AclToken => self.acl_token().await,
            Endpoint::AclPolicies => self.acl_policies().await,
            Endpoint::AclPolicyCreate => self.acl_policy_create().await,
            Endpoint::AclPolicyByName => self.acl_policy_by_name().await,
            Endpoint::AclPolicy => self.acl_policy().await,
            Endpoint::AclNone => self.acl_none().await,
            Endpoint::Snapshot => self.snapshot().await,
            Endpoint::CatalogRegister => self.catalog_register().await,
            Endpoint::CatalogDeregister => self.catalog_deregister().await,
            Endpoint::CatalogDatacenters => self.json(&[&self.place().datacenter]),
            Endpoint::CatalogNodes => self.catalog_nodes().await,
            Endpoint::CatalogServices => self.catalog_services().await,
            Endpoint::CatalogService => self.catalog_service().await,
            Endpoint::CatalogNode => self.catalog_node().await,
            Endpoint::CatalogNodeServices => self.catalog_node_services().await,
            // Nothing here is connect-enabled.
            Endpoint::CatalogConnect | Endpoint::HealthConnect => self.connect().await,
            Endpoint::CoordinateDatacenters => self.json::<[(); 0]>(&[]),
            Endpoint::CoordinateNodes => self.coordinate_nodes().await,
            Endpoint::CoordinateNode => Ok(Answer::empty(StatusCode::NOT_FOUND)),
            Endpoint::EventFire => self.event_fire().await,
            Endpoint::EventList => self.event_list().await,
            Endpoint::HealthNode => self.health_node().await,
            Endpoint::HealthChecks => self.health_checks().await,
            Endpoint::HealthState => self.health_state().await,
            Endpoint::HealthService => self.health_service().await,
            Endpoint::Kv => self.kv().await,
            Endpoint::SessionCreate => self.session_create().await,
            Endpoint::SessionDestroy => self.session_destroy().await,
            Endpoint::SessionRenew => self.session_renew().await,
            Endpoint::SessionInfo => self.session_info().await,
            Endpoint::SessionNode => self.session_node().await,
            Endpoint::SessionList => self.session_list().await,
            Endpoint::StatusLeader => self.status_leader().await,
            Endpoint::StatusPeers => self.status_peers().await,
            Endpoint::Txn => self.txn().await,
        }
    }

    pub(super) fn query(&self) -> &'a Query {
        &self.request.query
    }

    pub(super) fn backend(&self) -> &'a dyn Backend {
        self.consul.backend.as_ref()
    }

    pub(super) fn place(&self) -> &'a Place {
        self.consul.backend.place()
    }

    /// Judges writes of whoever asks.
    pub(super) fn vet(&self) -> Vet<'_> {
        Vet { access: &self.access, backend: self.backend() }
    }

    /// The agent beside this edge; the hub has none, and says so.
    pub(super) fn local(&self) -> Result<&'a dyn LocalAgent, Failure> {
        let text = "this is the hub: what an agent registers is registered with that agent; ask the agent of that machine, \
                    or use /v1/catalog/register";
        self.consul.backend.local().ok_or_else(|| Failure::not_found(text))
    }

    /// Refuses a datacenter that is not this one.
    pub(super) fn datacenter(&self) -> Result<(), Failure> {
        let query = self.query();
        self.is_here(query.given("datacenter").or_else(|| query.given("dc")).unwrap_or_default())
    }

    /// Refuses a datacenter that is not this one; an empty one is.
    pub(super) fn is_here(&self, datacenter: &str) -> Result<(), Failure> {
        if datacenter.is_empty() || datacenter == self.place().datacenter {
            return Ok(());
        }
        Err(Failure::failed("No path to datacenter"))
    }

    /// What follows the path; complains if that is nothing.
    pub(super) fn named(&self, missing: &str) -> Result<&'a str, Failure> {
        if self.rest.is_empty() { Err(Failure::bad(missing)) } else { Ok(self.rest) }
    }

    /// The body as it came; complains if it is too large.
    pub(super) fn body(&self) -> Result<&'a [u8], Failure> {
        self.request.body.as_deref().map_err(|_| Failure::too_large("Request body too large"))
    }

    /// A topic that always has an answer.
    pub(super) async fn topic(&self, topic: &Topic, options: &ReadOptions) -> Result<Reading, Failure> {
        self.topic_if(topic, options, |_| true).await
    }

    /// A topic that may not have an answer.
    pub(super) async fn topic_if(
        &self,
        topic: &Topic,
        options: &ReadOptions,
        found: impl Fn(&TopicData) -> bool,
    ) -> Result<Reading, Failure> {
        self.datacenter()?;
        self.consul.read(&self.caller, topic, options, found).await
    }

    pub(super) async fn write(&self, command: Command) -> Result<Done, Failure> {
        Ok(self.backend().write(&self.caller, command).await?)
    }

    /// A value as JSON, indented if the request asks for that.
    pub(super) fn json<T: Serialize + ?Sized>(&self, value: &T) -> Outcome {
        Ok(Answer::json(StatusCode::OK, self.rendered(value)?))
    }

    /// The text of a value.
    pub(super) fn rendered<T: Serialize + ?Sized>(&self, value: &T) -> Result<Vec<u8>, Failure> {
        if !self.query().has("pretty") {
            return serde_json::to_vec(value).map_err(|error| Failure::failed(error.to_string()));
        }
        let mut text = Vec::new();
        let indented = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        value
            .serialize(&mut serde_json::Serializer::with_formatter(&mut text, indented))
            .map_err(|error| Failure::failed(error.to_string()))?;
        text.push(b'\n');
        Ok(text)
    }

    /// A value read from a topic, with what the headers say about that.
    pub(super) fn read_json<T: Serialize + ?Sized>(
        &self,
        value: &T,
        reading: &Reading,
        options: &ReadOptions,
        detail: Detail,
    ) -> Outcome {
        let mut answer = self.json(value)?;
        put_reading(&mut answer.headers, reading, options, detail);
        self.tell_hidden(&mut answer, reading.data.hidden);
        Ok(answer)
    }

    /// Says that the token may not see everything there is; to those without a token it would tell too much.
    pub(super) fn tell_hidden(&self, answer: &mut Answer, hidden: bool) {
        if hidden && self.caller.token.is_some() {
            put_filtered(&mut answer.headers);
        }
    }

    /// A write that has nothing to say.
    pub(super) fn done() -> Answer {
        Answer::typed(StatusCode::OK, "application/json; charset=utf-8", "")
    }
}
