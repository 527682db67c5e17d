//! What is known of one connection, shared by its socket, its requests and its listener.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::budget::Budget;
use crate::turn::Turn;

/// Three periods: answers that wait since the present one, the one before, and those of the next.
const PERIODS: usize = 3;

/// What a connection is counted under: an IPv4 address, or an IPv6 /64.
///
/// Whoever has one address of a /64 has all of them. An IPv4 address in an IPv6 one is the former.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(IpAddr);

/// Why a connection was closed by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// Its place was needed, and it was idle.
    Idle,
    /// Too many frames of this type.
    Flood(&'static str),
    /// The peer took nothing of what was written.
    SlowReader,
    /// The peer left no room for its answers.
    UnreadAnswers,
    /// It did not end although it was asked to.
    Drained,
}

/// What a connection is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Finish what is in flight, then end.
    Drain,
    /// End at once.
    Cut,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    peer: SocketAddr,
    /// Whether it is only told about health.
    is_reserved: bool,
    budget: Arc<Budget>,
    turn: Turn,
    opened: Instant,
    /// Milliseconds from `opened` to the last request that was there as a whole.
    asked: AtomicU64,
    /// Bytes of requests that have not come to their end.
    held: AtomicUsize,
    /// Whether every response says that the connection ends.
    ends: AtomicBool,
    order: AtomicU8,
    ordered: Notify,
    close: OnceLock<Close>,
    /// Answers that the peer has left no room for, by the period in which they were written.
    unread: [AtomicU32; PERIODS],
    period: AtomicUsize,
    /// Milliseconds from `opened` to the order to drain, or 0.
    drained: AtomicU64,
}

// === impl Source ===

impl Source {
    pub(crate) fn of(address: IpAddr) -> Source {
        let IpAddr::V6(v6) = address.to_canonical() else {
            return Source(address.to_canonical());
        };
        let [a, b, c, d, ..] = v6.segments();
        Source(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
    }
}

// === impl Connection ===

impl Connection {
    pub(crate) fn new(
        peer: SocketAddr,
        is_reserved: bool,
        turn_bytes: usize,
        budget: Arc<Budget>,
        now: Instant,
    ) -> Connection {
        Connection {
            peer,
            is_reserved,
            budget,
            turn: Turn::new(turn_bytes),
            opened: now,
            asked: AtomicU64::new(0),
            held: AtomicUsize::new(0),
            ends: AtomicBool::new(is_reserved),
            order: AtomicU8::new(0),
            ordered: Notify::new(),
            close: OnceLock::new(),
            unread: [const { AtomicU32::new(0) }; PERIODS],
            period: AtomicUsize::new(1),
            drained: AtomicU64::new(0),
        }
    }

    pub(crate) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn source(&self) -> Source {
        Source::of(self.peer.ip())
    }

    /// Whether it is only told about health.
    pub const fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Its turn.
    pub const fn turn(&self) -> &Turn {
        &self.turn
    }

    /// A request has come as a whole.
    pub fn has_asked(&self, now: Instant) {
        self.asked.store(self.millis(now), Ordering::Relaxed);
    }

