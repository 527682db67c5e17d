//! Answers leave once every connection that is ready has been read.
//!
//! A write on a connection of the same host wakes a peer that waits, which takes as long as half of
//! what is done for a short request of HTTP. While several connections are ready, writing to each
//! of them before the next one is read wakes a peer that has them all once for each answer; written
//! one after the other, they find it awake. Answers to a pipeline leave in one write. Redis writes
//! at the end of its loop for the same reasons.
//!
//! It costs another poll of the connection, which is more than it saves if requests are as short as
//! those of the Redis protocol, and nothing is saved if no other connection is ready.

use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::task::yield_now;

/// How often the HTTP library asks to write one response before it waits.
const WRITES_OF_ONE: u8 = 2;
/// For so many reads after one for which waiting was of no use, nothing waits.
const READS_AT_ONCE: u8 = 31;

thread_local! {
    /// How often this thread has read something from any connection.
    static READS: Cell<usize> = const { Cell::new(0) };
}

/// Whether what is written waits for other connections, once for each time that something is read.
#[derive(Debug)]
pub(crate) struct Deferral {
    state: State,
    /// Reads until something waits again.
    at_once: u8,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing is deferred.
    Off,
    /// Nothing was read since the last write, or its answer does not wait.
    Quiet,
    /// Something was read in this turn.
    Read(usize),
    /// Something is to be written since this turn.
    Waiting {
        since: usize,
        /// The reads of the thread until then.
        reads: usize,
        /// How often it was to be written.
        writes: u8,
    },
}

// === impl Deferral ===

impl Deferral {
    /// One that defers nothing.
    pub(crate) const fn off() -> Deferral {
        Deferral {
            state: State::Off,
            at_once: 0,
        }
    }

    /// One that defers.
    pub(crate) const fn on() -> Deferral {
        Deferral {
            state: State::Quiet,
            at_once: 0,
        }
    }

    pub(crate) const fn is_on(&self) -> bool {
        !matches!(self.state, State::Off)
    }

    /// Something was read in this turn.
    pub(crate) fn record_read(&mut self, turn: usize) {
        READS.set(READS.get().wrapping_add(1));
        // What waits already does not wait again, however much arrives.
        if let State::Quiet | State::Read(_) = self.state {
            self.state = match self.at_once.checked_sub(1) {
                None => State::Read(turn),
                Some(left) => {
                    self.at_once = left;
                    State::Quiet
                }
            };
        }
    }

    /// Ready if something may be written in this turn; otherwise the task is polled again as soon
    /// as those that are ready have been.
    pub(crate) fn poll_write(&mut self, turn: usize, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            State::Off => return Poll::Ready(()),
            State::Read(read) if *read == turn => {
                self.state = State::Waiting {
                    since: turn,
                    reads: READS.get(),
                    writes: 1,
                };
                return pin!(yield_now()).poll(cx);
            }
            State::Waiting { since, writes, .. } if *since == turn => {
                *writes = writes.saturating_add(1);
                return Poll::Pending;
            }
            State::Waiting { reads, writes, .. } => {
                let is_alone = *reads == READS.get() && *writes <= WRITES_OF_ONE;
                self.at_once = if is_alone { READS_AT_ONCE } else { 0 };
            }
            State::Quiet | State::Read(_) => {}
        }
        self.state = State::Quiet;
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Whether something is written in this turn.
    fn writes(deferral: &mut Deferral, turn: usize) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        deferral.poll_write(turn, &mut cx).is_ready()
    }

    #[test]
    fn an_answer_waits_for_one_turn_however_much_is_read() {
        let mut deferral = Deferral::on();
        assert!(writes(&mut deferral, 1));
        deferral.record_read(2);
        // The HTTP library flushes more than once in a turn.
        assert!(!writes(&mut deferral, 2) && !writes(&mut deferral, 2));
        deferral.record_read(3);
        assert!(writes(&mut deferral, 3));
        // What follows has been read before it was written.
        assert!(writes(&mut deferral, 3));
        deferral.record_read(3);
        assert!(!writes(&mut deferral, 3) && writes(&mut deferral, 4));
    }

    #[test]
    fn an_answer_that_took_a_turn_does_not_wait() {
        let mut deferral = Deferral::on();
        deferral.record_read(1);
        assert!(writes(&mut deferral, 2));
        deferral = Deferral::off();
        deferral.record_read(3);
        assert!(writes(&mut deferral, 3));
    }

    #[test]
    fn answers_of_a_connection_that_is_ready_alone_seldom_wait() {
        let mut deferral = Deferral::on();
        let mut waits = |others: usize, answers: usize| {
            let waited = (1..=320).filter(|number| {
                let turn = 2 * number;
                deferral.record_read(turn);
                let has_waited = !writes(&mut deferral, turn);
                for _ in 1..answers * usize::from(WRITES_OF_ONE) {
                    assert_eq!(!writes(&mut deferral, turn), has_waited);
                }
                for _ in 0..others {
                    Deferral::on().record_read(1);
                }
                assert!(writes(&mut deferral, turn + 1));
                has_waited
            });
            waited.count()
        };
        assert_eq!(waits(0, 1), 10);
        // As soon as it is found that others are ready, or that several answers wait.
        assert!(waits(1, 1) >= 320 - usize::from(READS_AT_ONCE));
        assert_eq!(waits(0, 2), 320);
    }
}
