//! The state of one connection, shared by its socket, its requests and its listener.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::address::PeerAddress;
use crate::budget::Budget;
use crate::exchange::Exchange;
use crate::idleness::Idleness;
use crate::quantum::Quantum;
use crate::source::Source;
use crate::tunnel::Tunnel;

/// The orders as numbers; 0 is none.
const DRAIN: u8 = 1;
const CLOSE: u8 = 2;

/// Why this side closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// Its permit was needed, and it was idle.
    Idle,
    /// No file could be opened for a new connection, and it was idle.
    NoFile,
    /// Too many frames of this type.
    Flood(&'static str),
    /// The peer read nothing of what was written.
    SlowReader,
    /// The peer took nothing of its responses.
    UnreadAnswers,
    /// The peer violated TLS.
    BrokenTls,
    /// The peer did not answer a PING.
    PingTimeout,
    /// It did not close in time when it was drained.
    Drained,
}

/// What a connection must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Finish what is in flight, then end.
    Drain,
    /// End at once.
    Close,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    peer: PeerAddress,
    /// What it is counted under until it ends: a permit is given back to where it was taken.
    source: Source,
    /// What a proxy's header has said about the client: `None` if it named none.
    proxied_client: OnceLock<Option<IpAddr>>,
    /// Whether only health checks are served.
    is_reserved: bool,
    budget: Arc<Budget>,
    quantum: Quantum,
    /// Of HTTP/1.
    exchange: Arc<Exchange>,
    opened: Instant,
    /// Milliseconds from `opened` to the last request that arrived completely, or 0.
    last_request: AtomicU64,
    /// Requests that are being answered, and keep the connection from being idle.
    in_flight: AtomicU32,
    /// Bytes of requests that are not complete.
    reserved_bytes: AtomicUsize,
    /// Whether every response announces the end of the connection.
    ends: AtomicBool,
    order: AtomicU8,
    notify: Notify,
    close: OnceLock<Close>,
    /// Milliseconds from `opened` to the order to drain, or 0.
    drained: AtomicU64,
    /// For calls without an end, which no order reaches.
    drain_begins: Notify,
    /// What it becomes after the response that is being written.
    tunnel: Mutex<Option<Tunnel>>,
    has_tunnel: AtomicBool,
}

// === impl Connection ===

impl Connection {
    /// A connection that was accepted at `now`. A reserved one is only served health checks, and
    /// ends after its first response.
    pub(crate) fn new(
        peer: PeerAddress,
        is_reserved: bool,
        turn_bytes: usize,
        budget: Arc<Budget>,
        now: Instant,
    ) -> Connection {
        Connection {
            peer,
            source: Source::of(peer),
            proxied_client: OnceLock::new(),
            is_reserved,
            quantum: Quantum::new(turn_bytes, Arc::clone(budget.busy())),
            budget,
            exchange: Arc::new(Exchange::none()),
            opened: now,
            last_request: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            reserved_bytes: AtomicUsize::new(0),
            ends: AtomicBool::new(is_reserved),
            order: AtomicU8::new(0),
            notify: Notify::new(),
            close: OnceLock::new(),
            drained: AtomicU64::new(0),
            drain_begins: Notify::new(),
            tunnel: Mutex::default(),
            has_tunnel: AtomicBool::new(false),
        }
    }

    /// The same connection, which is counted under `source`.
    pub(crate) fn with_source(mut self, source: Source) -> Connection {
        self.source = source;
        self
    }

    /// The other end of the socket.
    pub const fn peer(&self) -> PeerAddress {
        self.peer
    }

    /// The client that a proxy's header named, for which the peer sends bytes, or that it named
    /// none; `None` without a header.
    pub fn proxied_client(&self) -> Option<Option<IpAddr>> {
        self.proxied_client.get().copied()
    }

    /// A proxy's header has named this client, or none. There is one header.
    pub(crate) fn set_proxied_client(&self, client: Option<IpAddr>) {
        self.proxied_client.get_or_init(|| client);
    }

    pub(crate) const fn source(&self) -> Source {
        self.source
    }

    /// Whether only health checks are served.
    pub const fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Waits until the quantum has room for the decision on a request of `bytes`: the rest of the
    /// connection's work continues in its next quantum.
    pub fn poll_decide(&self, bytes: usize, cx: &Context<'_>) -> Poll<()> {
        self.quantum.poll_decide(bytes, cx)
    }

