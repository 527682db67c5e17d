//! `CL.THROTTLE`: limits that clients bring along, decided in batches.
//!
//! A key's state is the moment at which it has recovered, whatever the limit, as in redis-cell: a
//! client that changes its limit keeps what it has used. All keys are in a memory of their own, of
//! a fixed size, so that clients who invent keys cannot evict what rules count.

use std::iter::once;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Charge, Clock, Cost, Decision, Key, KeyHasher, Limit, Span, StoreError, Wait};
use tollgate_memory::{Memory, Stats};
use tollgate_resp::{Command, Replies};

use crate::config::{Config, ListenerKind};
use crate::serve_error::ServeError;
use crate::trace::BatchCounts;

/// The most commands that are decided at one reading of the clock.
const BATCH_MAX: usize = 32;
/// The longest period, in seconds: [`tollgate_core::WINDOW_MAX`].
const PERIOD_MAX: u32 = 366 * 24 * 60 * 60;
/// The outcomes that are counted, in this order.
const OUTCOMES: [&str; 4] = ["allowed", "denied", "peeked", "refunded"];
/// The place of those that are denied.
const DENIED: usize = 1;

/// What `CL.THROTTLE` counts.
pub(crate) struct ThrottleStore {
    memory: Memory<Arc<dyn Clock>>,
    outcomes: [AtomicU64; OUTCOMES.len()],
}

/// The commands of one pipeline that wait for their decision.
#[derive(Default)]
pub(super) struct Throttles {
    waiting: Vec<Throttle>,
    /// The limit of the last command, which is likely that of the next.
    latest: Option<(Terms, Limit)>,
}

struct Throttle {
    key: Key,
    limit: Limit,
    cost: Cost,
}

/// A limit as a client writes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    max_burst: i64,
    count: i64,
    period: i64,
}

// === impl ThrottleStore ===

impl ThrottleStore {
    /// The store of the listener `redis`, if the settings have one.
    ///
    /// # Errors
    ///
    /// [`ServeError::Memory`].
    pub(crate) fn open(
        config: &Config,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Arc<ThrottleStore>>, ServeError> {
        let mut kinds = config.listen.iter().map(|listen| listen.kind);
        if !kinds.any(|kind| kind == ListenerKind::Redis) {
            return Ok(None);
        }
        let builder = Memory::builder().clock(Arc::clone(clock));
        let builder = builder.max_keys(config.redis_protocol.throttle_keys);
        let memory = builder.try_build().map_err(|bytes| ServeError::Memory {
            setting: "redis_protocol.throttle_keys",
            bytes,
        })?;
        Ok(Some(Arc::new(ThrottleStore {
            memory,
            outcomes: Default::default(),
        })))
    }

    /// How often each outcome occurred.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        // Relaxed: a count publishes nothing else.
        let counts = self.outcomes.iter();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        OUTCOMES.into_iter().zip(counts)
    }

    /// What the memory holds, and what it has evicted.
    pub(crate) fn stats(&self) -> Stats {
        self.memory.stats()
    }
}

// === impl Throttles ===

impl Throttles {
    /// Whether nothing waits for its decision.
    pub(super) const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether no other command fits the batch.
    pub(super) const fn is_full(&self) -> bool {
        self.waiting.len() >= BATCH_MAX
    }

    /// Adds a command to the batch.
    ///
    /// # Errors
    ///
    /// Why it cannot be decided.
    pub(super) fn add(
        &mut self,
        command: &Command<'_>,
        store: &ThrottleStore,
    ) -> Result<(), String> {
        let (terms, limit, cost) = read(command, self.latest)?;
        self.latest = Some((terms, limit));
        let key = command.word(1).unwrap_or_default();
        self.waiting.push(Throttle {
            key: store.memory.key(once(key)),
            limit,
            cost,
        });
        Ok(())
    }

    /// Decides on the batch, and writes the replies. Returns what became of it.
    pub(super) fn decide(
        &mut self,
        store: &ThrottleStore,
        replies: &mut Replies<'_>,
    ) -> BatchCounts {
        let (mut counts, mut errors) = ([0; OUTCOMES.len()], 0);
        store.memory.check_each(
            &self.waiting,
            Throttle::charge,
            |throttle, decided| match decided {
                Ok(decision) => {
                    counts[throttle.outcome(&decision)] += 1;
                    replies.integers(&throttle.numbers(&decision));
                }
                Err(error) => {
                    errors += 1;
                    replies.error(&unavailable(&error));
                }
            },
        );
        self.waiting.clear();
        for (total, count) in store.outcomes.iter().zip(counts) {
            if count > 0 {
                total.fetch_add(count, Ordering::Relaxed);
            }
        }
        BatchCounts {
            asked: counts.iter().sum::<u64>() + errors,
            denied: counts[DENIED],
            errors,
        }
    }
}

