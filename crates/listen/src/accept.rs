//! Accepts connections and serves each of them.
//!
//! A connection is closed if a request's head does not arrive in time, if the peer does not read,
//! does not answer pings, takes nothing of its responses, or sends a flood of frames.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::binding::Binding;
use crate::budget::Budget;
use crate::connection::{Close, Connection};
use crate::handler::ConnectionCounts;
use crate::handshake::{Handshake, HandshakeError};
use crate::limits::Limits;
use crate::listener::Listener;
use crate::permits::{Connections, Permit, PermitKind};
use crate::protocol::Protocol;
use crate::proxy_header::{ProxyHeaders, read_proxy_header};
use crate::raw_socket::RawSocket;
use crate::shutdown::ShutdownSignal;

mod http_session;
mod session;
mod stream_session;
mod stream_tasks;
mod warnings;

pub use http_session::Http;
pub use session::Session;
use session::{Terms, before_request, header_timeout};
pub use stream_session::Streams;
use warnings::Warnings;

/// The longest pause after the system could not accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How many connections of the backlog are accepted before others are served.
const BACKLOG_AT_ONCE: u32 = 64;
/// The longest time between two looks at the ages of connections.
const AGES_EVERY: Duration = Duration::from_secs(10);
/// How long the handshake of a connection may take when it is drained.
const HANDSHAKE_IN_DRAIN: Duration = Duration::from_secs(1);

/// What every connection of a listener needs; they share it.
pub(crate) struct Acceptor<S, T> {
    proxy_headers: Option<Arc<dyn ProxyHeaders>>,
    handshake: T,
    session: S,
    terms: Terms,
    shutdown: ShutdownSignal,
}

/// Counts an open connection until it is dropped.
struct Counted<'a, C: ConnectionCounts>(&'a C);

/// Whether the peer closed the connection before it was accepted, which is not an error here.
fn is_aborted_by_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

/// Whether the process, or the system, may not open another file.
fn has_no_file(error: &io::Error) -> bool {
    let errors = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|code| errors.contains(&code))
}

// === impl Counted ===

impl<C: ConnectionCounts> Counted<'_, C> {
    fn new(counts: &C) -> Counted<'_, C> {
        counts.count_open();
        Counted(counts)
    }
}

impl<C: ConnectionCounts> Drop for Counted<'_, C> {
    fn drop(&mut self) {
        self.0.count_end();
    }
}

// === impl Acceptor ===

impl<S: Session, T: Handshake> Acceptor<S, T> {
    /// Serves the connections of a listener with `session`.
    pub(crate) fn new(
        listener: &Listener<T>,
        session: S,
        limits: Limits,
        budget: Arc<Budget>,
        shutdown: ShutdownSignal,
    ) -> Arc<Acceptor<S, T>> {
        let terms = Terms {
            protocol: listener.protocol(),
            half_close: listener.has_half_close(),
            limits,
            budget,
            warnings: Arc::new(Warnings::new(listener.name())),
        };
        Arc::new(Acceptor {
            proxy_headers: listener.proxy_headers(),
            handshake: listener.handshake(),
            session,
            terms,
            shutdown,
        })
    }

    /// How long a drain may take.
    pub(crate) const fn drain_timeout(&self) -> Duration {
        self.terms.limits.drain_timeout
    }

