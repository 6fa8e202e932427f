//! Why there is no connection.

use tonic::Code;

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
    /// Opening the stream of events.
    Subscribe,
    /// Keeping it open.
    Stream,
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
    #[error("{address} did not answer in time while {step:?}")]
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
        /// Which name or authority is wrong.
        reason: String,
    },
    /// The hub answered no.
    #[error("the hub refused: {code:?}: {message}")]
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
