//! Waiting for several limits at once.

use std::time::Duration;

use tollgate_core::{Clock, Cost, Moment};

use super::{Ask, JointDecision, check_all};
use crate::limiter::{Limiter, NotReady};

/// How long a waiting request sleeps at most before it asks again: so long after a refund, or a
/// change of a limit, may it take to notice.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// A request that all limits allowed, held until its turn in a leaky bucket. If dropped before, it
/// refunds its units.
struct Held<'a, 'l, C: Clock> {
    asks: &'a [Ask<'l, Limiter<C>>],
    has_gone: bool,
}

/// Consumes the units of `asks` as soon as all limits allow it, on tokio's timer.
///
/// All or nothing, as [`check_all`]: while one limit denies the request, none is charged. There is
/// no order of arrival here: of two waiting requests either may come first, and one for many units
/// can be overtaken again and again by others for few. A refund or another limit lets it ask again
/// within a second. Dropping the future costs nothing; in a leaky bucket, the turn of a request
/// that is dropped while it is held goes to the next that arrives, so two may leave together.
///
/// # Errors
///
/// [`NotReady`] if waiting would not help.
///
/// # Panics
///
/// Outside a tokio runtime with its timer enabled.
///
/// # Example
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tollgate::NotReady> {
/// use tollgate::{Limit, Limiter, TokioClock, until_all_ready};
///
/// let second = Limiter::builder(Limit::per_second(5)).clock(TokioClock::new()).build();
/// let minute = second.sibling("minute", Limit::per_minute(20));
/// for _page in 0..30 {
///     until_all_ready(&[second.ask("crawler"), minute.ask("crawler")]).await?;
///     // fetch
/// }
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "async")]
pub async fn until_all_ready<C: Clock>(
    asks: &[Ask<'_, Limiter<C>>],
) -> Result<JointDecision, NotReady> {
    until_all_ready_with(asks, tokio::time::sleep).await
}

/// As `until_all_ready`, on any timer: `sleep` returns a future that is ready after a span on the
/// limiters' clock.
///
/// # Errors
///
/// [`NotReady`] if waiting would not help.
pub async fn until_all_ready_with<C: Clock, S: Future>(
    asks: &[Ask<'_, Limiter<C>>],
    sleep: impl Fn(Duration) -> S,
) -> Result<JointDecision, NotReady> {
    loop {
        let decision = check_all(asks)?;
        if decision.is_allowed() {
            hold(asks, decision.delay(), &sleep).await;
            return Ok(decision);
        }
        let wait = decision.retry_after().ok_or(NotReady::NeverFits)?;
        sleep(wait.min(ASK_EVERY)).await;
    }
}

/// Holds an allowed request until its turn by the limiters' clock, because a timer may fire early.
async fn hold<C: Clock, S: Future>(
    asks: &[Ask<'_, Limiter<C>>],
    delay: Duration,
    sleep: &impl Fn(Duration) -> S,
) {
    let Some(clock) = asks.first().map(|ask| ask.limiter().clock()) else {
        return;
    };
    let now = || -> Moment { clock.now().monotonic };
    let mut held = Held {
        asks,
        has_gone: false,
    };
    let due = now() + delay.into();
    loop {
        let wait = due.since(now());
        if wait.is_zero() {
            break;
        }
        sleep(wait.into()).await;
    }
    held.has_gone = true;
}

// === impl Held ===

impl<C: Clock> Drop for Held<'_, '_, C> {
    fn drop(&mut self) {
        if self.has_gone {
            return;
        }
        for ask in self.asks {
            if let Cost::Take(units) = ask.cost() {
                ask.limiter().refund_key(ask.key(), units);
            }
        }
    }
}
