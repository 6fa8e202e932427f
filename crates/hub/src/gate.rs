//! Who gets in: proof of identity, tokens, and certificates that are no longer believed.

mod certificate;
mod methods;
mod name;
mod passwords;
mod refusal;
pub mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use thane_api::event::Mode;
use thane_api::wire::auth::{AuthRequest, AuthResponse};
use thane_runtime::SharedClock;
use thane_runtime::pki::{AGENT_UNIT, PROXY_UNIT};
use tokio::sync::watch;

use name::is_label;
use passwords::Passwords;
use refusal::Refusals;
use tokens::{Audience, Subject};

pub use certificate::Certificate;
pub use methods::{Method, MethodError};
pub use refusal::{Reason, Refusal};
pub use tokens::{KeyError, Tokens, generate_key, generate_short_key};

/// Agents whose introduction is remembered until they subscribe.
const INTRODUCED_MAX: usize = 50_000;
/// Bytes of a version or namespace an agent may give.
const WORD_MAX: usize = 253;
/// Capabilities an agent may name.
const CAPABILITIES_MAX: usize = 32;

/// An agent that has proved who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub agent: String,
    /// Who decides about its cluster.
    pub mode: Mode,
    /// The namespace it works in; empty if it did not say.
    pub agent_namespace: String,
    /// The version it said it is.
    pub version: String,
    /// What it can do beyond the protocol; a Go agent says nothing.
    pub capabilities: BTreeSet<String>,
    /// SHA-256 of its certificate, in upper-case hexadecimal.
    pub fingerprint: Option<String>,
}

/// What is asked of certificates, besides a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Certificates {
    /// Each connection shows a trusted certificate in the name of the agent whose token it uses.
    #[default]
    Matching,
    /// Each connection shows a trusted certificate, whatever its name.
    Trusted,
    /// The token suffices.
    NotNeeded,
}

/// How the gate decides.
#[derive(Debug, Clone)]
pub struct Options {
    /// The hub's own namespace, which no agent may be called.
    pub namespace: String,
    /// The hub's version, as it tells everyone.
    pub version: String,
    /// Ways to prove an identity.
    pub methods: Vec<Method>,
    /// What is asked of certificates.
    pub certificates: Certificates,
    /// What the hub can do beyond the protocol.
    pub capabilities: BTreeSet<String>,
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Where it calls from.
    pub address: SocketAddr,
    /// Its certificate, or why it has none that counts.
    pub certificate: Result<Arc<Certificate>, Arc<str>>,
}

impl Peer {
    /// The fingerprint of its certificate.
    pub fn fingerprint(&self) -> Option<&str> {
        self.certificate.as_ref().ok().map(|certificate| certificate.fingerprint.as_str())
    }
}

/// What an agent said about itself when it proved who it is.
#[derive(Debug, Clone)]
struct Introduction {
    agent_namespace: String,
    version: String,
}

/// Decides who gets in.
pub struct Gate {
    options: Options,
    tokens: ArcSwap<Tokens>,
    clock: SharedClock,
    passwords: Passwords,
    refusals: Refusals,
    blocked: watch::Sender<Arc<BTreeSet<String>>>,
    introduced: Mutex<BTreeMap<String, Introduction>>,
}

impl Gate {
    /// A gate with these rules.
    pub fn new(options: Options, tokens: Tokens, clock: SharedClock) -> Self {
        Self {
            options,
            tokens: ArcSwap::from_pointee(tokens),
            clock,
            passwords: Passwords::default(),
            refusals: Refusals::default(),
            blocked: watch::Sender::new(Arc::default()),
            introduced: Mutex::default(),
        }
    }

    /// Makes the counts visible.
    pub fn register(&self, registry: &mut Registry) {
        self.refusals.register(registry);
    }

    /// How the gate decides.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The tokens it issues.
    pub fn tokens(&self) -> Arc<Tokens> {
        self.tokens.load_full()
    }

    /// Issues tokens with another key from now on; those of the old one are no longer good.
    pub fn set_tokens(&self, tokens: Tokens) {
        self.tokens.store(Arc::new(tokens));
    }

    /// Replaces the certificates that are no longer believed: SHA-256 fingerprints in hexadecimal. Their connections
    /// are cut.
    pub fn set_blocked(&self, fingerprints: impl IntoIterator<Item = String>) {
        let fingerprints = fingerprints.into_iter().map(|text| certificate::normal(&text)).collect();
        self.blocked.send_replace(Arc::new(fingerprints));
    }

    /// Completes when this certificate is no longer believed.
    pub async fn blocked(&self, fingerprint: &str) {
        let mut list = self.blocked.subscribe();
        // The gate holds the other end, so the wait ends only with what it waits for.
        let _ = list.wait_for(|list| list.contains(fingerprint)).await;
    }

    /// Judges a proof of identity, and answers it with tokens.
    pub async fn authenticate(&self, peer: &Peer, request: AuthRequest) -> Result<AuthResponse, Refusal> {
        let decided = self.prove(peer, &request).await.and_then(|(agent, mode)| self.introduce(agent, mode, request));
        self.noted(peer, decided)
    }

