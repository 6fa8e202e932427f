//! One connection from its first call to its stream of events.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use http::Uri;
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use serde::Deserialize;
use thane_api::event::{CAPABILITIES, Codec, DecodeError, Event};
use thane_api::wire::auth::authentication_client::AuthenticationClient;
use thane_api::wire::auth::{AuthRequest, RefreshTokenRequest};
use thane_api::wire::tunnel::Frame;
use thane_api::wire::tunnel::tunnel_client::TunnelClient;
use thane_api::wire::version::VersionRequest;
use thane_api::wire::version::version_client::VersionClient;
use thane_runtime::{SharedClock, Tasks};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::metadata::{AsciiMetadataValue, MetadataMap, MetadataValue};
use tonic::{Request, Response, Status, Streaming};

use super::channel::{Channel, Line};
use super::tokens::{Claims, Renewals, Tokens, read_claims};
use super::{Config, Failure, Step};

/// What the hub's version begins with.
const PRODUCT: &str = "argocd-agent-";
const SUBSCRIBE: PathAndQuery = PathAndQuery::from_static("/eventstreamapi.EventStream/Subscribe");
/// Capabilities a hub may name.
const CAPABILITIES_MAX: usize = 32;

pub(super) type Received = Result<Event, DecodeError>;
/// The stream of events, once the hub has said yes; a Go principal says so with its first event.
pub(super) type Answer = BoxFuture<'static, Result<Response<Streaming<Received>>, Status>>;

/// What the hub told us about itself and about us.
#[derive(Debug, Clone)]
pub(super) struct Greeting {
    pub(super) agent: String,
    pub(super) hub_version: String,
    pub(super) hub_namespace: String,
    /// None of a Go principal, which does not know of capabilities.
    pub(super) capabilities: Option<BTreeSet<String>>,
}

/// Makes calls in the agent's name; clones share tokens.
#[derive(Debug, Clone)]
pub struct Calls {
    channel: Channel,
    origin: Uri,
    config: Arc<Config>,
    tokens: Arc<Mutex<Tokens>>,
    /// Held by the one call that renews them, while the others wait.
    renewals: Arc<tokio::sync::Mutex<Renewals>>,
    clock: Clock,
}

#[derive(Clone)]
struct Clock(SharedClock);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

#[derive(Deserialize)]
struct Subject {
    #[serde(rename = "clientID")]
    agent: String,
}

/// Connects, asks for the hub's version, and proves who we are.
pub(super) async fn greet(
    line: &Line,
    clock: &SharedClock,
    close: &CancellationToken,
    tasks: &Tasks,
) -> Result<(Greeting, Calls), Failure> {
    let channel = Channel::open(line, close, tasks).await?;
    let calls = Calls {
        channel,
        origin: line.origin()?,
        config: Arc::clone(&line.config),
        tokens: Arc::default(),
        renewals: Arc::new(tokio::sync::Mutex::new(Renewals::new(&line.config))),
        clock: Clock(Arc::clone(clock)),
    };
    let hub_version = calls.hub_version().await?;
    let greeting = calls.authenticate(hub_version).await?;
    Ok((greeting, calls))
}

impl Calls {
    /// What further clients are made of: `Client::with_origin(calls.channel(), calls.origin())`.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The hub, as calls name it.
    pub fn origin(&self) -> Uri {
        self.origin.clone()
    }

    /// Puts the agent's token into a call, a new one if it ends soon or the hub has refused it.
    pub async fn authorize(&self, metadata: &mut MetadataMap) -> Result<(), Failure> {
        if self.is_due() {
            self.renew().await?;
        }
        let token = self.tokens.lock().access.clone();
        let mut value = AsciiMetadataValue::try_from(token)
            .map_err(|_| Failure::Protocol("the token cannot be put into a header".to_owned()))?;
        value.set_sensitive(true);
        metadata.insert("authorization", value);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.tokens.lock().is_over(self.clock.0.monotonic())
    }

    fn is_due(&self) -> bool {
        self.channel.is_refused() || self.is_over()
    }

    /// Gets new tokens, once for all calls that need them. An error only where the old ones are of no use any more.
    async fn renew(&self) -> Result<(), Failure> {
        let mut renewals = self.renewals.lock().await;
        if !self.is_due() {
            return Ok(());
        }
        let mut failed = renewals.failed();
        if renewals.may_ask(self.clock.0.monotonic()) {
            let renewed = self.new_tokens().await;
            renewals.ended(self.clock.0.monotonic(), &renewed);
            failed = renewed.err();
        }
        match failed {
            Some(failure) if self.is_over() => Err(failure),
            _ => Ok(()),
        }
    }

    async fn new_tokens(&self) -> Result<(), Failure> {
        let refresh_token = self.tokens.lock().refresh.clone();
        match self.refresh(refresh_token).await {
            // It is too old, or the hub has another key: the agent proves anew who it is.
            Err(Failure::Refused { code, .. }) => {
                tracing::debug!(?code, "the hub does not renew the token; authenticating again");
                let hub_version = self.hub_version().await?;
                self.authenticate(hub_version).await.map(drop)
            }
            refreshed => refreshed,
        }
    }

