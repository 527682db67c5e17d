//! A decision of the service, or why a request has none.

use std::fmt::{self, Display};
use std::io::{self, ErrorKind};

use http::StatusCode;

use super::bounds::{CONNECT_TIMEOUT, REQUEST_TIMEOUT};
use crate::printable::Printable;

/// A decision of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Allowed,
    /// Allowed, and no rule with a limit matched.
    WithoutLimit,
    Denied,
}

/// Why a request has no decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Nothing listens there.
    NotListening,
    /// No connection, for this reason.
    Connect(String),
    ConnectTimeout,
    /// No TLS connection, for this reason.
    Tls(String),
    /// The connection ended before the answer, or what came is not HTTP.
    Closed,
    Timeout,
    /// Neither 200 nor 429, with the detail of the problem document.
    Status(StatusCode, Option<Printable>),
    /// 200 or 429 that is not a decision.
    NoDecision,
}

// === impl Unanswered ===

impl Unanswered {
    pub(super) fn connect(error: &io::Error) -> Unanswered {
        match error.kind() {
            ErrorKind::ConnectionRefused => Unanswered::NotListening,
            _ => Unanswered::Connect(error.to_string()),
        }
    }

    /// What the same reasons have in common: details can have values of the request.
    pub(super) fn reason(&self) -> String {
        match self {
            Unanswered::Status(status, _) => format!("status {}", status.as_u16()),
            why => why.to_string(),
        }
    }
}

impl Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::NotListening => f.write_str(
                "connection refused; is `tollgate serve` running, and is this the address of its \
                 `http` listener?",
            ),
            Unanswered::Connect(error) => write!(f, "cannot connect: {error}"),
            Unanswered::ConnectTimeout => {
                write!(f, "no connection within {} s", CONNECT_TIMEOUT.as_secs())
            }
            Unanswered::Tls(error) => write!(
                f,
                "no TLS connection: {error}; name the service's authority with --ca, and use \
                 http:// for a listener without TLS"
            ),
            Unanswered::Closed => f.write_str(
                "the connection ended before an HTTP response; a listener with TLS needs https://",
            ),
            Unanswered::Timeout => {
                write!(f, "no response within {} s", REQUEST_TIMEOUT.as_secs())
            }
            Unanswered::Status(status, Some(detail)) => {
                write!(f, "status {}: {detail}", status.as_u16())
            }
            Unanswered::Status(status, None) => write!(f, "status {}", status.as_u16()),
            Unanswered::NoDecision => {
                f.write_str("a response without a decision; is this the `http` listener?")
            }
        }
    }
}
