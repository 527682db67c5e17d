//! A listener: a socket that accepts connections, and its graceful shutdown.
//!
//! A listener never stops accepting while it is full: `permits.rs` decides which connection makes
//! room. On shutdown the connections that wait to be accepted are the last ones, and requests in
//! flight have a bounded time to finish: those that were sent by then are in flight, too.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use crate::accept::{Acceptor, Session};
use crate::address::Address;
use crate::binding::Binding;
use crate::budget::Budget;
use crate::handshake::{Handshake, Plain};
use crate::limits::Limits;
use crate::permits::{ConnectionLimits, Connections};
use crate::protocol::Protocol;
use crate::proxy_header::ProxyHeaders;
use crate::shutdown::ShutdownSignal;
use crate::socket_file::BACKLOG;
use crate::source::Proxies;

/// The most connections that are accepted after the shutdown has begun: as many as can wait then,
/// one more than `listen` asks for. A flood of further ones does not hold it up.
const BACKLOG_MAX: u32 = BACKLOG + 1;

/// An open listener. `T` is the handshake of its connections: none, unless
/// [`Listener::with_handshake`] sets one.
#[derive(Debug)]
pub struct Listener<T = Plain> {
    name: &'static str,
    binding: Binding,
    address: Address,
    protocol: Protocol,
    half_close: bool,
    proxies: Option<Arc<dyn Proxies>>,
    proxy_headers: Option<Arc<dyn ProxyHeaders>>,
    handshake: T,
}

// === impl Listener ===

impl Listener {
    /// Listens on `address`. The file of a Unix socket replaces one on which nobody accepts
    /// connections, and is removed when the listener closes.
    ///
    /// # Errors
    ///
    /// What the system says; for a Unix socket, also why a file that is there is not replaced.
    pub async fn open(
        name: &'static str,
        address: &Address,
        protocol: Protocol,
    ) -> std::io::Result<Listener> {
        let (binding, address) = Binding::open(address).await?;
        Ok(Listener {
            name,
            binding,
            address,
            protocol,
            half_close: true,
            proxies: None,
            proxy_headers: None,
            handshake: Plain,
        })
    }
}

impl<T: Handshake> Listener<T> {
    /// The same listener with another handshake, such as TLS.
    pub fn with_handshake<U: Handshake>(self, handshake: U) -> Listener<U> {
        Listener {
            name: self.name,
            binding: self.binding,
            address: self.address,
            protocol: self.protocol,
            half_close: self.half_close,
            proxies: self.proxies,
            proxy_headers: self.proxy_headers,
            handshake,
        }
    }

    /// The same listener for requests that take long to answer: a client of HTTP/1 that closes its
    /// side has gone, and its request is dropped. By default it may still wait for the response.
    #[must_use]
    pub fn without_half_close(self) -> Listener<T> {
        Listener {
            half_close: false,
            ..self
        }
    }

    /// The same listener, which takes as many connections of trusted proxies as of all clients
    /// together: [`ConnectionLimits::per_source`] does not apply to them.
    #[must_use]
    pub fn with_proxies(self, proxies: Arc<impl Proxies>) -> Listener<T> {
        Listener {
            proxies: Some(proxies),
            ..self
        }
    }

    /// The same listener, whose connections begin with a proxy's header where `headers` expects
    /// one: before the handshake, and within [`Limits::header_timeout`] together with it.
    #[must_use]
    pub fn with_proxy_headers(self, headers: Arc<impl ProxyHeaders>) -> Listener<T> {
        Listener {
            proxy_headers: Some(headers),
            ..self
        }
    }

    /// What knows the headers of proxies, if any is expected.
    pub(crate) fn proxy_headers(&self) -> Option<Arc<dyn ProxyHeaders>> {
        self.proxy_headers.clone()
    }

    /// Whether a client may close its side and wait for the response.
    pub(crate) const fn has_half_close(&self) -> bool {
        self.half_close
    }

    /// The handshake of its connections.
    pub(crate) fn handshake(&self) -> T {
        self.handshake.clone()
    }

    /// Its name in the configuration.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its protocol.
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Where it listens.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Serves [`Http`](crate::Http) or [`Streams`](crate::Streams) until shutdown, and then until
    /// nothing is in flight or [`Limits::drain_timeout`] has passed.
    pub async fn serve<S: Session>(
        self,
        session: S,
        connection_limits: ConnectionLimits,
        limits: Limits,
        budget: Arc<Budget>,
        shutdown: ShutdownSignal,
    ) {
        let connections = Connections::new(
            connection_limits,
            limits.turn_bytes,
            Arc::clone(&budget),
            self.proxies.clone(),
        );
        let acceptor = Acceptor::new(&self, session, limits, budget, shutdown);
        let mut tasks = JoinSet::new();
        acceptor
            .accept(&self.binding, &connections, &mut tasks)
            .await;
        for connection in connections.all() {
            connection.drain();
        }
        let drained = async {
            acceptor
                .accept_backlog(self.binding, BACKLOG_MAX, &connections, &mut tasks)
                .await;
            while tasks.join_next().await.is_some() {}
        };
        let within = acceptor.drain_timeout();
        if timeout(within, drained).await.is_err() {
            let open = tasks.len();
            warn!(
                listener = self.name,
                open, "connections cut off at the end of the drain"
            );
        }
    }
}
