//! Secrets of both sides: there, readable, in time, and fitting each other.

use jiff::Timestamp;
use thane_runtime::pki::{self, Authority, Details, Identity, Trust};
use thane_runtime::tls::{ClientOptions, ClientTls};

use super::side::Side;
use super::{Address, Report};
use crate::fleet::{CA, CLIENT_TLS, JWT, PRINCIPAL_TLS};
use crate::roles::secrets::{Texts, Wanted};

/// What was found good enough to go on with.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    /// The hub's authority, as the hub has it.
    pub(super) hub_authority: Option<String>,
    /// The hub's certificate.
    pub(super) hub_certificate: Option<String>,
    /// The authority the agent believes.
    pub(super) agent_authority: Option<String>,
    /// The agent's certificate and key.
    pub(super) agent: Option<Identity>,
    /// What the agent's certificate says.
    pub(super) agent_details: Option<Details>,
}

impl Credentials {
    pub(super) async fn examine_hub(
        &mut self,
        side: &Side,
        address: Option<&Address>,
        now: Timestamp,
        report: &mut Report,
    ) {
        let (of, check) = (side.of, "authority");
        let init = "make it with `thane pki init --context CONTEXT`";
        if let Some(texts) = read(side, CA, Wanted::Authorities, init, report).await {
            let what = format!("Secret {CA}");
            match Trust::from_pem(&texts[0]).and_then(|_| pki::inspect(&texts[0])) {
                Ok(details) if details.first().is_some_and(|details| details.time_left(now).is_none()) => {
                    report.wrong(
                        of,
                        check,
                        format!("{what}: the authority has expired"),
                        "make a new one with `thane pki init --force`, and certificates with it",
                    );
                }
                Ok(_) => {
                    report.ok(of, check, format!("{what} holds an authority"));
                    self.hub_authority = Some(texts[0].clone());
                }
                Err(error) => report.wrong(of, check, format!("{what}: {error}"), init),
            }
        }
        let issue = format!(
            "make it with `thane pki issue principal --san {} --context CONTEXT --force`",
            address.map_or("HOST", |address| address.host.as_str())
        );
        if let Some(texts) = read(side, PRINCIPAL_TLS, Wanted::Identity, &issue, report).await {
            self.examine_hub_certificate(of, &texts, address, now, &issue, report);
        }
        let create = "make it with `thane jwt create-key --context CONTEXT`";
        if let Some(texts) = read(side, JWT, Wanted::SigningKey, create, report).await {
            match thane_hub::gate::Tokens::new(&texts[0]) {
                Ok(tokens) => report.ok(of, "key", format!("Secret {JWT} holds a key of {} bits", tokens.bits())),
                Err(error) => report.wrong(of, "key", format!("Secret {JWT}: {error}"), create),
            }
        }
    }

    fn examine_hub_certificate(
        &mut self,
        of: &'static str,
        texts: &Texts,
        address: Option<&Address>,
        now: Timestamp,
        issue: &str,
        report: &mut Report,
    ) {
        let what = format!("Secret {PRINCIPAL_TLS}");
        let identity = Identity { cert_pem: texts[0].clone(), key_pem: texts[1].clone() };
        let checked = fits(&identity).and_then(|details| {
            let Some(authority) = &self.hub_authority else { return Ok(details) };
            let host = address.map(|address| address.host.clone()).or_else(|| details.names.first().cloned());
            let host = host.ok_or_else(|| "the certificate has no name at all".to_owned())?;
            let chain = pki::certificates(texts[0].as_bytes()).map_err(|error| error.to_string())?;
            let trust = Trust::from_pem(authority).map_err(|error| error.to_string())?;
            trust.verify_server(&chain, &host, now).map_err(|error| error.to_string())
        });
        match checked {
            Ok(details) => {
                let names = details.names.join(", ");
                report.ok(of, "certificate", format!("{what} is valid for {names} until {}", details.not_after));
                self.hub_certificate = Some(texts[0].clone());
            }
            Err(why) => report.wrong(of, "certificate", format!("{what}: {why}"), issue),
        }
    }

