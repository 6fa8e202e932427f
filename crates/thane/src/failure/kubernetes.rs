//! What the API server, or the way to it, said.

use std::error::Error;

use kube::config::KubeconfigError;
use kube::core::Status;
use thane_api::code;

use super::Failure;

impl From<KubeconfigError> for Failure {
    fn from(error: KubeconfigError) -> Self {
        let message = match &error {
            // Only the reason: a picture of the place does not fit into a line.
            KubeconfigError::Parse(reason) => format!("not a kubeconfig: {}", reason.without_snippet()),
            other => chain(other),
        };
        Self::new(code::KUBECONFIG_UNUSABLE, message)
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => refused(&status),
            kube::Error::Auth(error) => Self::new(code::NOT_AUTHORISED, chain(&error)),
            kube::Error::InferKubeconfig(error) => error.into(),
            kube::Error::Service(error) => unreachable(&*error),
            kube::Error::HyperError(error) => unreachable(&error),
            kube::Error::ReadEvents(error) => unreachable(&error),
            kube::Error::RustlsTls(error) => Self::new(code::KUBECONFIG_UNUSABLE, chain(&error)),
            other => Self::new(code::REFUSED, chain(&other)),
        }
    }
}

/// A `Status` as people should see it.
pub(crate) fn refused(status: &Status) -> Failure {
    let code = match status.code {
        401 | 403 => code::NOT_AUTHORISED,
        408 | 504 => code::TIMED_OUT,
        _ => code::REFUSED,
    };
    let message = match (status.message.as_str(), status.reason.as_str()) {
        ("", "") => format!("the API server answered {}", status.code),
        (message, "") => message.to_owned(),
        ("", reason) => reason.to_owned(),
        (message, reason) => format!("{message} ({reason})"),
    };
    let mut failure = Failure::new(code, message);
    failure.not_found = status.code == 404;
    match status.reason.as_str() {
        "NotFound" => failure.with_hint("check the name and the namespace"),
        "Conflict" if code == code::REFUSED => {
            failure.with_hint("someone else owns these fields or changed them; look first, then --force-conflicts")
        }
        _ => failure,
    }
}

fn unreachable(error: &(dyn Error + 'static)) -> Failure {
    let message = chain(error);
    let code =
        if message.contains("timed out") || message.contains("timeout") { code::TIMED_OUT } else { code::UNREACHABLE };
    Failure::new(code, message)
}

/// An error and its causes in one line, without saying anything twice.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let part = next.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use thane_api::Exit;

    use super::*;

    #[test]
    fn a_status_becomes_a_code_and_a_line() {
        let status = |code: u16, message: &str, reason: &str| Status {
            code,
            message: message.to_owned(),
            reason: reason.to_owned(),
            ..Status::default()
        };
        let check = |status: Status, exit: Exit, line: &str| {
            let failure = refused(&status);
            assert_eq!((failure.exit(), failure.message.as_str()), (exit, line));
        };
        check(status(404, "pods \"x\" not found", "NotFound"), Exit::Failed, "pods \"x\" not found (NotFound)");
        check(status(401, "Unauthorized", "Unauthorized"), Exit::Unauthorised, "Unauthorized (Unauthorized)");
        check(status(403, "no", "Forbidden"), Exit::Unauthorised, "no (Forbidden)");
        check(status(504, "", "Timeout"), Exit::TimedOut, "Timeout");
        check(status(500, "", ""), Exit::Failed, "the API server answered 500");
    }
}
