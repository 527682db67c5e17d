//! Why the admin listener gave no usable answer.

use std::error::Error;
use std::fmt::{self, Display};
use std::io::{self, ErrorKind};

use http::StatusCode;

use super::{BODY_BYTES_MAX, TOKEN_VARIABLE};
use crate::message::with_causes;
use crate::printable::Printable;
use crate::service_url::ServiceUrl;

/// Of the requests to an admin listener, only that of `tollgate explain` can be too long.
const TOO_LONG: &str = "\
    the request is too long for the service; use shorter values, or explain without the service: \
    --rules or --config in place of --url";

/// A failed request to an admin listener. `Display` says what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    url: ServiceUrl,
    why: NotAnswered,
}

/// What went wrong.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum NotAnswered {
    /// The address cannot be found, or nothing listens there.
    Connect(io::Error),
    ConnectTimeout,
    Tls(io::Error),
    /// The connection broke, or the bytes are not HTTP.
    Http(hyper::Error),
    /// The same within TLS.
    HttpInTls(hyper::Error),
    /// The service demands a client certificate, and none was sent.
    NoCertificate,
    HeadTimeout,
    Body(Box<dyn Error + Send + Sync>),
    BodyTimeout,
    /// 401, and no token was sent.
    NoToken,
    /// 401 for our token.
    WrongToken,
    /// The request is longer than a URL can be, or than the service accepts.
    TooLong,
    /// Another status, with the detail of its problem document.
    Status(StatusCode, Option<Printable>),
    /// A response that no admin listener of this version sends.
    NotTollgate,
    /// An event with more bytes than this.
    EventTooLarge(usize),
    /// A snapshot of another version.
    Version(u64),
    /// A snapshot without a member, or with another type of it.
    Snapshot(Printable),
    /// The stream of events ended.
    Ended,
    /// No event for so many seconds.
    Silent(u64),
}

// === impl Failure ===

impl Failure {
    pub(crate) const fn new(url: ServiceUrl, why: NotAnswered) -> Failure {
        Failure { url, why }
    }

    /// Whether the same request may succeed later, when the service has started again.
    pub(crate) const fn is_temporary(&self) -> bool {
        !matches!(
            self.why,
            NotAnswered::NoToken
                | NotAnswered::WrongToken
                | NotAnswered::NoCertificate
                | NotAnswered::TooLong
                | NotAnswered::NotTollgate
                | NotAnswered::EventTooLarge(_)
                | NotAnswered::Version(_)
                | NotAnswered::Snapshot(_)
        )
    }
}

impl Error for Failure {}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.url, self.why)
    }
}

// === impl NotAnswered ===

impl Display for NotAnswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAnswered::Connect(error) if error.kind() == ErrorKind::ConnectionRefused => {
                write!(
                    f,
                    "connection refused; is `tollgate serve` running, and is this the address of \
                     its admin listener?"
                )
            }
            NotAnswered::Connect(error) => write!(f, "cannot connect: {error}"),
            NotAnswered::ConnectTimeout => write!(f, "no connection in time"),
            NotAnswered::Tls(error) => write!(
                f,
                "no TLS connection: {error}; name the service's authority with --ca, and use \
                 http:// for a listener without TLS"
            ),
            NotAnswered::Http(error) => write!(
                f,
                "no HTTP response ({}); use https:// for a listener with TLS",
                with_causes(error)
            ),
            NotAnswered::HttpInTls(error) => {
                write!(f, "no HTTP response ({})", with_causes(error))
            }
            NotAnswered::NoCertificate => write!(
                f,
                "the service demands a client certificate: name one with --cert and --key"
            ),
            NotAnswered::HeadTimeout | NotAnswered::BodyTimeout => {
                write!(f, "no response in time")
            }
            NotAnswered::Body(error) => write!(
                f,
                "the response broke off, or has more than {BODY_BYTES_MAX} bytes: {error}"
            ),
            NotAnswered::NoToken => write!(
                f,
                "the service demands a token: name one with --token-file or --token-env, or set \
                 {TOKEN_VARIABLE}"
            ),
            NotAnswered::WrongToken => write!(
                f,
                "the service does not accept this token; use one that its setting `admin` names"
            ),
            NotAnswered::TooLong => f.write_str(TOO_LONG),
            NotAnswered::Status(status, Some(detail)) => write!(f, "{detail} ({status})"),
            NotAnswered::Status(status, None) => write!(
                f,
                "answered with {status}; is this the address of an admin listener?"
            ),
            NotAnswered::NotTollgate => write!(
                f,
                "this is not the admin listener of a Tollgate; its default address is \
                 http://127.0.0.1:6070"
            ),
            NotAnswered::EventTooLarge(most) => {
                write!(f, "an event has more than {most} bytes")
            }
            NotAnswered::Version(version) => write!(
                f,
                "the service sends snapshots of version {version}, which this program does not \
                 know; use the `tollgate` of the service's version"
            ),
            NotAnswered::Snapshot(error) => write!(f, "a snapshot cannot be read: {error}"),
            NotAnswered::Ended => write!(f, "the service closed the connection"),
            NotAnswered::Silent(seconds) => write!(f, "no snapshot for {seconds} s"),
        }
    }
}