    /// Accepts connections until shutdown.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        binding: &Binding,
        connections: &Arc<Connections>,
        tasks: &mut JoinSet<()>,
    ) {
        let mut shutdown = self.shutdown.clone();
        let mut checks = interval(self.terms.limits.write_timeout.min(AGES_EVERY));
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let accepted = tokio::select! {
                accepted = binding.accept() => accepted,
                // A task that has ended keeps the memory of its future until it is joined.
                Some(_ended) = tasks.join_next() => continue,
                _ = checks.tick() => {
                    self.expire_connections(connections);
                    continue;
                }
                () = shutdown.wait() => return,
            };
            match accepted {
                Ok((socket, peer)) => {
                    let permitted = connections.acquire(peer, Instant::now());
                    self.spawn(socket, permitted, tasks).await;
                }
                Err(error) if is_aborted_by_peer(&error) => {}
                Err(error) => self.wait_for_file(&error).await,
            }
        }
    }

    /// Serves an accepted connection in a task of its own.
    async fn spawn(
        self: &Arc<Self>,
        socket: RawSocket,
        (permit, kind): (Permit, PermitKind),
        tasks: &mut JoinSet<()>,
    ) {
        self.terms.warnings.log_full(kind, permit.connection.peer());
        tasks.spawn(Arc::clone(self).serve(Box::new(socket), permit));
        if kind == PermitKind::Reserved {
            // The next ones would take its permit back before its task has run, which reads a
            // request that is there already.
            yield_now().await;
        }
    }

    /// Accepts and drains the connections that wait when the drain begins, and closes the socket: a
    /// client for which the system has accepted one may have sent its request. Those beyond `most`
    /// are reset.
    pub(crate) async fn accept_backlog(
        self: &Arc<Self>,
        mut binding: Binding,
        most: u32,
        connections: &Arc<Connections>,
        tasks: &mut JoinSet<()>,
    ) {
        binding.remove_file();
        for count in 1..=most {
            match binding.accept_waiting() {
                Ok((socket, peer)) => {
                    let permitted = connections.acquire(peer, Instant::now());
                    permitted.0.connection.drain();
                    self.spawn(socket, permitted, tasks).await;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_aborted_by_peer(&error) => {}
                Err(error) => {
                    self.terms.warnings.log_cannot_accept(&error);
                    // Every connection is drained. When one has ended, its file is free.
                    if !has_no_file(&error) || tasks.join_next().await.is_none() {
                        return;
                    }
                }
            }
            if count % BACKLOG_AT_ONCE == 0 {
                yield_now().await;
            }
        }
    }

    /// Pauses after the system could not accept a connection. If no file can be opened, an idle
    /// connection is closed, and the pause ends as soon as any connection has ended.
    async fn wait_for_file(&self, error: &io::Error) {
        let budget = &self.terms.budget;
        // Counts ends from here on, also before it is polled.
        let ended = budget.next_end();
        match has_no_file(error) && budget.close_idlest(Instant::now()) {
            true => self.terms.warnings.log_no_file(error),
            false => self.terms.warnings.log_cannot_accept(error),
        }
        let _whichever = timeout(ACCEPT_PAUSE, ended).await;
    }

    /// Closes connections that are too old.
    fn expire_connections(&self, connections: &Connections) {
        let limits = &self.terms.limits;
        for connection in connections.all() {
            if let Some(drained) = connection.time_since_drain() {
                if drained > limits.drain_timeout {
                    connection.close(Close::Drained);
                }
            } else if connection.is_reserved() || connection.age() > limits.connection_age {
                self.close_gracefully(&connection);
            }
        }
    }

    /// Asks a connection to close without losing a request.
    fn close_gracefully(&self, connection: &Connection) {
        match connection.is_http2() || self.terms.protocol == Protocol::Other {
            // Closing an idle connection could lose a request that is on its way. It is closed
            // after its next response, or when it has been idle for too long.
            false => connection.end_after_next_response(),
            // GOAWAY tells the peer which streams are still served. Another protocol has no such
            // word: its connection ends when nothing has arrived for a while.
            true => connection.drain(),
        }
    }

    /// Serves a connection until it ends, from its handshake on.
    ///
    /// Its future is as large as its largest stage, and there are as many as connections, most of
    /// which are idle: so a stage that ends is in a box of its own, and so is the socket, which it
    /// would have room for to the end.
    async fn serve(self: Arc<Self>, socket: Box<RawSocket>, permit: Permit) {
        let _counted = Counted::new(self.session.counts());
        let connection = &permit.connection;
        let mut socket = *socket;
        if !self.terms.half_close {
            socket = socket.with_hang_up(connection.exchange());
        }
        match Box::pin(self.shake_hands(socket, connection)).await {
            Some(Ok(stream)) => self.session.serve(stream, connection, &self.terms).await,
            Some(Err(error)) => {
                self.session.counts().count_close(error.failure.reason());
                self.terms.warnings.log_handshake(&error, connection.peer());
            }
            None => {}
        }
        let Some(close) = connection.close_reason() else {
            return;
        };
        self.session.counts().count_close(close.reason());
        self.terms.warnings.log_closed(close, connection.peer());
    }

    /// Reads a proxy's header, if one is expected, and performs the handshake of a connection:
    /// `None` if it was closed meanwhile, or drained and did not end soon.
    async fn shake_hands(
        &self,
        socket: RawSocket,
        known: &Arc<Connection>,
    ) -> Option<Result<T::Stream, HandshakeError>> {
        let shaken = timeout(
            header_timeout(&self.terms.limits, known),
            self.open_stream(socket, known),
        );
        let shaken = before_request(shaken, known, HANDSHAKE_IN_DRAIN, &self.terms.limits).await?;
        Some(shaken.unwrap_or_else(|_| Err(HandshakeError::timeout())))
    }

    /// The same without a time limit.
    async fn open_stream(
        &self,
        mut socket: RawSocket,
        known: &Arc<Connection>,
    ) -> Result<T::Stream, HandshakeError> {
        let headers = self.proxy_headers.as_deref();
        if let Some(headers) = headers.filter(|headers| headers.expects(known.peer())) {
            let (client, rest) = read_proxy_header(headers, &mut socket).await?;
            known.set_proxied_client(client);
            socket = socket.with_unread(rest);
        }
        self.handshake.handshake(socket, known).await
    }
}

#[cfg(test)]
mod tests;
