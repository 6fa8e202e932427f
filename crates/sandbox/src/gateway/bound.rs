//! What was bound to a session, kept in a Secret of its Sandbox, so that forks and replays begin with the same.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use prost::Message;
use thane_api::wire::sandbox::BindRequest;

use super::Shared;
use super::failure::{Failure, Result};
use super::sessions::Session;
use crate::kinds::Sandbox;

/// The field of the Secret.
const BOUND: &str = "bound";
/// What a Secret can hold, and a little less. Files beyond it are not kept; snapshots have them anyway.
const BYTES_MAX: usize = 900 * 1024;

fn called(session: &str) -> String {
    format!("{session}-bound")
}

impl Shared {
    /// Keeps what is bound to a session.
    pub(super) async fn remember(&self, sandbox: &Sandbox, bind: &BindRequest) -> Result<()> {
        let whole = bind.encode_to_vec();
        let kept = if whole.len() <= BYTES_MAX {
            whole
        } else {
            BindRequest { files: Vec::new(), ..bind.clone() }.encode_to_vec()
        };
        if kept.len() > BYTES_MAX {
            return Err(Failure::bad("env: it is too large"));
        }
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(called(&sandbox.name_any())),
                owner_references: sandbox.owner_ref(&()).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(BOUND.to_owned(), ByteString(kept))])),
            ..Secret::default()
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &sandbox.namespace().unwrap_or_default());
        api.create(&PostParams::default(), &secret).await?;
        Ok(())
    }

    /// What was bound to a session.
    pub(super) async fn remembered(&self, session: &Session) -> Result<BindRequest> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &session.namespace);
        let Some(secret) = api.get_opt(&called(&session.id)).await? else { return Ok(BindRequest::default()) };
        let kept = secret.data.unwrap_or_default().remove(BOUND).unwrap_or_default();
        BindRequest::decode(kept.0.as_slice()).map_err(|error| {
            Failure::unavailable("what was bound to the session cannot be read").with_detail(error.to_string())
        })
    }
}
