//! The load generator: one thread that sends requests over many connections and times the replies.
//!
//! A closed loop sends the next requests of a connection when all replies to the former have come.
//! An open loop sends by a schedule that does not wait for anything, and a latency counts from the
//! time at which the request was due: a server that stalls has all requests of that time counted.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::time::{ClockId, clock_gettime};
use tollgate_bench::latency::Histogram;

use crate::connection::Connection;
use crate::protocol::Reply;
use crate::question::{Outcomes, Question};
use crate::scenario::KEYS;
use crate::template::Template;

/// Events that are taken at once.
const EVENTS_MAX: usize = 128;
/// How long no reply may come.
const SILENCE_MAX: Duration = Duration::from_secs(20);
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
const NO_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// A load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'t> {
    pub(crate) address: SocketAddr,
    pub(crate) question: Question,
    pub(crate) template: &'t Template,
    pub(crate) connections: usize,
    pub(crate) pace: Pace,
    pub(crate) order: KeyOrder,
    pub(crate) length: Length,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// So many on each connection, and the next ones after their replies.
    Closed { pipeline: usize },
    /// By a schedule, one decision every so often.
    Open { every: Duration },
}

/// Which keys the requests have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyOrder {
    /// The first one.
    Hot,
    /// One after the other.
    Ascending,
    /// Any of [`KEYS`].
    Random,
}

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Decisions(u64),
    Time(Duration),
}

/// What a load has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// The largest integer that began a reply.
    pub(crate) largest: i64,
    pub(crate) latencies: Histogram,
    pub(crate) took: Duration,
    /// Processor time of the load generator.
    pub(crate) own_time: Duration,
}

/// A load under way.
struct Run<'t> {
    load: Load<'t>,
    began: Instant,
    connections: Vec<Connection>,
    epoll: OwnedFd,
    keys: KeySequence,
    /// Decisions that were asked for.
    sent: u64,
    seen: Seen,
    replies: Vec<Reply>,
}

/// Keys in an order.
struct KeySequence {
    order: KeyOrder,
    state: u64,
}

// === impl Load ===

impl Load<'_> {
    /// Sends all requests, and waits for their replies.
    ///
    /// # Errors
    ///
    /// A reply that is neither allowed nor denied, or a peer that does not answer.
    pub(crate) fn run(self) -> Result<Seen, String> {
        let text = |error: &dyn std::fmt::Display| format!("{}: {error}", self.address);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| text(&error))?;
        let mut connections = Vec::new();
        for number in 0..u64::try_from(self.connections).unwrap_or(u64::MAX) {
            let opened = Connection::open(self.address, self.question);
            let opened = opened.map_err(|error| text(&error))?;
            let data = epoll::EventData::new_u64(number);
            let added = epoll::add(&epoll, &opened.stream, data, epoll::EventFlags::IN);
            added.map_err(|error| text(&error))?;
            connections.push(opened);
        }
        let run = Run {
            load: self,
            began: Instant::now(),
            connections,
            epoll,
            keys: KeySequence::new(self.order),
            sent: 0,
            seen: Seen::default(),
            replies: Vec::new(),
        };
        run.finish().map_err(|error| text(&error))
    }
}

// === impl Run ===