    /// New tokens for a refresh token; the refresh token itself only when it ends soon.
    pub fn refresh(&self, peer: &Peer, token: &str) -> Result<AuthResponse, Refusal> {
        let now = self.clock.now();
        let decided = self.bearer(peer, token, Audience::Refresh, now).and_then(|(subject, left)| {
            let access_token = self.tokens.load().access(&subject, now).map_err(internal)?;
            let rotated = (left < tokens::ROTATE).then(|| self.tokens.load().refresh(&subject, now));
            let refresh_token = rotated.transpose().map_err(internal)?.unwrap_or_default();
            Ok(AuthResponse { access_token, refresh_token, ..AuthResponse::default() })
        });
        self.noted(peer, decided)
    }

    /// Judges a call: whose it is by its access token, and whether its certificate agrees.
    pub fn admit(&self, peer: &Peer, token: Option<&str>, capabilities: Option<&str>) -> Result<Identity, Refusal> {
        let token = token.ok_or_else(|| Refusal::new(Reason::Token, "there is no token"));
        let decided = token
            .and_then(|token| self.bearer(peer, token, Audience::Access, self.clock.now()))
            .and_then(|(subject, _)| self.identity(peer, subject, capabilities.unwrap_or_default()));
        self.noted(peer, decided)
    }

    /// Judges a call by the certificate of its connection alone: the agent it names.
    pub fn recognise(&self, peer: &Peer) -> Result<String, Refusal> {
        let decided = self.agents_certificate(peer).and_then(|certificate| {
            let agent = self.certificate_name(&certificate)?;
            self.check_name(&agent)?;
            Ok(agent)
        });
        self.noted(peer, decided)
    }

    /// Judges a call of Argo CD to the resource proxy: the agent it is for, by its token or else by its certificate.
    pub fn proxied(&self, peer: &Peer, token: Option<&str>) -> Result<String, Refusal> {
        let decided = self.proxied_by(peer, token).and_then(|agent| {
            self.check_name(&agent)?;
            Ok(agent)
        });
        self.noted(peer, decided)
    }

    fn proxied_by(&self, peer: &Peer, token: Option<&str>) -> Result<String, Refusal> {
        let certificate = self.certificate(peer).and_then(|certificate| {
            // An agent has no business there; argocd-agent's own certificates have no unit.
            if certificate.unit == AGENT_UNIT {
                return Err(Refusal::new(Reason::Certificate, "the certificate is an agent's"));
            }
            Ok(certificate)
        });
        let Some(token) = token else { return certificate.map(|certificate| certificate.common_name.clone()) };
        if self.options.certificates != Certificates::NotNeeded {
            certificate?;
        }
        let agent = self.tokens.load().verify_resource_proxy(token, self.clock.now());
        agent.map_err(|invalid| Refusal::new(Reason::Token, invalid.to_string()))
    }

    fn noted<T>(&self, peer: &Peer, decided: Result<T, Refusal>) -> Result<T, Refusal> {
        match &decided {
            Ok(_) => self.refusals.forgive(peer),
            Err(refusal) => self.refusals.note(peer, refusal),
        }
        decided
    }

    async fn prove(&self, peer: &Peer, request: &AuthRequest) -> Result<(String, Mode), Refusal> {
        let mode: Mode = request.mode.parse().map_err(|_| {
            let given: String = request.mode.chars().take(64).collect();
            Refusal::new(Reason::Mode, format!("unknown or missing operation mode: '{given}'"))
        })?;
        let agent = match request.method.as_str() {
            "mtls" if self.has_certificate_method() => self.certificate_name(&*self.agents_certificate(peer)?)?,
            "userpass" => self.password_name(request).await?,
            _ => return Err(Refusal::new(Reason::Method, "unknown authentication method")),
        };
        self.check_name(&agent)?;
        self.check_certificate(peer, &agent)?;
        if request.version.is_empty() {
            return Err(Refusal::new(Reason::Version, "agent version is required"));
        }
        if request.version.len() > WORD_MAX || request.agent_namespace.len() > WORD_MAX {
            return Err(Refusal::new(Reason::Version, "version or namespace is too long"));
        }
        Ok((agent, mode))
    }

    async fn password_name(&self, request: &AuthRequest) -> Result<String, Refusal> {
        let file = self.options.methods.iter().find_map(|method| match method {
            Method::Passwords(file) => Some(file),
            Method::Subject(_) | Method::Uri(_) => None,
        });
        let file = file.ok_or_else(|| Refusal::new(Reason::Method, "unknown authentication method"))?;
        let credential = |name: &str| request.credentials.get(name).map(String::as_str);
        let (Some(name), Some(password)) = (credential("clientid"), credential("clientsecret")) else {
            return Err(Refusal::new(Reason::Password, "name or password is missing"));
        };
        self.passwords.check(file, name, password).await?;
        Ok(name.to_owned())
    }

