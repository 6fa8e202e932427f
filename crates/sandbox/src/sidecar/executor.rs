//! The executor's refusals as statuses.

use thane_executor::client::Error;
use thane_executor::message::Failure;
use thane_runtime::pods::AccessError;
use tonic::Status;

/// As callers hear it.
pub(super) fn status(error: Error) -> Status {
    match error {
        Error::Refused(failure, message) => match failure {
            Failure::Invalid => Status::invalid_argument(message),
            Failure::NotFound => Status::not_found(message),
            Failure::Denied => Status::permission_denied(message),
            Failure::Exhausted => Status::resource_exhausted(message),
            Failure::Other => Status::failed_precondition(message),
        },
        Error::Io(error) => Status::unavailable(format!("the sandbox does not answer: {error}")),
    }
}

/// The same of whoever runs the container.
pub(super) fn access(error: AccessError) -> Status {
    match error {
        AccessError::NotFound(message) => Status::not_found(message),
        AccessError::Refused(message) => Status::failed_precondition(message),
        AccessError::Failed(message) => Status::unavailable(message),
    }
}