impl Run<'_> {
    /// Sends and receives until all requests have replies.
    fn finish(mut self) -> Result<Seen, String> {
        let own_before = thread_time();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut heard = self.began;
        if let Pace::Closed { pipeline } = self.load.pace {
            for number in 0..self.connections.len() {
                self.send_batch(number, pipeline)?;
            }
        }
        while self.is_sending() || self.connections.iter().any(|one| one.backlog() > 0) {
            self.send_due()?;
            let stalled = self.flush_stalled()?;
            let is_paced = matches!(self.load.pace, Pace::Open { .. });
            let wait = if stalled || is_paced { &NO_WAIT } else { &WAIT };
            events.clear();
            let waited = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(wait));
            waited.map_err(|error| error.to_string())?;
            if !events.is_empty() {
                heard = Instant::now();
            } else if heard.elapsed() > SILENCE_MAX {
                return Err(format!("no reply within {SILENCE_MAX:?}"));
            }
            for event in &events {
                let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
                self.receive(number)?;
            }
        }
        self.seen.took = self.began.elapsed();
        self.seen.own_time = thread_time().saturating_sub(own_before);
        Ok(self.seen)
    }

    /// Whether there are requests to send.
    fn is_sending(&self) -> bool {
        match self.load.length {
            Length::Decisions(decisions) => self.sent < decisions,
            Length::Time(time) => self.began.elapsed() < time,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Sends a pipeline, or what is left to send.
    fn send_batch(&mut self, number: usize, pipeline: usize) -> Result<(), String> {
        let now = self.now();
        for _ in 0..pipeline {
            if let Length::Decisions(decisions) = self.load.length
                && self.sent >= decisions
            {
                break;
            }
            let template = self.load.template;
            self.sent += template.decisions();
            let keys = &mut self.keys;
            self.connections[number].ask(template, &mut || keys.next(), now)?;
        }
        let flushed = self.connections[number].flush();
        flushed.map_err(|error| error.to_string())
    }

    /// Sends what the schedule has until now, each request on the next connection.
    fn send_due(&mut self) -> Result<(), String> {
        let Pace::Open { every } = self.load.pace else {
            return Ok(());
        };
        let every = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
        let now = self.now();
        while self.is_sending() && self.sent.saturating_mul(every) <= now {
            let due = self.sent * every;
            let template = self.load.template;
            let index = self.sent / template.decisions();
            let index = index % u64::try_from(self.connections.len()).unwrap_or(1);
            self.sent += template.decisions();
            let keys = &mut self.keys;
            let connection = &mut self.connections[usize::try_from(index).unwrap_or(0)];
            connection.ask(template, &mut || keys.next(), due)?;
            connection.flush().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Writes what sockets did not take before; whether there is more.
    fn flush_stalled(&mut self) -> Result<bool, String> {
        let mut is_stalled = false;
        let connections = self.connections.iter_mut();
        for connection in connections.filter(|one| one.is_stalled()) {
            connection.flush().map_err(|error| error.to_string())?;
            is_stalled |= connection.is_stalled();
        }
        Ok(is_stalled)
    }

    fn receive(&mut self, number: usize) -> Result<(), String> {
        let (now, seen) = (self.now(), &mut self.seen);
        let connection = &mut self.connections[number];
        connection.receive(&mut self.replies, |reply, due| {
            let Outcomes { allowed, denied } = reply.outcomes;
            seen.allowed += allowed;
            seen.denied += denied;
            seen.largest = seen.largest.max(reply.number);
            seen.latencies.count(now.saturating_sub(due));
        })?;
        match self.load.pace {
            Pace::Closed { pipeline } if connection.backlog() == 0 && self.is_sending() => {
                self.send_batch(number, pipeline)
            }
            _ => Ok(()),
        }
    }
}

fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

// === impl KeySequence ===

impl KeySequence {
    const fn new(order: KeyOrder) -> KeySequence {
        KeySequence {
            order,
            state: 0x9e37_79b9_7f4a_7c15,
        }
    }

    fn next(&mut self) -> u32 {
        let keys = u64::from(KEYS);
        let key = match self.order {
            KeyOrder::Hot => 0,
            KeyOrder::Ascending => {
                self.state += 1;
                self.state % keys
            }
            KeyOrder::Random => {
                // Xorshift of 64 bits, whose upper half chooses.
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
                ((self.state >> 32) * keys) >> 32
            }
        };
        u32::try_from(key).unwrap_or(0)
    }
}

// === impl Seen ===

impl Seen {
    pub(crate) const fn decisions(&self) -> u64 {
        self.allowed + self.denied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn an_ascending_sequence_has_every_key_once() {
        let mut keys = KeySequence::new(KeyOrder::Ascending);
        let all: HashSet<u32> = (0..KEYS).map(|_| keys.next()).collect();
        assert_eq!(all.len(), usize::try_from(KEYS).expect("a small number"));
    }

    #[test]
    fn a_random_sequence_has_most_keys_about_as_often() {
        let mut keys = KeySequence::new(KeyOrder::Random);
        let mut tenths = [0; 10];
        for _ in 0..100_000 {
            let tenth = keys.next() / (KEYS / 10);
            tenths[usize::try_from(tenth).expect("a small number")] += 1;
        }
        assert!(tenths.iter().all(|count| (9_000..11_000).contains(count)));
    }
}