    fn introduce(&self, agent: String, mode: Mode, request: AuthRequest) -> Result<AuthResponse, Refusal> {
        let now = self.clock.now();
        let subject = Subject::new(&agent, mode);
        let response = AuthResponse {
            access_token: self.tokens.load().access(&subject, now).map_err(internal)?,
            refresh_token: self.tokens.load().refresh(&subject, now).map_err(internal)?,
            // Agents compare it with their own and refuse others, so each hears its own.
            version: request.version.clone(),
            principal_namespace: self.options.namespace.clone(),
        };
        let mut introduced = self.introduced.lock();
        if introduced.len() >= INTRODUCED_MAX && !introduced.contains_key(&agent) {
            introduced.pop_first();
        }
        let introduction = Introduction { agent_namespace: request.agent_namespace, version: request.version };
        introduced.insert(agent, introduction);
        Ok(response)
    }

    fn bearer(
        &self,
        peer: &Peer,
        token: &str,
        audience: Audience,
        now: Timestamp,
    ) -> Result<(Subject, std::time::Duration), Refusal> {
        let verified = self.tokens.load().verify(token, audience, now);
        let (subject, left) = verified.map_err(|invalid| Refusal::new(Reason::Token, invalid.to_string()))?;
        self.check_name(&subject.agent)?;
        self.check_certificate(peer, &subject.agent)?;
        Ok((subject, left))
    }

    fn identity(&self, peer: &Peer, subject: Subject, capabilities: &str) -> Result<Identity, Refusal> {
        let mode = subject.mode.parse().map_err(|_| Refusal::new(Reason::Token, "the token has no known mode"))?;
        let introduction = self.introduced.lock().get(&subject.agent).cloned();
        let (agent_namespace, version) =
            introduction.map_or_else(Default::default, |said| (said.agent_namespace, said.version));
        Ok(Identity {
            agent: subject.agent,
            mode,
            agent_namespace,
            version,
            capabilities: read_capabilities(capabilities),
            fingerprint: peer.fingerprint().map(str::to_owned),
        })
    }

    fn check_name(&self, agent: &str) -> Result<(), Refusal> {
        if !is_label(agent) {
            let given: String = agent.chars().take(64).collect();
            return Err(Refusal::new(Reason::Name, format!("{given:?} is not a DNS label")));
        }
        if agent == self.options.namespace {
            return Err(Refusal::new(Reason::Name, format!("{agent:?} is the hub's own namespace")));
        }
        Ok(())
    }

    fn check_certificate(&self, peer: &Peer, agent: &str) -> Result<(), Refusal> {
        let needed = self.options.certificates != Certificates::NotNeeded;
        let certificate = match self.agents_certificate(peer) {
            Ok(certificate) => certificate,
            Err(refusal) if needed || refusal.reason == Reason::Blocked => return Err(refusal),
            Err(_) => return Ok(()),
        };
        if self.options.certificates != Certificates::Matching {
            return Ok(());
        }
        let name = self.certificate_name(&certificate)?;
        if name != agent {
            return Err(Refusal::new(
                Reason::Mismatch,
                format!("the certificate is of {name:?}, the token of {agent:?}"),
            ));
        }
        Ok(())
    }

    /// The certificate, unless it is Argo CD's: that opens the resource proxy and nothing else.
    fn agents_certificate(&self, peer: &Peer) -> Result<Arc<Certificate>, Refusal> {
        let certificate = self.certificate(peer)?;
        if certificate.unit == PROXY_UNIT {
            return Err(Refusal::new(Reason::Certificate, "the certificate is for the resource proxy"));
        }
        Ok(certificate)
    }

    /// The certificate, if it is still good.
    fn certificate(&self, peer: &Peer) -> Result<Arc<Certificate>, Refusal> {
        let certificate =
            peer.certificate.clone().map_err(|reason| Refusal::new(Reason::Certificate, reason.to_string()))?;
        if self.blocked.borrow().contains(&certificate.fingerprint) {
            let detail = format!("certificate {} is blocked", certificate.fingerprint);
            return Err(Refusal::new(Reason::Blocked, detail));
        }
        if self.clock.now() > certificate.not_after {
            return Err(Refusal::new(Reason::Certificate, format!("certificate expired at {}", certificate.not_after)));
        }
        Ok(certificate)
    }

    fn has_certificate_method(&self) -> bool {
        self.options.methods.iter().any(|method| !matches!(method, Method::Passwords(_)))
    }

    /// The agent a certificate names: by the rule there is, else by its common name.
    fn certificate_name(&self, certificate: &Certificate) -> Result<String, Refusal> {
        if !self.has_certificate_method() {
            return Ok(certificate.common_name.clone());
        }
        let name = self.options.methods.iter().find_map(|method| method.name(certificate));
        let none = || Refusal::new(Reason::Name, format!("no rule finds a name in {:?}", certificate.subject));
        name.map(str::to_owned).ok_or_else(none)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn internal(error: KeyError) -> Refusal {
    Refusal::new(Reason::Internal, error.to_string())
}

fn read_capabilities(text: &str) -> BTreeSet<String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.take(CAPABILITIES_MAX).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
