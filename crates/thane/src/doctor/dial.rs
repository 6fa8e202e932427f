//! The hub, called as the agent calls it.

use thane_agent::connection::{self, Dialer, Failure, TlsFault};
use thane_runtime::net::Tcp;
use thane_runtime::tls::{ClientOptions, ClientTls};
use thane_runtime::{SystemClock, Tasks};
use thane_sync::mapping::Mode;

use super::certificates::Credentials;
use super::{Address, Report, State};

const OF: &str = "pair";
const CHECK: &str = "call";

pub(super) async fn examine(
    address: Option<&Address>,
    namespace: String,
    credentials: &Credentials,
    report: &mut Report,
) {
    let Some(address) = address else {
        let message = "the hub was not called; give --server-address to do so";
        return report.add(OF, CHECK, State::Skipped, message);
    };
    let (Some(authority), Some(identity)) = (&credentials.agent_authority, &credentials.agent) else {
        return report.add(OF, CHECK, State::Skipped, "the hub was not called: the agent has no usable certificates");
    };
    let options = ClientOptions { protocols: vec!["h2"], ..ClientOptions::default() };
    let tls = match ClientTls::from_pem(authority, Some(identity), &options) {
        Ok(tls) => tls,
        Err(error) => return report.add(OF, CHECK, State::Skipped, format!("the hub was not called: {error}")),
    };
    let config =
        connection::Config { namespace, ..connection::Config::new(address.host.clone(), address.port, Mode::Managed) };
    let dialer = Dialer::new(config, Tcp::shared(), Some(tls), SystemClock::shared());
    let (tasks, _supervisor) = Tasks::root("doctor");
    let tried = dialer.attempt(&tasks).await;
    tasks.shutdown(std::time::Duration::from_secs(1)).await;
    let place = format!("{}:{}", address.host, address.port);
    match tried {
        Ok(tried) => {
            let message = format!("{place} answers as hub {} and knows agent {}", tried.hub_version, tried.agent);
            report.ok(OF, CHECK, message);
        }
        Err(failure) => report.wrong(OF, CHECK, failure.to_string(), next(&failure, address)),
    }
}

/// What to do about a call that failed.
fn next(failure: &Failure, address: &Address) -> String {
    let host = &address.host;
    match failure {
        Failure::Unreachable { .. } | Failure::Timeout { .. } => {
            "check that the hub runs, that its Service and NetworkPolicy let agents in, and the port".to_owned()
        }
        Failure::Tls { fault, .. } => match fault {
            TlsFault::Name => {
                format!("issue it again with `thane pki issue principal --san {host} --context CONTEXT --force`")
            }
            TlsFault::Authority => {
                "give the agent the hub's authority with `thane pki issue agent NAME … --force`".to_owned()
            }
            TlsFault::Expired => "renew the hub's certificate with `thane pki issue principal … --force`".to_owned(),
            TlsFault::NotYetValid => "set the clocks by NTP".to_owned(),
            TlsFault::OurCertificate => {
                "give the agent a certificate of the hub's authority with `thane pki issue agent NAME … --force`"
                    .to_owned()
            }
            TlsFault::NotTls => "check the port: something else answers there".to_owned(),
            TlsFault::Other => "check that both sides speak TLS 1.3".to_owned(),
        },
        Failure::Refused { .. } => {
            "look at the hub's log: it says why it refused; --auth must find the agent's name in its certificate"
                .to_owned()
        }
        Failure::Credentials(_) | Failure::Protocol(_) | Failure::Lost(_) => "look at the hub's log".to_owned(),
    }
}
