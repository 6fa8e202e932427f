//! Why a command failed: a stable code, a message and the next step.

mod kubernetes;

pub(crate) use kubernetes::refused;

use std::io::Write;

use owo_colors::OwoColorize;
use thane_api::{Code, Exit, code};
use thane_apiserver::embedded;
use thane_runtime::tasks::Cause;
use thane_runtime::{config, net, pki, telemetry, tls};

/// A command's failure.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    message: String,
    hint: Option<String>,
    silent: bool,
    not_found: bool,
    /// What the process ends with, where that is another's to say.
    ended: Option<u8>,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, silent: false, not_found: false, ended: None }
    }

    /// Says what the failure is about.
    #[must_use]
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Whether the object asked for does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.not_found
    }

    /// A next step that fits better than the code's own.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A failure that has been told already; only the exit code is left.
    #[must_use]
    pub(crate) fn told(mut self) -> Self {
        self.silent = true;
        self
    }

    /// The reader of our output went away, which is its good right.
    pub(crate) fn output_closed() -> Self {
        Self { silent: true, ..Self::new(code::FILE_FAILED, "output was closed") }
    }

    /// A command that was run for somebody ended so, and so do we.
    pub(crate) fn ended(code: u8) -> Self {
        Self { silent: true, ended: Some(code), ..Self::new(code::STEP_FAILED, "the command failed") }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The next step.
    pub(crate) fn hint(&self) -> &str {
        self.hint.as_deref().unwrap_or(self.code.hint)
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    pub(crate) fn exit(&self) -> Exit {
        self.code.exit
    }

    /// What the process ends with.
    pub(crate) fn exit_code(&self) -> u8 {
        self.ended.unwrap_or_else(|| u8::from(self.exit()))
    }

    pub(crate) fn print(&self) {
        if self.silent {
            return;
        }
        let hint = self.hint();
        let mut stderr = anstream::stderr().lock();
        // Nobody is left to tell when stderr is gone.
        let _ = writeln!(stderr, "{} {}", format_args!("error[{}]:", self.code).red().bold(), self.message);
        let _ = writeln!(stderr, "  {} {hint}", "next:".cyan().bold());
    }
}

impl From<config::Error> for Failure {
    fn from(error: config::Error) -> Self {
        let failure = Self::new(code::CONFIG_INVALID, error.to_string());
        match error {
            config::Error::Read { .. } => failure.with_hint("check the path that --config or THANE_CONFIG gives"),
            _ => failure,
        }
    }
}

impl From<telemetry::Error> for Failure {
    fn from(error: telemetry::Error) -> Self {
        Self::new(code::CONFIG_INVALID, error.to_string())
            .with_hint("levels look like `info` or `warn,kv=debug,apiserver=trace`")
    }
}

impl From<pki::Error> for Failure {
    fn from(error: pki::Error) -> Self {
        Self::new(code::CERTIFICATE_UNUSABLE, error.to_string())
    }
}

impl From<pki::store::Error> for Failure {
    fn from(error: pki::store::Error) -> Self {
        let code = match &error {
            pki::store::Error::Io { .. } => code::FILE_FAILED,
            pki::store::Error::Pki { .. } => code::CERTIFICATE_UNUSABLE,
        };
        Self::new(code, error.to_string())
    }
}

impl From<tls::Error> for Failure {
    fn from(error: tls::Error) -> Self {
        Self::new(code::CERTIFICATE_UNUSABLE, error.to_string())
    }
}

impl From<net::BindError> for Failure {
    fn from(error: net::BindError) -> Self {
        Self::new(code::PORT_TAKEN, error.to_string())
    }
}

impl From<thane_kv::Error> for Failure {
    fn from(error: thane_kv::Error) -> Self {
        let code = match &error {
            thane_kv::Error::Locked { .. } => code::DATA_IN_USE,
            _ => code::DATA_UNUSABLE,
        };
        Self::new(code, error.to_string())
    }
}

impl From<embedded::Error> for Failure {
    fn from(error: embedded::Error) -> Self {
        match error {
            embedded::Error::Bind(error) => error.into(),
            embedded::Error::Pki(error) => error.into(),
            embedded::Error::PkiFile(error) => error.into(),
            embedded::Error::Tls(error) => error.into(),
            embedded::Error::Store(error) => error.into(),
            embedded::Error::Encryption(_) => Self::new(code::CONFIG_INVALID, error.to_string()).with_hint(
                "the file should hold `keys`, a list of objects with `id` and `secret`; see `thane up --help`",
            ),
            embedded::Error::Tokens(_) => Self::new(code::CONFIG_INVALID, error.to_string())
                .with_hint("each line should be token,name,uid or token,name,uid,\"group,group\""),
            embedded::Error::Seed(_) => Self::new(code::DATA_UNUSABLE, error.to_string()),
            other => Self::new(code::FILE_FAILED, other.to_string()),
        }
    }
}

impl From<thane_runtime::tasks::Failure> for Failure {
    fn from(failure: thane_runtime::tasks::Failure) -> Self {
        if let Cause::Error(error) = &failure.cause
            && error.is::<thane_kv::Stopped>()
        {
            return Self::new(code::DATA_UNUSABLE, failure.to_string())
                .with_hint("free space on the disk or repair it, then start again; what was acknowledged is there");
        }
        Self::new(code::TASK_FAILED, failure.to_string())
    }
}
