//! A congestion window: how many requests may be in flight.
//!
//! A server with more requests than it can answer in time answers none in time: every request waits
//! behind those before it, is decided too late, and its outcome is unknown. Requests that are not
//! sent are known not to be charged, so excess requests should wait here. This is the congestion
//! window of TCP Vegas, counted in requests: a reply that takes longer than the shortest round trip
//! was queued, and the window shrinks if that took more than half of the time left for it. Until
//! then it doubles with each round trip that uses it up.
//!
//! Source: Brakmo, O'Malley, Peterson: TCP Vegas (SIGCOMM 1994); the pause to measure the shortest
//! round trip again is BBR's (Cardwell and others, ACM Queue 14/5, 2016).

use tokio::time::{Duration, Instant};

/// How long a shortest round trip counts, at least; at most twice as long.
const PERIOD: Duration = Duration::from_secs(10);
/// The eighths of the window that remain when replies are late.
const KEPT_EIGHTHS: usize = 7;
/// The window grows by the requests answered early, divided by this: doubling takes eight round
/// trips.
const GROWS_BY: usize = 8;

/// A congestion window.
#[derive(Debug)]
pub(crate) struct Window {
    most: usize,
    bounds: Bounds,
    /// How long a caller waits for a reply.
    reply_timeout: Duration,
    /// The shortest round trips of this period and of the one before.
    shortest: [Option<Duration>; 2],
    period_ends_at: Instant,
    /// Replies to requests sent before this do not shrink the window again.
    shrunk_at: Instant,
    /// Whether it has never shrunk, and doubles with each round trip.
    is_starting: bool,
}

/// The sizes of a window, in requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// However slow the server is.
    pub(crate) least: usize,
    /// Before anything is measured.
    pub(crate) first: usize,
    pub(crate) most: usize,
}

// === impl Window ===

impl Window {
    pub(crate) const fn new(bounds: Bounds, reply_timeout: Duration, now: Instant) -> Window {
        Window {
            most: bounds.first,
            bounds,
            reply_timeout,
            shortest: [None; 2],
            period_ends_at: now,
            shrunk_at: now,
            is_starting: true,
        }
    }

    /// How many more requests may be sent, with this many in flight.
    pub(crate) const fn room(&self, in_flight: usize) -> usize {
        self.most.saturating_sub(in_flight)
    }

    /// Whether it cannot shrink further: late replies are then not due to other requests.
    pub(crate) const fn is_least(&self) -> bool {
        self.most <= self.bounds.least
    }

    /// The shortest recent round trip.
    pub(crate) fn shortest(&self) -> Option<Duration> {
        self.shortest.into_iter().flatten().min()
    }

    /// Notes a reply to `answered` requests that were sent together, of those in flight.
    pub(crate) fn on_reply(
        &mut self,
        sent_at: Instant,
        now: Instant,
        answered: usize,
        in_flight: usize,
    ) {
        let took = now.saturating_duration_since(sent_at);
        self.measure(took, now);
        let shortest = self.shortest().unwrap_or(took);
        let queued = took.saturating_sub(shortest);
        let may_queue = self.reply_timeout.saturating_sub(shortest) / 2;
        if queued > may_queue {
            self.shrink_to(in_flight * KEPT_EIGHTHS / 8, sent_at, now);
        } else if queued <= may_queue / 2 && in_flight >= self.most {
            let more = match self.is_starting {
                true => answered,
                false => answered.div_ceil(GROWS_BY),
            };
            self.most = (self.most + more).min(self.bounds.most);
        }
    }

    /// Notes that a request sent at `sent_at` missed its deadline.
    pub(crate) fn on_loss(&mut self, sent_at: Instant, now: Instant, in_flight: usize) {
        self.shrink_to(in_flight / 2, sent_at, now);
    }

    /// Shrinks once for all requests that were in flight together.
    fn shrink_to(&mut self, most: usize, sent_at: Instant, now: Instant) {
        if sent_at >= self.shrunk_at {
            self.most = most.clamp(self.bounds.least, self.most);
            self.shrunk_at = now;
            self.is_starting = false;
        }
    }

