//! Certificates of sandboxes on a cluster: one authority in a Secret, and what it issues to sidecars, gateways and webhooks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use thane_runtime::pki::{self, Authority, Identity, Request, Subject};
use thane_runtime::tls::{self, ClientOptions, ClientTls, ServerOptions, ServerTls};
use thane_runtime::{SharedClock, Tasks};

use crate::kinds::WarmPool;
use crate::names;

/// The Secret that the authority is kept in.
pub const AUTHORITY: &str = "thane-sandbox-authority";
/// The Secret with what gateways show.
pub const CLIENT: &str = "thane-sandbox-client";
/// The Secret with the authority's certificate alone.
pub const PUBLIC: &str = "thane-sandbox-ca";
/// How often everything is looked at.
const LOOK: Duration = Duration::from_hours(12);
const AUTHORITY_LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);
const LIFETIME: Duration = Duration::from_hours(365 * 24);
const CERT: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA: &str = "ca.crt";

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Making or reading certificates.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// The API.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// A Secret that is not what it should be.
    #[error("Secret {0:?} has no certificate and key")]
    Incomplete(String),
}

/// What an operator has issued and keeps fresh.
pub struct Issued {
    /// Where its own Secrets are.
    pub namespace: String,
    /// The Secret of sidecars, in each namespace with pools.
    pub secret: String,
    /// What it shows to sidecars.
    pub sidecars: ClientTls,
    /// What it shows to those who ask its webhook, and the names in it.
    pub webhook: Option<(ServerTls, Vec<String>)>,
}

/// The authority, and what it issues.
pub struct Certificates {
    authority: Authority,
    namespace: String,
}