    /// How long no request has come.
    pub(crate) fn idle(&self, now: Instant) -> Duration {
        let asked = self.asked.load(Ordering::Relaxed);
        Duration::from_millis(self.millis(now).saturating_sub(asked))
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

    /// Holds bytes of an unfinished request; whether there is room for them.
    pub fn hold(&self, bytes: usize) -> bool {
        self.budget.hold(&self.held, bytes)
    }

    /// Holds them no more.
    pub fn release(&self, bytes: usize) {
        self.budget.release(&self.held, bytes);
    }

    /// Whether responses say that the connection ends.
    pub fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// From now on responses say that the connection ends.
    pub(crate) fn end_with_the_next_answer(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Remembers why the connection is closed, if nothing was said before.
    pub(crate) fn note(&self, close: Close) {
        let _said_before = self.close.set(close);
    }

    /// Why it was closed, if it was by us.
    pub(crate) fn closed(&self) -> Option<Close> {
        self.close.get().copied()
    }

    /// Asks the connection to end; once is enough.
    pub fn drain(&self) {
        self.end_with_the_next_answer();
        let now = self.age_millis().max(1);
        let order = Ordering::Relaxed;
        if self.drained.compare_exchange(0, now, order, order).is_ok() {
            self.order.fetch_max(1, Ordering::Relaxed);
            self.ordered.notify_one();
        }
    }

    /// How long ago it was asked to end.
    pub(crate) fn drained(&self) -> Option<Duration> {
        let drained = match self.drained.load(Ordering::Relaxed) {
            0 => return None,
            drained => drained,
        };
        Some(Duration::from_millis(self.age_millis() - drained))
    }

    /// Ends the connection.
    pub(crate) fn cut(&self, why: Close) {
        self.note(why);
        self.order.store(2, Ordering::Relaxed);
        self.ordered.notify_one();
    }

    /// Waits for the next order.
    pub(crate) async fn ordered(&self) -> Order {
        self.ordered.notified().await;
        match self.order.load(Ordering::Relaxed) {
            2 => Order::Cut,
            _ => Order::Drain,
        }
    }

    /// Part of an answer waits for the peer from now on; returns what to say when it no longer
    /// does.
    pub fn begin_answer(&self) -> usize {
        let period = self.period.load(Ordering::Relaxed) % PERIODS;
        self.unread[period].fetch_add(1, Ordering::Relaxed);
        period
    }

    /// It no longer waits.
    pub fn end_answer(&self, period: usize) {
        self.unread[period].fetch_sub(1, Ordering::Relaxed);
    }

    /// Begins a new period; whether an answer has waited for all of the one that ends.
    pub(crate) fn next_period(&self) -> bool {
        let ended = self.period.fetch_add(1, Ordering::Relaxed);
        self.unread[(ended - 1) % PERIODS].load(Ordering::Relaxed) > 0
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
            Close::Flood(_) => "flood",
            Close::SlowReader => "slow_reader",
            Close::UnreadAnswers => "unread_answers",
            Close::Drained => "not_drained",
        }
    }
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Close::Idle => f.write_str("it was idle and its place was needed"),
            Close::Flood(kind) => write!(f, "it sent too many {kind} frames"),
            Close::SlowReader => f.write_str("it did not read within `write_timeout`"),
            Close::UnreadAnswers => {
                f.write_str("it left no room for its answers within `write_timeout`")
            }
            Close::Drained => f.write_str("it did not end within `drain_timeout`"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::limits::Limits;

    fn connection() -> Connection {
        let budget = Arc::new(Budget::new(&Limits::default()));
        let peer = "[::1]:1".parse().unwrap();
        Connection::new(peer, false, 1000, budget, Instant::now())
    }

    #[test]
    fn a_network_of_one_client_is_one_source() {
        let source = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(source("2001:db8:0:1::1"), source("2001:db8:0:1:ffff::2"));
        assert_ne!(source("2001:db8:0:1::1"), source("2001:db8:0:2::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
        assert_ne!(source("::ffff:10.0.0.1"), source("::ffff:10.0.0.2"));
    }

    #[test]
    fn an_answer_that_waits_for_a_whole_period_is_noticed() {
        let connection = connection();
        let read = connection.begin_answer();
        connection.end_answer(read);
        let unread = connection.begin_answer();
        assert!(!connection.next_period());
        connection.end_answer(connection.begin_answer());
        assert!(connection.next_period());
        connection.end_answer(unread);
        for _ in 0..7 {
            let read = connection.begin_answer();
            assert!(!connection.next_period());
            connection.end_answer(read);
        }
    }

    #[tokio::test]
    async fn an_order_comes_however_late_it_is_waited_for() {
        let connection = connection();
        connection.drain();
        connection.drain();
        assert!(connection.ends());
        assert_eq!(connection.ordered().await, Order::Drain);
        connection.cut(Close::Drained);
        connection.cut(Close::Idle);
        assert_eq!(connection.ordered().await, Order::Cut);
        assert_eq!(connection.closed(), Some(Close::Drained));
    }
}