    /// Records the shortest round trip. While the window is always full, every round trip contains
    /// queueing: so in each period the window is narrowed once for the server to catch up.
    fn measure(&mut self, took: Duration, now: Instant) {
        if now >= self.period_ends_at {
            self.period_ends_at = now + PERIOD;
            self.shortest = [None, self.shortest[0]];
            if !self.is_starting {
                self.shrink_to(self.most / 4, now, now);
            }
        }
        let shortest = self.shortest[0].map_or(took, |shortest| shortest.min(took));
        self.shortest[0] = Some(shortest);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Requests waiting at any time.
    const CALLERS: usize = 4_096;
    const BOUNDS: Bounds = Bounds {
        least: 64,
        first: 16_384,
        most: 16_384,
    };
    const TIMEOUT: Duration = Duration::from_millis(12);
    const NEAR: Duration = Duration::from_millis(1);
    const FAR: Duration = Duration::from_millis(9);

    /// A server that decides 64 requests in a millisecond, `distance` away, and gets as many as the
    /// window allows. Returns the window at the end, and the longest round trip of the last second.
    fn overload(distance: Duration, lasts: Duration) -> (usize, Duration) {
        let start = Instant::now();
        let mut window = Window::new(BOUNDS, TIMEOUT, start);
        let mut sent = VecDeque::new();
        let (mut now, mut in_flight, mut longest) = (start, 0, Duration::ZERO);
        while now < start + lasts {
            while in_flight < CALLERS && window.room(in_flight) > 0 {
                let count = window.room(in_flight).min(64);
                sent.push_back((now, count));
                in_flight += count;
            }
            let (sent_at, count) = sent.pop_front().expect("something is on its way");
            let takes = NEAR * u32::try_from(count).expect("at most 64") / 64;
            now = now.max(sent_at + distance) + takes;
            window.on_reply(sent_at, now, count, in_flight);
            in_flight -= count;
            if now + Duration::from_secs(1) > start + lasts {
                longest = longest.max(now - sent_at);
            }
        }
        (window.most, longest)
    }

    #[test]
    fn a_server_that_answers_soon_gets_everything() {
        let start = Instant::now();
        let mut window = Window::new(BOUNDS, TIMEOUT, start);
        for milli in 0..100_000 {
            let now = start + Duration::from_millis(milli);
            window.on_reply(now, now + NEAR, 64, 1_000);
        }
        assert_eq!(window.room(1_000), BOUNDS.most - 1_000);
    }

    /// Of twelve milliseconds, about half may be spent waiting behind others.
    #[test]
    fn an_overloaded_server_answers_what_it_gets_in_time() {
        for seconds in [5, 35] {
            let (most, longest) = overload(NEAR, Duration::from_secs(seconds));
            assert!((3 * 64..=9 * 64).contains(&most), "{most} after {seconds}");
            assert!(longest < TIMEOUT * 3 / 4, "{longest:?} after {seconds}");
        }
    }

    /// A distant server is not taken for an overloaded one.
    #[test]
    fn distance_alone_does_not_shrink_the_window() {
        let start = Instant::now();
        let mut window = Window::new(BOUNDS, TIMEOUT, start);
        for milli in 0..1_000 {
            let now = start + Duration::from_millis(milli);
            window.on_reply(now, now + FAR, 64, 1_000);
        }
        assert_eq!(window.most, BOUNDS.most);
    }

    #[test]
    fn what_was_sent_together_shrinks_it_once_and_never_to_nothing() {
        let start = Instant::now();
        let mut window = Window::new(BOUNDS, TIMEOUT, start);
        for _ in 0..100 {
            window.on_loss(start, start + TIMEOUT, 2_000);
        }
        assert_eq!(window.most, 1_000);
        for times in 1..100 {
            let sent_at = start + TIMEOUT * times;
            window.on_loss(sent_at, sent_at + TIMEOUT, window.most);
        }
        assert_eq!(window.most, BOUNDS.least);
    }
}
