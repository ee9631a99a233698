use crate::{Errno, Json};
use std::fmt;

/// A response that is an error: the backend failed, a tool was denied or reported a failure. The session it
/// belongs to stays usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For programs: `mcp_policy_denied`, `tool_call_limit`, …
    pub code: String,
    /// For users and models.
    pub message: String,
    /// Whether a retry may succeed later.
    pub retryable: bool,
}

impl Failure {
    /// The failure in a body `{"error":{"code","message","retryable"}}`, if it is one.
    pub(crate) fn of(body: &Json) -> Option<Failure> {
        let error = body.get("error").filter(|error| !error.is_null())?;
        let text = |name: &str| error[name].as_str().map(str::to_owned);
        Some(Failure {
            code: text("code").unwrap_or_else(|| "unknown".to_owned()),
            message: text("message").unwrap_or_else(|| error.to_string()),
            retryable: error["retryable"].as_bool().unwrap_or(false),
        })
    }

    /// A response without text.
    pub(crate) fn no_text() -> Failure {
        let message = "there is no text in the answer".to_owned();
        Failure { code: "no_text".to_owned(), message, retryable: false }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failure {}

/// Any error of this crate: the error type of `run`, unless the guest defines its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A call failed.
    Errno(Errno),
    /// A response is an error.
    Failure(Failure),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Errno(errno) => errno.fmt(f),
            Error::Failure(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Error {
        Error::Errno(errno)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error::Failure(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(body: &str) -> Option<Failure> {
        Failure::of(&Json::parse(body).unwrap())
    }

    #[test]
    fn an_error_object_is_a_failure() {
        let found =
            failure(r#"{"error":{"code":"mcp_timeout","message":"no answer in 8 s","retryable":true}}"#).unwrap();
        assert_eq!(found.to_string(), "mcp_timeout: no answer in 8 s");
        assert!(found.retryable);
        assert_eq!(Error::from(found.clone()).to_string(), found.to_string());
    }

    #[test]
    fn other_shapes_are_shown_as_they_are() {
        assert_eq!(failure(r#"{"error":"down"}"#).unwrap().to_string(), "unknown: \"down\"");
        assert_eq!(failure(r#"{"error":null,"content":[]}"#), None);
        assert_eq!(failure("[]"), None);
    }
}
