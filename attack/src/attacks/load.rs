//! Load: many well-behaved clients, of whose requests none may fail.

use std::io::{Error, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;

/// Goes on for as long as it is polled; ends with the first error.
pub(crate) type Loading = Pin<Box<dyn Future<Output = Error> + Send>>;

/// How many requests of a load were answered as they must be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answered {
    at_once: Arc<AtomicU64>,
    in_turn: Arc<AtomicU64>,
    recovered: Arc<AtomicU64>,
}

/// Runs `one` as `count` tasks, numbered from 0, until one of them fails.
pub(super) fn load<F>(count: u32, one: impl Fn(u32) -> F + Clone + Send + Sync + 'static) -> Loading
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    Box::pin(async move {
        let mut tasks = JoinSet::new();
        for number in 0..count {
            tasks.spawn(one(number));
        }
        loop {
            match tasks.join_next().await {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => return error,
                Some(Err(panicked)) => return Error::other(panicked),
                None => return Error::other("all clients have ended"),
            }
        }
    })
}

// === impl Answered ===

impl Answered {
    /// Counts so many.
    pub(crate) fn add(&self, requests: u64) {
        self.at_once.fetch_add(requests, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.at_once.load(Ordering::Relaxed)
    }

    /// Counts one that was delayed. Those are not among [`Answered::count`].
    pub(crate) fn add_delayed(&self) {
        self.in_turn.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_delayed(&self) -> u64 {
        self.in_turn.load(Ordering::Relaxed)
    }

    /// Counts one whose last request had an error of the upstream, beside [`Answered::add`].
    pub(crate) fn add_recovered(&self) {
        self.recovered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_recovered(&self) -> u64 {
        self.recovered.load(Ordering::Relaxed)
    }
}