    async fn hub_version(&self) -> Result<String, Failure> {
        let mut client = VersionClient::with_origin(self.channel.clone(), self.origin.clone());
        let answer = self.answered(Step::Version, client.version(VersionRequest {})).await?;
        let version = answer.into_inner().version;
        Ok(version.strip_prefix(PRODUCT).unwrap_or(&version).to_owned())
    }

    async fn authenticate(&self, hub_version: String) -> Result<Greeting, Failure> {
        let (method, credentials) = self.config.credentials.read()?;
        let mut request = Request::new(AuthRequest {
            method: method.to_owned(),
            credentials,
            mode: self.config.mode.to_string(),
            // A Go principal accepts only its own version.
            version: hub_version.clone(),
            agent_namespace: self.config.namespace.clone(),
        });
        self.say_capabilities(request.metadata_mut());
        let mut client = AuthenticationClient::with_origin(self.channel.clone(), self.origin.clone());
        let response = self.answered(Step::Authenticate, client.authenticate(request)).await?;
        let capabilities = response.metadata().get(CAPABILITIES).and_then(|value| value.to_str().ok());
        let capabilities = capabilities.map(|theirs| both(&self.config.capabilities, theirs));
        let answer = response.into_inner();
        let claims = read_claims(&answer.access_token)?;
        let subject: Subject = serde_json::from_str(&claims.sub)
            .map_err(|_| Failure::Protocol("the token's subject is not readable".to_owned()))?;
        self.keep(answer.access_token, answer.refresh_token, &claims);
        Ok(Greeting { agent: subject.agent, hub_version, hub_namespace: answer.principal_namespace, capabilities })
    }

    async fn refresh(&self, refresh_token: String) -> Result<(), Failure> {
        let mut client = AuthenticationClient::with_origin(self.channel.clone(), self.origin.clone());
        let call = client.refresh_token(RefreshTokenRequest { refresh_token });
        let answer = self.answered(Step::Refresh, call).await?.into_inner();
        let claims = read_claims(&answer.access_token)?;
        self.keep(answer.access_token, answer.refresh_token, &claims);
        Ok(())
    }

    fn keep(&self, access: String, refresh: String, claims: &Claims) {
        self.tokens.lock().replace(self.clock.0.monotonic(), access, refresh, claims);
        self.channel.forgive();
    }

    /// Asks for the stream of events, and gives what is sent from `outgoing` to it.
    pub(super) async fn subscribe(
        &self,
        outgoing: mpsc::Receiver<Event>,
        close: CancellationToken,
    ) -> Result<Answer, Failure> {
        let events = ReceiverStream::new(outgoing).take_until(close.cancelled_owned());
        let mut request = Request::new(events);
        self.authorize(request.metadata_mut()).await?;
        self.say_capabilities(request.metadata_mut());
        let mut grpc = Grpc::with_origin(self.channel.clone(), self.origin.clone())
            .max_decoding_message_size(self.config.message_bytes_max)
            .accept_compressed(Gzip);
        if self.config.compression {
            grpc = grpc.send_compressed(Gzip);
        }
        let codec = Codec::new(self.config.source.as_str());
        Ok(Box::pin(async move {
            grpc.ready().await.map_err(Status::from_error)?;
            grpc.streaming(request, SUBSCRIBE, codec).await
        }))
    }

    /// A call of the tunnel, which waits for a request of the hub; what is sent comes from `outgoing`.
    pub async fn tunnel(&self, outgoing: mpsc::Receiver<Frame>) -> Result<Streaming<Frame>, Failure> {
        let mut request = Request::new(ReceiverStream::new(outgoing));
        self.authorize(request.metadata_mut()).await?;
        let mut client = TunnelClient::with_origin(self.channel.clone(), self.origin.clone())
            .max_decoding_message_size(thane_link::tunnel::FRAME_MAX);
        Ok(self.answered(Step::Stream, client.serve(request)).await?.into_inner())
    }

    /// Waits for the answer to a call, and explains why there is none.
    pub(super) async fn answered<T>(
        &self,
        step: Step,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.config.request_timeout, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(self.explain(step, &status).await),
            Err(_) => Err(Failure::Timeout { address: self.address(), step }),
        }
    }

    /// Why a call failed: what the hub said, or what happened to the connection.
    pub(super) async fn explain(&self, step: Step, status: &Status) -> Failure {
        let failure = Failure::of_call(&self.address(), step, status);
        match failure {
            Failure::Lost(_) => self.channel.last_words().await.unwrap_or(failure),
            explained => explained,
        }
    }

    fn address(&self) -> String {
        self.origin.authority().map(ToString::to_string).unwrap_or_default()
    }

    fn say_capabilities(&self, metadata: &mut MetadataMap) {
        let words: Vec<&str> = self.config.capabilities.iter().map(String::as_str).collect();
        if let Ok(value) = MetadataValue::try_from(words.join(",")) {
            metadata.insert(CAPABILITIES, value);
        }
    }
}

/// What both sides can do.
fn both(ours: &BTreeSet<String>, theirs: &str) -> BTreeSet<String> {
    let theirs = theirs.split(',').map(str::trim).take(CAPABILITIES_MAX);
    theirs.filter(|word| ours.contains(*word)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_can_do_counts() {
        let ours = BTreeSet::from(["digest".to_owned(), "pong".to_owned()]);
        assert_eq!(both(&ours, " pong , other,"), BTreeSet::from(["pong".to_owned()]));
        assert!(both(&ours, "").is_empty());
    }
}
