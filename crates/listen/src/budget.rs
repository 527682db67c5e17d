//! What all connections of the process may use together.
//!
//! Every connection has a small guaranteed amount, so that well-behaved clients are served while
//! others exhaust the rest. What a connection uses beyond that comes out of a bounded pool.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::busy_queue::BusyQueue;
use crate::idleness::CloseIdle;
use crate::limits::Limits;

/// Bytes of unfinished requests that every connection may have.
pub(crate) const BYTES_GUARANTEED: usize = 16 * 1024;
/// Calls at once that every connection of HTTP/2 may have.
pub(crate) const STREAMS_GUARANTEED: usize = 8;
/// The approximate size of a call that waits for its message.
const STREAM_BYTES: usize = 8 * 1024;
/// The approximate size of an open connection.
const CONNECTION_BYTES: usize = 32 * 1024;
/// A connection gets at most this part of the remaining streams, so that later connections find
/// some.
const STREAMS_PART: usize = 4;

/// The pools.
#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    bytes_per_connection: usize,
    bytes: AtomicUsize,
    streams_max: usize,
    streams_per_connection: usize,
    streams: AtomicUsize,
    /// An estimate of the bytes that connections have freed, ever.
    freed: AtomicUsize,
    /// The connections of every listener: they share the files that the process may open.
    listeners: Mutex<Vec<Weak<dyn CloseIdle>>>,
    ended: Notify,
    /// Processor time is shared as well.
    busy: Arc<BusyQueue>,
}

// === impl Budget ===

impl Budget {
    /// The pools that `limits` allow.
    pub fn new(limits: &Limits) -> Budget {
        let streams = usize::try_from(limits.streams_per_connection).unwrap_or(usize::MAX);
        Budget {
            bytes_max: limits.buffer,
            bytes_per_connection: limits.buffer_per_connection,
            bytes: AtomicUsize::new(0),
            streams_max: limits.streams,
            streams_per_connection: streams,
            streams: AtomicUsize::new(0),
            freed: AtomicUsize::new(0),
            listeners: Mutex::default(),
            ended: Notify::new(),
            busy: Arc::default(),
        }
    }

    /// The connections that wait for processor time.
    pub(crate) const fn busy(&self) -> &Arc<BusyQueue> {
        &self.busy
    }

    /// Bytes in use out of the pool.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Streams that are promised beyond the guaranteed ones.
    pub fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    /// Approximately how many bytes connections have freed so far; wraps around.
    pub fn freed_bytes(&self) -> usize {
        self.freed.load(Ordering::Relaxed)
    }

    /// Adds `bytes` to the reserved ones of a connection; whether there was room.
    pub(crate) fn reserve(&self, reserved: &AtomicUsize, bytes: usize) -> bool {
        let has_room = self.add(reserved, bytes);
        if !has_room {
            // Not `release`: nothing was in use that would now be free.
            self.subtract(reserved, bytes);
        }
        has_room
    }

    /// Releases what [`Budget::reserve`] added.
    pub(crate) fn release(&self, reserved: &AtomicUsize, bytes: usize) {
        let pooled = self.subtract(reserved, bytes);
        if pooled > 0 {
            self.freed.fetch_add(pooled, Ordering::Relaxed);
        }
    }

    /// Adds `bytes` to the reserved ones of a connection, room or not; returns whether there is.
    fn add(&self, reserved: &AtomicUsize, bytes: usize) -> bool {
        // Relaxed everywhere: the counts publish nothing else.
        let before = reserved.fetch_add(bytes, Ordering::Relaxed);
        let after = before + bytes;
        if after <= BYTES_GUARANTEED {
            return true;
        }
        let pooled = beyond(after) - beyond(before);
        let total = self.bytes.fetch_add(pooled, Ordering::Relaxed) + pooled;
        after <= self.bytes_per_connection && total <= self.bytes_max
    }

    /// Subtracts what was added; returns how much of it is beyond what is guaranteed now: other
    /// streams of the connection may have changed its bytes meanwhile.
    fn subtract(&self, reserved: &AtomicUsize, bytes: usize) -> usize {
        let before = reserved.fetch_sub(bytes, Ordering::Relaxed);
        let pooled = beyond(before) - beyond(before - bytes);
        if pooled > 0 {
            self.bytes.fetch_sub(pooled, Ordering::Relaxed);
        }
        pooled
    }

    /// How many calls at once a new connection is promised.
    pub(crate) fn take_streams(&self) -> usize {
        let guaranteed = STREAMS_GUARANTEED.min(self.streams_per_connection);
        let wanted = self.streams_per_connection - guaranteed;
        let mut pooled = 0;
        let update = |taken: usize| {
            let left = self.streams_max.saturating_sub(taken);
            pooled = wanted.min(left / STREAMS_PART);
            Some(taken + pooled)
        };
        let order = Ordering::Relaxed;
        let _always = self.streams.fetch_update(order, order, update);
        guaranteed + pooled
    }