impl Certificates {
    /// The authority of a namespace, made now if there is none.
    pub async fn open(client: &Client, namespace: &str, now: Timestamp) -> Result<Self, Error> {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        if let Some(found) = api.get_opt(AUTHORITY).await? {
            return Self::read(&found, namespace);
        }
        let authority = Authority::create("thane-sandboxes", now, AUTHORITY_LIFETIME)?;
        let secret = secret(AUTHORITY, authority.identity(), None);
        match api.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(Self { authority, namespace: namespace.to_owned() }),
            // Another was quicker, and theirs is it.
            Err(kube::Error::Api(status)) if status.code == 409 => Self::read(&api.get(AUTHORITY).await?, namespace),
            Err(error) => Err(error.into()),
        }
    }

    /// The namespace they are kept in, with whoever may call sidecars.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    fn read(secret: &Secret, namespace: &str) -> Result<Self, Error> {
        let identity = identity(secret).ok_or_else(|| Error::Incomplete(AUTHORITY.to_owned()))?;
        let authority = Authority::from_pem(&identity.cert_pem, &identity.key_pem)?;
        Ok(Self { authority, namespace: namespace.to_owned() })
    }

    /// What sidecars believe.
    pub fn client(&self, name: &str, now: Timestamp) -> Result<ClientTls, Error> {
        let identity = self.authority.issue(&client_request(name), now, LIFETIME)?;
        let options = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
        Ok(ClientTls::from_pem(self.authority.cert_pem(), Some(&identity), &options)?)
    }

    /// What an API server believes that was told of the authority.
    pub fn server(&self, names: &[String], now: Timestamp) -> Result<ServerTls, Error> {
        let identity = self.authority.issue(&Request::server("webhook", names), now, LIFETIME)?;
        let options = ServerOptions { protocols: vec!["h2", "http/1.1"], ..ServerOptions::default() };
        Ok(ServerTls::from_pem(&identity, None, &options)?)
    }

    /// Makes sure that a namespace has what its sidecars show.
    pub async fn keep_sidecars(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let request = Request::server("sidecar", [names::SIDECAR_NAME]);
        self.keep(client, namespace, name, &request, now).await
    }

    /// Makes sure that a namespace has what gateways show to sidecars, and whom they believe.
    pub async fn keep_gateway(&self, client: &Client, namespace: &str, now: Timestamp) -> Result<(), Error> {
        self.keep(client, namespace, CLIENT, &client_request("gateway"), now).await?;
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let public = Secret {
            metadata: ObjectMeta { name: Some(PUBLIC.to_owned()), ..ObjectMeta::default() },
            data: Some(BTreeMap::from([(CA.to_owned(), ByteString(self.authority.cert_pem().as_bytes().to_vec()))])),
            ..Secret::default()
        };
        api.patch(PUBLIC, &PatchParams::apply("thane-operator").force(), &Patch::Apply(&public)).await?;
        Ok(())
    }

    /// Tells an API server whom to believe about a webhook, whenever that is written and does not say so, until the
    /// tasks end.
    pub async fn keep_told(self: Arc<Self>, client: Client, webhook: &'static str, tasks: Tasks) {
        let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
        let chosen = watcher::Config::default().fields(&format!("metadata.name={webhook}"));
        let mut seen = watcher(api.clone(), chosen).default_backoff().boxed();
        loop {
            let event = tokio::select! {
                () = tasks.cancelled() => return,
                event = seen.next() => event,
            };
            let found = match event {
                Some(Ok(watcher::Event::Apply(found) | watcher::Event::InitApply(found))) => found,
                Some(Err(error)) => {
                    tracing::warn!(%error, webhook, "the webhook cannot be watched, trying again");
                    continue;
                }
                Some(Ok(_)) => continue,
                None => return,
            };
            if let Err(error) = self.tell(&api, webhook, found).await {
                // Another of us may have been quicker; then the watch says so.
                tracing::info!(%error, webhook, "the webhook could not be written");
            }
        }
    }

    async fn tell(
        &self,
        api: &Api<ValidatingWebhookConfiguration>,
        webhook: &str,
        mut found: ValidatingWebhookConfiguration,
    ) -> Result<(), Error> {
        let believed = Some(ByteString(self.authority.cert_pem().as_bytes().to_vec()));
        let is_told = |one: &ValidatingWebhook| one.client_config.ca_bundle == believed;
        if found.webhooks.iter().flatten().all(is_told) {
            return Ok(());
        }
        for webhook in found.webhooks.iter_mut().flatten() {
            webhook.client_config.ca_bundle.clone_from(&believed);
        }
        let change =
            json!({"metadata": {"resourceVersion": found.metadata.resource_version}, "webhooks": found.webhooks});
        api.patch(webhook, &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }

    /// Looks at everything that was issued now and then, and issues it again in good time, until the tasks end.
    pub async fn keep_renewed(self: Arc<Self>, client: Client, issued: Issued, clock: SharedClock, tasks: Tasks) {
        loop {
            tokio::select! {
                () = tasks.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            if let Err(error) = self.renew(&client, &issued, clock.now()).await {
                tracing::warn!(%error, "certificates could not be renewed; they are looked at again later");
            }
        }
    }

    /// Issues what is in use in this process again, and what is kept in Secrets if it is due.
    pub async fn renew(&self, client: &Client, issued: &Issued, now: Timestamp) -> Result<(), Error> {
        let operator = self.authority.issue(&client_request("operator"), now, LIFETIME)?;
        issued.sidecars.replace(self.authority.cert_pem(), Some(&operator))?;
        if let Some((tls, names)) = &issued.webhook {
            tls.replace(&self.authority.issue(&Request::server("webhook", names), now, LIFETIME)?, None)?;
        }
        self.keep_gateway(client, &issued.namespace, now).await?;
        let pools: Api<WarmPool> = Api::all(client.clone());
        let pools = pools.list(&ListParams::default()).await?;
        let namespaces: BTreeSet<String> = pools.iter().filter_map(ResourceExt::namespace).collect();
        for namespace in namespaces {
            self.keep_sidecars(client, &namespace, &issued.secret, now).await?;
        }
        Ok(())
    }

    async fn keep(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
        request: &Request,
        now: Timestamp,
    ) -> Result<(), Error> {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = api.get_opt(name).await?;
        if found.as_ref().is_some_and(|found| self.is_good(found, now)) {
            return Ok(());
        }
        let identity = self.authority.issue(request, now, LIFETIME)?;
        let wanted = secret(name, &identity, Some(self.authority.cert_pem()));
        let by = PatchParams::apply("thane-operator").force();
        api.patch(name, &by, &Patch::Apply(&wanted)).await?;
        Ok(())
    }

    /// Whether a Secret has a certificate of this authority's that is good for a while.
    fn is_good(&self, secret: &Secret, now: Timestamp) -> bool {
        let ours = text(secret, CA).as_deref() == Some(self.authority.cert_pem());
        let details = identity(secret).and_then(|identity| pki::inspect(&identity.cert_pem).ok());
        ours && details.and_then(|details| details.first().map(|first| !first.renewal_due(now))).unwrap_or(false)
    }
}

fn client_request(name: &str) -> Request {
    Request::client(Subject { common_name: name.to_owned(), ..Subject::default() })
}

fn secret(name: &str, identity: &Identity, ca: Option<&str>) -> Secret {
    let pairs = [(CERT, Some(identity.cert_pem.as_str())), (KEY, Some(identity.key_pem.as_str())), (CA, ca)];
    let data =
        pairs.into_iter().filter_map(|(name, text)| Some((name.to_owned(), ByteString(text?.as_bytes().to_vec()))));
    Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(data.collect::<BTreeMap<_, _>>()),
        type_: Some("kubernetes.io/tls".to_owned()),
        ..Secret::default()
    }
}

fn identity(secret: &Secret) -> Option<Identity> {
    Some(Identity { cert_pem: text(secret, CERT)?, key_pem: text(secret, KEY)? })
}

fn text(secret: &Secret, name: &str) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get(name)?.0.clone()).ok()
}