    /// Its quantum.
    pub(crate) const fn quantum(&self) -> &Quantum {
        &self.quantum
    }

    /// Its present exchange, if it speaks HTTP/1.
    pub(crate) const fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// A request has arrived completely.
    pub fn record_request(&self, now: Instant) {
        let millis = self.millis(now).max(1);
        self.last_request.store(millis, Ordering::Relaxed);
    }

    /// Whether a request has ever arrived completely.
    fn has_requested(&self) -> bool {
        self.last_request.load(Ordering::Relaxed) > 0
    }

    /// A request takes long to answer: the connection is not idle until
    /// [`Connection::end_request`].
    pub fn begin_request(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// That request has been answered, or abandoned.
    pub fn end_request(&self, now: Instant) {
        self.record_request(now);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// How long no request has arrived; zero while one is being answered.
    pub(crate) fn idle_time(&self, now: Instant) -> Duration {
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let last_request = self.last_request.load(Ordering::Relaxed);
        Duration::from_millis(self.millis(now).saturating_sub(last_request))
    }

    /// How little it loses if it is closed; `None` if it is not idle.
    pub(crate) fn idleness(&self, now: Instant) -> Option<Idleness> {
        Idleness::new(self.has_requested(), self.idle_time(now))
    }

    pub(crate) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    fn age_millis(&self) -> u64 {
        self.millis(Instant::now())
    }

    fn millis(&self, now: Instant) -> u64 {
        let age = now.saturating_duration_since(self.opened);
        u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
    }

    /// Reserves bytes for an unfinished request; whether there is room for them.
    pub fn reserve(&self, bytes: usize) -> bool {
        self.budget.reserve(&self.reserved_bytes, bytes)
    }

    /// Releases reserved bytes.
    pub fn release(&self, bytes: usize) {
        self.budget.release(&self.reserved_bytes, bytes);
    }

    /// From now on it speaks HTTP/2.
    pub(crate) fn set_http2(&self) {
        self.quantum.set_multiplexed();
    }

    /// Whether it speaks HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.quantum.is_multiplexed()
    }

    /// Whether responses announce the end of the connection.
    pub fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// From now on responses announce the end of the connection.
    pub(crate) fn end_after_next_response(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Makes a connection of HTTP/1.1 a tunnel after the present response, which must be 101.
    ///
    /// A tunnel that keeps the connection alive, such as by an `Arc` of it, is never dropped if the
    /// response cannot be written.
    pub fn switch_protocols(&self, tunnel: Tunnel) {
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
        self.has_tunnel.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take_tunnel(&self) -> Option<Tunnel> {
        let mut tunnel = self.tunnel.lock().unwrap_or_else(PoisonError::into_inner);
        tunnel.take()
    }

    /// Records why the connection is closed; the first reason counts.
    pub(crate) fn record_close(&self, close: Close) {
        let _earlier_reason = self.close.set(close);
    }

    /// Why this side closed it, if it did.
    pub(crate) fn close_reason(&self) -> Option<Close> {
        self.close.get().copied()
    }

    /// Asks the connection to end; further calls do nothing.
    pub fn drain(&self) {
        self.end_after_next_response();
        let now = self.age_millis().max(1);
        let order = Ordering::Relaxed;
        if self.drained.compare_exchange(0, now, order, order).is_ok() {
            self.order.fetch_max(DRAIN, Ordering::Relaxed);
            self.notify.notify_one();
            self.drain_begins.notify_waiters();
        }
    }

    /// Waits until it is asked to end.
    pub async fn wait_until_drain(&self) {
        // Before the check, so that no drain is missed that begins after it.
        let begins = self.drain_begins.notified();
        if self.time_since_drain().is_none() {
            begins.await;
        }
    }

    /// How long ago it was asked to end.
    pub(crate) fn time_since_drain(&self) -> Option<Duration> {
        let drained = match self.drained.load(Ordering::Relaxed) {
            0 => return None,
            drained => drained,
        };
        // A drain in the first millisecond counts as one at its end.
        Some(Duration::from_millis(
            self.age_millis().saturating_sub(drained),
        ))
    }

    /// Closes the connection.
    pub(crate) fn close(&self, why: Close) {
        self.record_close(why);
        self.order.store(CLOSE, Ordering::Relaxed);
        self.notify.notify_one();
    }

    /// Whether it becomes a tunnel.
    pub(crate) fn has_tunnel(&self) -> bool {
        self.has_tunnel.load(Ordering::Relaxed)
    }

    /// Whether what is written has to leave at once: it is closed after its next poll, or becomes a
    /// tunnel, for which the HTTP library forgets what it has not written.
    pub(crate) fn has_to_write(&self) -> bool {
        self.order.load(Ordering::Relaxed) == CLOSE || self.has_tunnel()
    }

    /// Waits for the next order.
    pub(crate) async fn next_order(&self) -> Order {
        self.notify.notified().await;
        match self.order.load(Ordering::Relaxed) {
            CLOSE => Order::Close,
            _ => Order::Drain,
        }
    }

    /// The next stage of the connection waits for its order as well.
    pub(crate) fn repeat_order(&self) {
        self.notify.notify_one();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.budget.end_connection();
    }
}

// === impl Close ===

impl Close {
    /// The value of the label `reason`.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Close::Idle => "idle",
            Close::NoFile => "open_files",
            Close::Flood(_) => "flood",
            Close::SlowReader => "slow_reader",
            Close::UnreadAnswers => "unread_answers",
            Close::BrokenTls => "tls_broken",
            Close::PingTimeout => "ping_timeout",
            Close::Drained => "not_drained",
        }
    }
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Close::Idle => f.write_str("it was idle and its permit was needed"),
            Close::NoFile => f.write_str("it was idle and a new connection needed its file"),
            Close::Flood(kind) => write!(f, "it sent too many {kind} frames"),
            Close::SlowReader => f.write_str("it did not read within `write_timeout`"),
            Close::UnreadAnswers => {
                f.write_str("it took nothing of its responses within `write_timeout`")
            }
            Close::BrokenTls => f.write_str("the peer violated TLS"),
            Close::PingTimeout => f.write_str("it did not answer a PING within `ping_timeout`"),
            Close::Drained => f.write_str("it did not end within `drain_timeout`"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::poll_fn;
    use std::pin::{Pin, pin};

    use super::*;
    use crate::limits::Limits;

    async fn poll_once(mut future: Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
    }

    fn connection() -> Connection {
        let budget = Arc::new(Budget::new(&Limits::default()));
        let peer = PeerAddress::Unix;
        Connection::new(peer, false, 1000, budget, Instant::now())
    }

    #[test]
    fn a_connection_is_not_idle_while_a_request_is_being_answered() {
        let connection = connection();
        let later = |secs| connection.opened + Duration::from_secs(secs);
        connection.record_request(later(1));
        connection.begin_request();
        assert_eq!(connection.idle_time(later(9)), Duration::ZERO);
        connection.end_request(later(9));
        assert_eq!(connection.idle_time(later(11)), Duration::from_secs(2));
    }

    #[tokio::test]
    async fn a_drain_is_known_to_all_who_wait_for_it_and_to_those_who_come_later() {
        let connection = connection();
        let mut waiting = pin!(connection.wait_until_drain());
        let mut other = pin!(connection.wait_until_drain());
        for waiting in [&mut waiting, &mut other] {
            assert_eq!(poll_once(waiting.as_mut()).await, Poll::Pending);
        }
        connection.drain();
        for waiting in [&mut waiting, &mut other] {
            assert_eq!(poll_once(waiting.as_mut()).await, Poll::Ready(()));
        }
        let later = pin!(connection.wait_until_drain());
        assert_eq!(poll_once(later).await, Poll::Ready(()));
        assert_eq!(connection.next_order().await, Order::Drain);
    }

    #[tokio::test]
    async fn an_order_arrives_however_late_it_is_awaited() {
        let connection = connection();
        connection.drain();
        connection.drain();
        assert!(connection.ends());
        assert_eq!(connection.next_order().await, Order::Drain);
        connection.close(Close::Drained);
        connection.close(Close::Idle);
        assert_eq!(connection.next_order().await, Order::Close);
        assert_eq!(connection.close_reason(), Some(Close::Drained));
    }
}
