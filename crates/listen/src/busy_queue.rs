//! The order in which busy connections are served: those that have used up their quantum.
//!
//! The runtime polls tasks in the order in which they were woken. If all busy connections were
//! woken at once, a request that arrives just then would wait for a quantum of each of them, and
//! five hundred clients that send without a pause would delay everyone else by as many quanta. So
//! they wait here, first in, first out, and only a few are woken each time the runtime has polled
//! the tasks that are ready and has looked for events of sockets. A connection that sends a request
//! and waits for its answer is never here, and waits for those few alone.
//!
//! Nothing is lost by it: as long as anything is busy, a processor is idle only while it looks for
//! the next task.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::runtime::Handle;
use tokio::task::yield_now;

/// How many connections have a turn at once, for each thread of the runtime: one that runs, and one
/// that follows without a pause.
const TURNS_PER_THREAD: usize = 2;

/// The connections of the process that wait for a turn.
#[derive(Debug, Default)]
pub(crate) struct BusyQueue {
    /// The last ticket that has had its turn. Written under the lock.
    called: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// At most one for each connection, in the order of their tickets. One that has ended
    /// meanwhile has its turn for nothing.
    tasks: VecDeque<Waker>,
    has_pacer: bool,
}

/// A connection's place in the queue: the number of the turn that it waits for, or has had.
#[derive(Debug, Default)]
pub(crate) struct Ticket(AtomicU64);

// === impl BusyQueue ===

impl BusyQueue {
    /// Wakes the task when it is its turn, unless it waits for that already.
    pub(crate) fn enqueue(self: &Arc<Self>, ticket: &Ticket, task: &Waker) {
        let mut waiting = self.lock();
        let called = self.called.load(Ordering::Relaxed);
        if ticket.0.load(Ordering::Relaxed) > called {
            return;
        }
        waiting.tasks.push_back(task.clone());
        let number = u64::try_from(waiting.tasks.len()).unwrap_or(u64::MAX);
        ticket.0.store(called + number, Ordering::Relaxed);
        if !waiting.has_pacer {
            waiting.has_pacer = true;
            drop(waiting);
            tokio::spawn(pace(Arc::clone(self)));
        }
    }

    /// Whether a connection with this ticket waits for its turn.
    pub(crate) fn is_waiting(&self, ticket: &Ticket) -> bool {
        // Acquire: a task that was woken for its turn sees that it was called.
        ticket.0.load(Ordering::Relaxed) > self.called.load(Ordering::Acquire)
    }

    /// Wakes the next `turns` tasks; whether there were any. Without any, the pacer ends.
    fn call(&self, turns: usize) -> bool {
        let mut waiting = self.lock();
        let count = waiting.tasks.len().min(turns);
        let tasks: Vec<Waker> = waiting.tasks.drain(..count).collect();
        waiting.has_pacer = count > 0;
        let called = u64::try_from(count).unwrap_or(u64::MAX);
        self.called.fetch_add(called, Ordering::Release);
        drop(waiting);
        tasks.into_iter().for_each(Waker::wake);
        count > 0
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pacer: calls the next connections whenever the runtime has polled the tasks that are ready.
async fn pace(queue: Arc<BusyQueue>) {
    let turns = TURNS_PER_THREAD * Handle::current().metrics().num_workers();
    loop {
        // Not a loop of wakes: the runtime looks for events of sockets before it polls this again.
        yield_now().await;
        if !queue.call(turns) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use std::task::Wake;

    /// A task that notes when it is woken.
    struct Noting(usize, Arc<Mutex<Vec<usize>>>);

    impl Wake for Noting {
        fn wake(self: Arc<Noting>) {
            self.1.lock().expect("nothing panics").push(self.0);
        }
    }

    #[tokio::test]
    async fn a_few_are_woken_at_a_time_in_the_order_in_which_they_came() {
        let (queue, woken) = (Arc::<BusyQueue>::default(), Arc::default());
        let tickets: Vec<Ticket> = (0..7).map(|_| Ticket::default()).collect();
        let enqueue = |number: usize| {
            let task = Noting(number, Arc::clone(&woken));
            queue.enqueue(&tickets[number], &Arc::new(task).into());
        };
        // The second time they wait already.
        (0..5).chain(0..5).for_each(enqueue);
        let woken = || woken.lock().expect("nothing panics").clone();
        let waiting = || tickets.iter().filter(|one| queue.is_waiting(one)).count();
        // The pacer is spawned, and lets others go first.
        yield_now().await;
        assert_eq!((woken().len(), waiting()), (0, 5));
        yield_now().await;
        assert_eq!((woken(), waiting()), (vec![0, 1], 3));
        enqueue(5);
        enqueue(0);
        for _ in 0..3 {
            yield_now().await;
        }
        assert_eq!((woken(), waiting()), (vec![0, 1, 2, 3, 4, 5, 0], 0));
        // The pacer has ended; another one is spawned.
        yield_now().await;
        assert!(!queue.lock().has_pacer);
        enqueue(6);
        yield_now().await;
        yield_now().await;
        assert_eq!((woken().last(), waiting()), (Some(&6), 0));
    }
}
