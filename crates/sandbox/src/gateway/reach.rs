//! From a session's name to its sidecar; what is watched is asked again only when it turns out to be old.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use thane_api::wire::sandbox::{BindRequest, DescribeRequest};
use tonic::Code;

use super::Shared;
use super::channel::NoChannel;
use super::create::name;
use super::failure::{Failure, Result};
use super::keys::Caller;
use super::sessions::Session;
use super::sidecars::{Address, Sidecar};
use crate::kinds::Sandbox;
use crate::{names, pods};

impl Shared {
    /// A session somebody may use.
    pub(super) async fn session(&self, id: &str, namespace: Option<&str>, caller: &Caller) -> Result<Arc<Session>> {
        if let Some(namespace) = namespace {
            name("namespace", namespace)?;
        }
        let mut found = self.sessions.named(id, namespace, caller);
        if found.is_empty() {
            self.look_for(id, namespace).await?;
            found = self.sessions.named(id, namespace, caller);
        }
        found.retain(|session| !session.is_ending && caller.in_namespace(&session.namespace).is_ok());
        match (found.len(), found.pop()) {
            (1, Some(session)) => {
                self.known(&session);
                Ok(session)
            }
            (0, _) | (_, None) => Err(absent(id)),
            _ => {
                Err(Failure::conflict(format!("several namespaces have a session {id:?}: say which with ?namespace=")))
            }
        }
    }

