//! The log lines that clients can cause, each kind at a bounded rate.

use std::io;

use tracing::{debug, warn};

use crate::address::PeerAddress;
use crate::connection::Close;
use crate::handshake::{Failure, HandshakeError};
use crate::permits::PermitKind;
use crate::throttle::Throttle;

/// One throttle for each kind of line, of one listener.
#[derive(Debug)]
pub(crate) struct Warnings {
    listener: &'static str,
    full: Throttle,
    cannot_accept: Throttle,
    no_file: Throttle,
    closed: Throttle,
    reset: Throttle,
    broken: Throttle,
    handshakes: [Throttle; Failure::COUNT],
}

// === impl Warnings ===

impl Warnings {
    /// For the listener of this name.
    pub(crate) fn new(listener: &'static str) -> Warnings {
        Warnings {
            listener,
            full: Throttle::default(),
            cannot_accept: Throttle::default(),
            no_file: Throttle::default(),
            closed: Throttle::default(),
            reset: Throttle::default(),
            broken: Throttle::default(),
            handshakes: Default::default(),
        }
    }

    /// No permit was free.
    pub(crate) fn log_full(&self, kind: PermitKind, peer: PeerAddress) {
        let what = match kind {
            PermitKind::Free => return,
            PermitKind::Replaced => "an idle connection was closed for a new one",
            PermitKind::Reserved => "a new connection is only served health checks",
        };
        if let Some(withheld) = self.full.allow() {
            let listener = self.listener;
            match peer.ip() {
                Some(peer) => warn!(
                    listener, %peer, withheld,
                    "`limits.connections` or `connections_per_address` is reached: {what}"
                ),
                None => warn!(
                    listener, %peer, withheld, "`limits.connections` is reached: {what}"
                ),
            }
        }
    }

    /// The system could not accept a connection, and no idle one could be closed for it.
    pub(crate) fn log_cannot_accept(&self, error: &io::Error) {
        if let Some(withheld) = self.cannot_accept.allow() {
            warn!(listener = self.listener, %error, withheld, "cannot accept a connection");
        }
    }

    /// No file could be opened for a new connection.
    pub(crate) fn log_no_file(&self, error: &io::Error) {
        if let Some(withheld) = self.no_file.allow() {
            let listener = self.listener;
            warn!(
                listener, %error, withheld,
                "the open-file limit is reached: an idle connection was closed to accept a new \
                 one; raise the limit (`ulimit -n`) or lower `limits.connections`"
            );
        }
    }

    /// This side closed a connection.
    pub(crate) fn log_closed(&self, close: Close, peer: PeerAddress) {
        if !matches!(close, Close::Idle | Close::NoFile)
            && let Some(withheld) = self.closed.allow()
        {
            let listener = self.listener;
            warn!(listener, %peer, withheld, "connection closed: {close}");
        }
    }

    /// A peer did not take one of its responses.
    pub(crate) fn log_reset(&self, peer: PeerAddress) {
        if let Some(withheld) = self.reset.allow() {
            let listener = self.listener;
            warn!(
                listener, %peer, withheld,
                "stream reset: less than 1 KiB of its response was taken within `write_timeout`"
            );
        }
    }

    /// A peer violated HTTP/2.
    pub(crate) fn log_broken(&self, reason: &str, peer: PeerAddress) {
        if let Some(withheld) = self.broken.allow() {
            let listener = self.listener;
            warn!(listener, %peer, withheld, reason, "connection closed: the peer violated HTTP/2");
        }
    }

    /// A handshake failed. Health checks of load balancers often only connect, so a peer that goes
    /// away is not worth a warning.
    pub(crate) fn log_handshake(&self, error: &HandshakeError, peer: PeerAddress) {
        let (listener, reason) = (self.listener, error.failure.reason());
        if error.failure == Failure::Aborted {
            debug!(listener, %peer, reason, %error, "handshake failed");
        } else if let Some(withheld) = self.handshakes[error.failure.index()].allow() {
            warn!(listener, %peer, withheld, reason, %error, "handshake failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use tollgate_testbed::Journal;

    use super::*;

    /// More than a client can cause between two lines.
    const OFTEN: usize = 1_000;

    /// A client that repeats what is logged gets one line with its address, and the next kind of
    /// line is written all the same.
    #[test]
    fn no_client_can_repeat_a_line_as_often_as_it_likes() {
        let (journal, _guard) = Journal::begin();
        let warnings = Warnings::new("grpc");
        let address = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 7), 4_000));
        let peer = PeerAddress::from(address);
        let error = || io::Error::other("for a test");
        let expired = HandshakeError {
            failure: Failure::ExpiredCertificate,
            source: error(),
        };
        let broken = HandshakeError {
            failure: Failure::Broken,
            source: error(),
        };
        for _ in 0..OFTEN {
            warnings.log_full(PermitKind::Replaced, peer);
            warnings.log_cannot_accept(&error());
            warnings.log_no_file(&error());
            warnings.log_closed(Close::Flood("RST_STREAM"), peer);
            warnings.log_reset(peer);
            warnings.log_broken("too many resets", peer);
            warnings.log_handshake(&expired, peer);
            warnings.log_handshake(&broken, peer);
        }
        let lines = journal.lines("WARN");
        assert_eq!(lines.len(), 8, "{lines:#?}");
        assert_eq!(journal.count("peer=192.0.2.7"), 6, "{lines:#?}");
        // An operator learns when lines are missing.
        assert!(
            lines.iter().all(|line| line.contains("withheld=0")),
            "{lines:#?}"
        );
    }
}
