//! A body as it arrives, from a client or from an upstream.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// A body that has ended only if its sender has ended it.
///
/// The HTTP library takes a stream of HTTP/2 that is reset with `NO_ERROR` for one that has ended,
/// as a server may stop a request by it behind its response. Peers that give up in the middle of a
/// body send it as well.
#[derive(Debug)]
pub(crate) struct ReceivedBody {
    incoming: Incoming,
    is_http2: bool,
}

/// Why a body ended before its end.
#[derive(Debug)]
pub(crate) enum CutOff {
    /// The connection or the stream broke, or the body is malformed.
    Library(hyper::Error),
    /// The stream was reset with `NO_ERROR`.
    Reset,
}

// === impl ReceivedBody ===

impl ReceivedBody {
    /// The body of a message of this version.
    pub(crate) fn new(incoming: Incoming, version: Version) -> ReceivedBody {
        ReceivedBody {
            incoming,
            is_http2: version == Version::HTTP_2,
        }
    }
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        let polled = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        Poll::Ready(match polled {
            Some(frame) => Some(frame.map_err(CutOff::Library)),
            None if self.is_http2 && !self.incoming.is_end_stream() => Some(Err(CutOff::Reset)),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

// === impl CutOff ===

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CutOff::Library(error) => error.fmt(f),
            CutOff::Reset => f.write_str("the stream was reset with NO_ERROR"),
        }
    }
}

impl Error for CutOff {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            CutOff::Library(error) => Some(error),
            CutOff::Reset => None,
        }
    }
}