    /// Returns what [`Budget::take_streams`] promised.
    pub(crate) fn return_streams(&self, promised: usize) {
        let guaranteed = STREAMS_GUARANTEED.min(self.streams_per_connection);
        let pooled = promised - guaranteed;
        self.streams.fetch_sub(pooled, Ordering::Relaxed);
        self.freed
            .fetch_add(promised * STREAM_BYTES, Ordering::Relaxed);
    }

    /// A connection has ended, and its socket is closed.
    pub(crate) fn end_connection(&self) {
        self.freed.fetch_add(CONNECTION_BYTES, Ordering::Relaxed);
        self.ended.notify_waiters();
    }

    /// Waits until a connection of any listener has ended after this call.
    pub(crate) fn next_end(&self) -> Notified<'_> {
        self.ended.notified()
    }

    /// Idle connections of this listener may be closed from now on.
    pub(crate) fn add_listener(&self, listener: Weak<dyn CloseIdle>) {
        let mut listeners = self.lock_listeners();
        listeners.retain(|other| other.strong_count() > 0);
        listeners.push(listener);
    }

    /// Closes the connection that loses least of those of all listeners, so that its file is free
    /// soon; whether one was idle.
    pub(crate) fn close_idlest(&self, now: Instant) -> bool {
        let listeners: Vec<_> = self
            .lock_listeners()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let idle = listeners.iter().filter_map(|listener| {
            let idleness = listener.greatest_idleness(now)?;
            Some((idleness, listener))
        });
        let idlest = idle.max_by_key(|(idleness, _)| *idleness);
        idlest.is_some_and(|(_, listener)| listener.close_idlest(now))
    }

    fn lock_listeners(&self) -> MutexGuard<'_, Vec<Weak<dyn CloseIdle>>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a connection's bytes that comes out of the pool.
const fn beyond(reserved: usize) -> usize {
    reserved.saturating_sub(BYTES_GUARANTEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget::new(&Limits {
            buffer: 100_000,
            buffer_per_connection: 80_000,
            streams: 100,
            streams_per_connection: 32,
            ..Limits::default()
        })
    }

    /// While a stream finds no room, another one of the connection releases its bytes: both were
    /// beyond the guaranteed amount then, and neither is in the end.
    #[test]
    fn a_reservation_without_room_leaves_the_sum_as_it_is() {
        let budget = budget();
        let (connection, other) = (AtomicUsize::new(0), AtomicUsize::new(0));
        assert!(budget.reserve(&other, 50_000));
        let sum = budget.bytes();
        assert!(budget.reserve(&connection, 10_000));
        assert!(!budget.add(&connection, 79_000));
        budget.release(&connection, 8_000);
        budget.subtract(&connection, 79_000);
        assert_eq!(budget.bytes(), sum);
    }

    #[test]
    fn a_connection_has_a_guaranteed_amount_and_a_maximum() {
        let budget = budget();
        let [first, second, third] = [const { AtomicUsize::new(0) }; 3];
        assert!(budget.reserve(&first, 80_000));
        assert!(!budget.reserve(&first, 1));
        assert!(!budget.reserve(&second, 60_000));
        assert_eq!(second.load(Ordering::Relaxed), 0);
        for reserved in [&second, &third] {
            assert!(budget.reserve(reserved, BYTES_GUARANTEED));
        }
        budget.release(&first, 80_000);
        assert_eq!(budget.bytes(), 0);
        assert!(budget.reserve(&second, 60_000));
        budget.release(&second, 60_000 + BYTES_GUARANTEED);
        budget.release(&third, BYTES_GUARANTEED);
        assert_eq!(budget.bytes(), 0);
    }

    #[test]
    fn what_has_no_room_frees_nothing() {
        let budget = budget();
        let reserved = AtomicUsize::new(0);
        assert!(budget.reserve(&reserved, 50_000));
        assert!(!budget.reserve(&reserved, 50_000));
        assert_eq!(reserved.load(Ordering::Relaxed), 50_000);
        assert_eq!(budget.bytes(), 50_000 - BYTES_GUARANTEED);
        assert_eq!(budget.freed_bytes(), 0);
        budget.release(&reserved, 50_000);
        assert_eq!(budget.freed_bytes(), 50_000 - BYTES_GUARANTEED);
    }

    #[test]
    fn the_first_connections_do_not_take_all_the_streams() {
        let budget = budget();
        let promised: Vec<usize> = (0..50).map(|_| budget.take_streams()).collect();
        assert_eq!(promised[0], 32);
        assert!(promised.is_sorted_by(|one, next| one >= next));
        assert_eq!(promised[49], STREAMS_GUARANTEED);
        assert!(budget.streams() <= 100);
        for promised in promised {
            budget.return_streams(promised);
        }
        assert_eq!(budget.streams(), 0);
    }
}
