//! Services of others on the hub's listener: whoever calls is known by the certificate alone.

use std::collections::BTreeMap;

use thane_api::AgentName;
use thane_api::wire::version::version_client::VersionClient;
use thane_api::wire::version::version_server::{Version, VersionServer};
use thane_api::wire::version::{VersionRequest, VersionResponse};
use thane_hub::transport::Guests;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};

use crate::bed::{Bed, Setup, call, fingerprint};

/// Says who called.
struct Mirror;

#[tonic::async_trait]
impl Version for Mirror {
    async fn version(&self, request: Request<VersionRequest>) -> Result<Response<VersionResponse>, Status> {
        let name = request.extensions().get::<AgentName>();
        let name = name.ok_or_else(|| Status::internal("nobody"))?;
        Ok(Response::new(VersionResponse { version: name.0.clone() }))
    }
}

async fn bed() -> Bed {
    let guests = Guests::new("/versionapi.", Routes::new(VersionServer::new(Mirror)));
    Bed::with(Setup { guests: Some(guests), ..Setup::default() }).await
}

#[tokio::test]
async fn a_guest_hears_the_name_in_the_certificate() {
    let bed = bed().await;
    for name in ["agent-a", "agent-b"] {
        let client = bed.client(Some(&bed.identity(name))).await;
        // a token of someone else changes nothing
        let (_, other) = bed.authenticated("agent-c").await;
        let answer = VersionClient::new(client).version(call(&other.access_token, VersionRequest {})).await;
        assert_eq!(answer.unwrap().into_inner().version, name);
    }
}

#[tokio::test]
async fn a_guest_is_not_called_by_strangers() {
    let bed = bed().await;
    let blocked = bed.identity("agent-a");
    let callers = BTreeMap::from([
        ("no certificate", (None, Code::Unauthenticated)),
        ("no label", (Some(bed.identity("Not_A_Label")), Code::Unauthenticated)),
        ("the hub's namespace", (Some(bed.identity("argocd")), Code::Unauthenticated)),
    ]);
    for (what, (identity, code)) in callers {
        let client = bed.client(identity.as_ref()).await;
        let refused = VersionClient::new(client).version(VersionRequest {}).await.unwrap_err();
        assert_eq!(refused.code(), code, "{what}: {refused:?}");
    }
    let client = bed.client(Some(&blocked)).await;
    VersionClient::new(client.clone()).version(VersionRequest {}).await.unwrap();
    bed.gate.set_blocked([fingerprint(&blocked)]);
    assert!(VersionClient::new(client).version(VersionRequest {}).await.is_err(), "a blocked certificate is cut off");
}