    pub(super) async fn examine_agent(
        &mut self,
        side: &Side,
        address: Option<&Address>,
        now: Timestamp,
        report: &mut Report,
    ) {
        let of = side.of;
        let issue = "make it with `thane pki issue agent NAME --context HUB --agent-context AGENT --force`";
        if let Some(texts) = read(side, CA, Wanted::Authorities, issue, report).await {
            match self.believes_hub(&texts[0], address, now) {
                Ok(()) => {
                    report.ok(of, "authority", format!("Secret {CA} holds the hub's authority"));
                    self.agent_authority = Some(texts[0].clone());
                }
                Err(why) => report.wrong(of, "authority", format!("Secret {CA}: {why}"), issue),
            }
        }
        let Some(texts) = read(side, CLIENT_TLS, Wanted::Identity, issue, report).await else { return };
        let identity = Identity { cert_pem: texts[0].clone(), key_pem: texts[1].clone() };
        let checked = fits(&identity).and_then(|details| {
            let Some(authority) = &self.hub_authority else { return Ok(details) };
            let chain = pki::certificates(texts[0].as_bytes()).map_err(|error| error.to_string())?;
            let trust = Trust::from_pem(authority).map_err(|error| error.to_string())?;
            trust.verify_client(&chain, now).map_err(|error| error.to_string())
        });
        match checked {
            Ok(details) => {
                let (name, end) = (&details.subject.common_name, details.not_after);
                report.ok(of, "certificate", format!("Secret {CLIENT_TLS} is agent {name}'s until {end}"));
                self.agent_details = Some(details);
                self.agent = Some(identity);
            }
            Err(why) => report.wrong(of, "certificate", format!("Secret {CLIENT_TLS}: {why}"), issue),
        }
    }

    /// Whether the agent's authority leads to the hub's certificate.
    fn believes_hub(&self, authority: &str, address: Option<&Address>, now: Timestamp) -> Result<(), String> {
        let trust = Trust::from_pem(authority).map_err(|error| error.to_string())?;
        let Some(certificate) = &self.hub_certificate else { return Ok(()) };
        let chain = pki::certificates(certificate.as_bytes()).map_err(|error| error.to_string())?;
        let details = pki::inspect(certificate).map_err(|error| error.to_string())?;
        let name = details.first().and_then(|details| details.names.first().cloned()).unwrap_or_default();
        let host = address.map_or(name, |address| address.host.clone());
        let verified = trust.verify_server(&chain, &host, now);
        verified.map(|_| ()).map_err(|error| format!("it does not lead to the hub's certificate: {error}"))
    }
}

/// What a certificate says whose key is its own.
fn fits(identity: &Identity) -> Result<Details, String> {
    let details = pki::inspect(&identity.cert_pem).map_err(|error| error.to_string())?;
    let details = details.into_iter().next().ok_or("it holds no certificate")?;
    // Any authority will do: what counts is that the pair can be shown.
    let own = Authority::create("doctor", details.not_before, std::time::Duration::from_hours(24));
    let own = own.map_err(|error| error.to_string())?;
    let shown = ClientTls::from_pem(own.cert_pem(), Some(identity), &ClientOptions::default());
    shown.map(|_| details).map_err(|error| error.to_string())
}

async fn read(side: &Side, name: &str, wanted: Wanted, next: &str, report: &mut Report) -> Option<Texts> {
    let objects = side.objects();
    let what = format!("Secret {}/{name}", objects.namespace());
    match objects.secret(name).await {
        Ok(Some(secret)) => match wanted.read(&secret) {
            Ok(texts) => return Some(texts),
            Err(why) => report.wrong(side.of, "secret", format!("{what}: {why}"), next),
        },
        Ok(None) => report.wrong(side.of, "secret", format!("{what} is not there"), next),
        Err(failure) => report.failed(side.of, "secret", &failure),
    }
    None
}