/// What a command asks for, but for its key: a limit, which may be that of the last command, and a
/// cost.
///
/// # Errors
///
/// Why it cannot be decided.
#[inline]
pub(super) fn read(
    command: &Command<'_>,
    latest: Option<(Terms, Limit)>,
) -> Result<(Terms, Limit, Cost), String> {
    let terms = Terms {
        max_burst: number(command, 2, "max_burst")?,
        count: number(command, 3, "count")?,
        period: number(command, 4, "period")?,
    };
    let quantity = match command.len() {
        6 => number(command, 5, "quantity")?,
        _ => 1,
    };
    let limit = match latest {
        Some((known, limit)) if known == terms => limit,
        _ => terms.limit()?,
    };
    let cost = match quantity {
        0 => Cost::Peek(1),
        1.. => Cost::Take(quantity.unsigned_abs()),
        _ => Cost::Refund(quantity.unsigned_abs()),
    };
    Ok((terms, limit, cost))
}

/// The error of a store that has no answer.
pub(super) fn unavailable(error: &StoreError) -> String {
    format!("UNAVAILABLE no decision: {}", error.without_address())
}

/// A number in a command.
fn number(command: &Command<'_>, index: usize, name: &str) -> Result<i64, String> {
    let word = command.word(index).unwrap_or_default();
    parse(word).ok_or_else(|| format!("ERR {name} is not an integer or out of range"))
}

/// A decimal number; nearly all are short.
#[inline]
fn parse(word: &[u8]) -> Option<i64> {
    let append = |number: i64, byte: &u8| match byte.wrapping_sub(b'0') {
        digit @ 0..=9 => Some(number * 10 + i64::from(digit)),
        _ => None,
    };
    let short = matches!(word.len(), 1..=9).then_some(word);
    let number = short.and_then(|word| word.iter().try_fold(0, append));
    number.or_else(|| str::from_utf8(word).ok()?.parse().ok())
}

// === impl Terms ===

impl Terms {
    /// The token bucket that these terms describe.
    fn limit(self) -> Result<Limit, String> {
        let Terms {
            max_burst,
            count,
            period,
        } = self;
        if count == 0 || period == 0 {
            return Err("ERR Zero rates are not supported; deny without asking".to_owned());
        }
        let outside =
            |name: &str, most: u32| format!("ERR {name} is negative or larger than {most}");
        let burst = max_burst
            .checked_add(1)
            .and_then(|burst| u32::try_from(burst).ok());
        let burst = burst.filter(|burst| *burst > 0);
        let burst = burst.ok_or_else(|| outside("max_burst", u32::MAX - 1))?;
        let count = u32::try_from(count).map_err(|_| outside("count", u32::MAX))?;
        let period = u32::try_from(period).ok();
        let period = period.filter(|period| *period <= PERIOD_MAX);
        let period = period.ok_or_else(|| outside("period", PERIOD_MAX))?;
        let limit = Limit::token_bucket(count, Span::from_secs(period.into()));
        let limit = limit.and_then(|limit| limit.with_burst(burst));
        limit.map_err(|invalid| format!("ERR {invalid}"))
    }
}

// === impl Throttle ===

impl Throttle {
    const fn charge(&self) -> Charge<'_> {
        Charge::new(self.key, &self.limit, self.cost)
    }

    /// The index of the outcome.
    const fn outcome(&self, decision: &Decision) -> usize {
        match self.cost {
            Cost::Take(_) if decision.is_allowed() => 0,
            Cost::Take(_) => 1,
            Cost::Peek(_) => 2,
            Cost::Refund(_) => 3,
        }
    }

    /// The five integers of the reply.
    #[inline]
    fn numbers(&self, decision: &Decision) -> [i64; 5] {
        let reset = decision.reset();
        let wait = match (self.cost, decision) {
            // Redis-cell judges a cost of nothing, which fits unless a larger limit has counted
            // more than this one allows.
            (Cost::Peek(_), _) => Some(Wait::For(reset.minus(self.limit.refill())))
                .filter(|wait| *wait > Wait::For(Span::ZERO)),
            (_, decision) => decision.wait(),
        };
        [
            i64::from(wait.is_some()),
            i64::from(self.limit.capacity()),
            i64::from(decision.remaining()),
            wait.map_or(-1, seconds_to_wait),
            seconds(reset),
        ]
    }
}

/// Rounded up, at least one; -1 if waiting never helps.
pub(super) fn seconds_to_wait(wait: Wait) -> i64 {
    let secs = wait.as_secs_ceil();
    secs.map_or(-1, |secs| i64::try_from(secs).unwrap_or(i64::MAX))
}

/// Rounded up.
pub(super) fn seconds(span: Span) -> i64 {
    i64::try_from(span.as_secs_ceil()).unwrap_or(i64::MAX)
}
