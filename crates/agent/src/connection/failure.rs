//! Why there is no connection, in words that say what to do about it.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError, InvalidMessage};
use tonic::{Code, Status};

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Opening a connection.
    Connect,
    /// Agreeing on TLS.
    Tls,
    /// Agreeing on HTTP.
    Http,
    /// Asking for the hub's version.
    Version,
    /// Proving who we are.
    Authenticate,
    /// Getting a new token.
    Refresh,
    /// Opening the stream of events.
    Subscribe,
    /// Keeping it open.
    Stream,
}

impl Step {
    /// What was being done, in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connecting",
            Self::Tls => "shaking hands over TLS",
            Self::Http => "agreeing on HTTP",
            Self::Version => "asking for its version",
            Self::Authenticate => "authenticating",
            Self::Refresh => "refreshing the token",
            Self::Subscribe => "opening the stream of events",
            Self::Stream => "streaming events",
        }
    }
}

/// What is wrong with certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TlsFault {
    /// The hub's certificate is of another name.
    Name,
    /// The hub's certificate was signed by an authority that is not trusted.
    Authority,
    /// The hub's certificate is over, or our clock is wrong.
    Expired,
    /// The hub's certificate has not begun, or our clock is wrong.
    NotYetValid,
    /// The hub wants a certificate of ours, or does not accept the one we have.
    OurCertificate,
    /// The other end does not speak TLS.
    NotTls,
    /// Anything else.
    Other,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nobody answers there.
    #[error("{address} cannot be reached: {reason}")]
    Unreachable {
        /// Where.
        address: String,
        /// What the network said.
        reason: String,
    },
    /// Nothing happened in time.
    #[error("{address} did not answer in time while {}", step.as_str())]
    Timeout {
        /// Where.
        address: String,
        /// What was being done.
        step: Step,
    },
    /// The hub's certificate is not believed, or it does not believe ours.
    #[error("TLS with {address}: {reason}")]
    Tls {
        /// Where.
        address: String,
        /// What is wrong, to branch on.
        fault: TlsFault,
        /// What is wrong, with names.
        reason: String,
    },
    /// The hub answered no.
    #[error("the hub refused while {}: {code:?}: {message}", step.as_str())]
    Refused {
        /// What was being done.
        step: Step,
        /// Its code.
        code: Code,
        /// Its words.
        message: String,
    },
    /// Our own credentials cannot be used.
    #[error("credentials: {0}")]
    Credentials(String),
    /// The hub said something that makes no sense.
    #[error("the hub does not speak our protocol: {0}")]
    Protocol(String),
    /// The connection was there and broke.
    #[error("the connection was lost: {0}")]
    Lost(String),
}

impl Failure {
    /// A word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Timeout { .. } => "timeout",
            Self::Tls { .. } => "tls",
            Self::Refused { code: Code::Unauthenticated | Code::PermissionDenied, .. } => "unauthenticated",
            Self::Refused { .. } => "refused",
            Self::Credentials(_) => "credentials",
            Self::Protocol(_) => "protocol",
            Self::Lost(_) => "lost",
        }
    }

    /// What broke a call: the hub itself, TLS, or the way there.
    pub(super) fn of_call(address: &str, step: Step, status: &Status) -> Self {
        let source = status.source();
        if let Some(failure) = source.and_then(|error| Self::of_tls(address, error)) {
            return failure;
        }
        match source {
            // What has a source comes from this end: the hub said nothing.
            Some(_) => Self::Lost(chain(status.source().unwrap_or(status))),
            None => Self::Refused { step, code: status.code(), message: status.message().to_owned() },
        }
    }

    /// What is wrong with TLS, if that is what is wrong.
    pub(super) fn of_tls(address: &str, error: &(dyn Error + 'static)) -> Option<Self> {
        let (fault, reason) = explain(tls_error(error)?);
        Some(Self::Tls { address: address.to_owned(), fault, reason })
    }
}

/// An error and what caused it, in one line.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        next = error.source();
    }
    text
}

/// The error of TLS among the causes of another; an I/O error hides the one it was made of.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

fn explain(error: &rustls::Error) -> (TlsFault, String) {
    match error {
        rustls::Error::InvalidCertificate(reason) => explain_certificate(reason),
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                (TlsFault::OurCertificate, "the hub wants a client certificate, and we have none".to_owned())
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied => {
                (TlsFault::OurCertificate, format!("the hub does not accept our client certificate: {alert:?}"))
            }
            other => (TlsFault::Other, format!("the hub ended the handshake: {other:?}")),
        },
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            (TlsFault::NotTls, "the other end does not speak TLS".to_owned())
        }
        other => (TlsFault::Other, other.to_string()),
    }
}

fn explain_certificate(reason: &CertificateError) -> (TlsFault, String) {
    match reason {
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = if presented.is_empty() { "no name".to_owned() } else { presented.join(", ") };
            let wanted = expected.to_str();
            (TlsFault::Name, format!("the hub's certificate is valid for {names}, not for {wanted}"))
        }
        CertificateError::NotValidForName => {
            (TlsFault::Name, "the hub's certificate is valid for another name".to_owned())
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            (TlsFault::Authority, "the hub's certificate was signed by an authority that is not trusted".to_owned())
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            (TlsFault::Expired, format!("the hub's certificate has expired, or the clock here is wrong: {reason}"))
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
            TlsFault::NotYetValid,
            format!("the hub's certificate is not valid yet, or the clock here is wrong: {reason}"),
        ),
        other => (TlsFault::Other, format!("the hub's certificate: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn an_error_of_tls_is_found_however_deep_it_is() {
        let alert = rustls::Error::AlertReceived(AlertDescription::UnknownCA);
        let error = Outer(io::Error::other(io::Error::other(alert)));
        let failure = Failure::of_tls("hub:443", &error).unwrap();
        assert!(matches!(failure, Failure::Tls { fault: TlsFault::OurCertificate, .. }), "{failure}");
        assert!(failure.to_string().contains("UnknownCA") && failure.label() == "tls");
        assert_eq!(Failure::of_tls("hub:443", &Outer(io::Error::other("no"))), None);
    }

    #[test]
    fn certificates_are_explained() {
        for (reason, fault) in [
            (CertificateError::UnknownIssuer, TlsFault::Authority),
            (CertificateError::Expired, TlsFault::Expired),
            (CertificateError::NotValidYet, TlsFault::NotYetValid),
            (CertificateError::NotValidForName, TlsFault::Name),
            (CertificateError::Revoked, TlsFault::Other),
        ] {
            assert_eq!(explain(&rustls::Error::InvalidCertificate(reason)).0, fault);
        }
        assert_eq!(explain(&rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)).0, TlsFault::NotTls);
    }

    #[test]
    fn what_the_hub_says_is_told_from_what_the_network_says() {
        let refused = Failure::of_call("hub:443", Step::Authenticate, &Status::unauthenticated("no"));
        assert_eq!(refused.to_string(), "the hub refused while authenticating: Unauthenticated: no");
        assert_eq!(refused.label(), "unauthenticated");
        let lost = Status::from_error(Box::new(Outer(io::Error::other("reset"))));
        assert_eq!(Failure::of_call("hub:443", Step::Version, &lost), Failure::Lost("outer: reset".to_owned()));
    }
}