    /// Asks the API for what may just have been made.
    async fn look_for(&self, id: &str, namespace: Option<&str>) -> Result<()> {
        if id.is_empty() || id.len() > 253 || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)) {
            return Err(absent(id));
        }
        match namespace {
            Some(namespace) => {
                let api: Api<Sandbox> = Api::namespaced(self.client.clone(), namespace);
                if let Some(sandbox) = api.get_opt(id).await? {
                    self.sessions.learn(Session::from(&sandbox));
                }
            }
            None => {
                let api: Api<Sandbox> = Api::all(self.client.clone());
                for sandbox in api.list(&ListParams::default().fields(&format!("metadata.name={id}"))).await? {
                    self.sessions.learn(Session::from(&sandbox));
                }
            }
        }
        Ok(())
    }

    /// The sidecar of a session.
    pub(super) async fn sidecar(&self, session: &Session) -> Result<Sidecar> {
        let address = session.address()?;
        let first = match self.sidecars.reach(address).await {
            Ok(sidecar) => return Ok(sidecar),
            Err(first) => first,
        };
        // What was watched may be old, or the pod is gone: only now is it worth asking.
        let session = self.again(session).await?;
        let address = session.address()?;
        if let NoChannel::Stranger(reason) = first {
            return Err(Failure::unavailable("the sandbox is not reached").with_detail(reason));
        }
        self.pod_is_there(&session, address).await?;
        match self.sidecars.reach_patiently(address).await {
            Ok(sidecar) => Ok(sidecar),
            Err(reason) => {
                self.pod_is_there(&session, address).await?;
                Err(Failure::unavailable("the sandbox does not answer").with_detail(reason.into_message()))
            }
        }
    }

    /// A session as it is now.
    pub(super) async fn again(&self, session: &Session) -> Result<Arc<Session>> {
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), &session.namespace);
        match api.get_opt(&session.id).await? {
            Some(sandbox) if sandbox.metadata.uid.as_deref() == Some(session.uid.as_str()) => {
                Ok(self.sessions.learn(Session::from(&sandbox)))
            }
            _ => {
                self.sessions.forget(&session.id, &session.namespace);
                Err(absent(&session.id))
            }
        }
    }

    async fn pod_is_there(&self, session: &Session, address: &Address) -> Result<()> {
        let pod = self.pod(address).await?;
        let phase = pod.as_ref().and_then(|pod| pod.status.as_ref()?.phase.clone()).unwrap_or_default();
        let is_ending = pod.as_ref().is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
        if pod.is_none() || is_ending || phase == "Failed" || phase == "Succeeded" {
            let detail = if phase.is_empty() { "its pod is gone".to_owned() } else { format!("its pod is {phase}") };
            let message = format!("the sandbox of session {:?} is lost", session.id);
            return Err(Failure::lost(message).with_detail(detail));
        }
        Ok(())
    }

    /// A session's pod.
    pub(super) async fn pod(&self, address: &Address) -> Result<Option<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &address.namespace);
        Ok(api.get_opt(&address.pod).await?)
    }

    /// What has become of a session whose sidecar ended a call: it may be lost, or only the call.
    pub(super) async fn verdict(&self, session: &Session, status: tonic::Status) -> Failure {
        let failure = Failure::from(status);
        if failure.status != http::StatusCode::SERVICE_UNAVAILABLE {
            return failure;
        }
        let checked = async {
            let session = self.again(session).await?;
            self.pod_is_there(&session, session.address()?).await
        };
        match checked.await {
            Err(lost) if lost.status == http::StatusCode::GONE => lost.with_detail(failure.message),
            // A session that was deleted under its call is lost to it, too.
            Err(gone) if gone.status == http::StatusCode::NOT_FOUND => {
                Failure::lost(format!("the sandbox of session {:?} is lost", session.id)).with_detail(gone.message)
            }
            _ => failure,
        }
    }

    /// The sidecar of a session that has said that it is the session's: an address may be another's by now.
    pub(super) async fn proven(&self, session: &Session) -> Result<Sidecar> {
        let sidecar = self.sidecar(session).await?;
        if sidecar.is_proven() {
            return Ok(sidecar);
        }
        let failure = match self.prove(session, &sidecar).await {
            Ok(()) => return Ok(sidecar),
            Err(failure) => failure,
        };
        let now = self.again(session).await?;
        if now.pod == session.pod {
            return Err(failure);
        }
        let sidecar = self.sidecar(&now).await?;
        self.prove(&now, &sidecar).await?;
        Ok(sidecar)
    }

    /// Makes sure that a sidecar is the session's: one that is nobody's becomes it, as for a Sandbox made by hand.
    async fn prove(&self, session: &Session, sidecar: &Sidecar) -> Result<()> {
        let described = sidecar.steps().describe(DescribeRequest {}).await;
        let description = match described {
            Ok(description) => description.into_inner(),
            Err(status) => return Err(self.verdict(session, status).await),
        };
        let lost = || Failure::lost(format!("the sandbox of session {:?} is another's now", session.id));
        if description.session.is_empty() {
            let address = session.address()?;
            let pod = self.pod(address).await?.ok_or_else(lost)?;
            let is_own = pods::label(&pod, names::SANDBOX) == Some(session.id.as_str());
            if !is_own || pods::address(&pod) != Some(address.ip.as_str()) {
                return Err(lost());
            }
            self.bind(session, sidecar, BindRequest::default()).await?;
        } else if description.session != session.id {
            return Err(lost());
        }
        sidecar.prove();
        Ok(())
    }

    /// Gives a sandbox the environment and files of its session.
    pub(super) async fn bind(&self, session: &Session, sidecar: &Sidecar, request: BindRequest) -> Result<()> {
        let request = BindRequest { session: session.id.clone(), ..request };
        let began = self.clock.monotonic();
        let bound = sidecar.steps().bind(request).await;
        self.metrics.called("Bind", self.clock.monotonic().saturating_sub(began));
        match bound {
            Ok(_) => {
                sidecar.prove();
                Ok(())
            }
            Err(status) if status.code() == Code::FailedPrecondition => {
                Err(Failure::lost(format!("the sandbox of session {:?} is another's", session.id))
                    .with_detail(status.message()))
            }
            Err(status) => Err(status.into()),
        }
    }
}

fn absent(id: &str) -> Failure {
    Failure::absent(format!("there is no session {id:?}"))
}
