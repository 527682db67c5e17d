//! Waiting for several limits at once.

use std::time::Duration;

use tollgate_core::{Algorithm, Clock, Moment};

use super::reservation::{JointReservation, NotReserved, reserve_all};
use super::{Ask, JointDecision, check_all};
use crate::limiter::{Limiter, NotReady};

/// How long a waiting request sleeps at most before it asks again: so long after a refund, or a
/// change of a limit, may it take to notice.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// What became of a request.
enum Taken<'l, C: Clock> {
    Allowed(JointDecision),
    /// It is allowed, at its turn.
    Reserved(JointReservation<'l, C>),
    Denied(JointDecision),
}

/// Consumes the units of `asks` as soon as all limits allow it, on tokio's timer.
///
/// All or nothing, as [`check_all`]: while one limit denies the request, none is charged. For 0
/// units of a limit, it waits until one fits, and consumes nothing of it.
///
/// There is no order of arrival here: of two waiting requests either may come first, and one for
/// many units can be overtaken again and again by others for few. A refund or another limit lets it
/// ask again within a second. Dropping the future refunds what was charged and still counts, as a
/// [`Reservation`](crate::Reservation) does; in a leaky bucket, the turn of a request that is
/// dropped while it is held goes to the next that arrives, so two may leave together. The decision
/// that is returned has no delay left.
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
    // A charge for each time that it asks might keep it waiting for ever.
    let asks: Vec<_> = asks.iter().map(Ask::without_charge_for_denial).collect();
    let asks = asks.as_slice();
    loop {
        let decision = match take(asks)? {
            Taken::Allowed(decision) => {
                // Of a limit that has just become a leaky bucket.
                hold_asks(asks, decision.delay(), &sleep).await;
                return Ok(decision.clear_delay());
            }
            Taken::Reserved(reservation) => {
                hold_asks(asks, reservation.decision().delay(), &sleep).await;
                return Ok(reservation.keep().clear_delay());
            }
            Taken::Denied(decision) => decision,
        };
        let wait = decision.retry_after().ok_or(NotReady::NeverFits)?;
        sleep(wait.min(ASK_EVERY)).await;
    }
}

/// Consumes the units of `asks` if all limits allow it. If one of them may delay the request, they
/// are reserved, so that a request that is dropped before its turn refunds what still counts, and
/// nothing that others have consumed.
fn take<'l, C: Clock>(asks: &[Ask<'l, Limiter<C>>]) -> Result<Taken<'l, C>, NotReady> {
    let delays =
        |ask: &Ask<'_, Limiter<C>>| ask.limiter().limit().algorithm() == Algorithm::LeakyBucket;
    if !asks.iter().any(delays) {
        let decision = check_all(asks)?;
        return Ok(match decision.is_allowed() {
            true => Taken::Allowed(decision),
            false => Taken::Denied(decision),
        });
    }
    match reserve_all(asks) {
        Ok(reservation) => Ok(Taken::Reserved(reservation)),
        Err(NotReserved::Denied(denial)) => Ok(Taken::Denied(denial.into_decision())),
        Err(NotReserved::Failed(error)) => Err(error.into()),
    }
}

/// [`hold`] by the clock of these limits.
async fn hold_asks<C: Clock, S: Future>(
    asks: &[Ask<'_, Limiter<C>>],
    delay: Duration,
    sleep: &impl Fn(Duration) -> S,
) {
    if let Some(first) = asks.first() {
        hold(first.limiter().clock(), delay, sleep).await;
    }
}

/// Waits until the turn of an allowed request by the limiters' clock, because a timer may fire
/// early.
pub(crate) async fn hold<C: Clock, S: Future>(
    clock: &C,
    delay: Duration,
    sleep: &impl Fn(Duration) -> S,
) {
    let now = || -> Moment { clock.now().monotonic };
    let due = now() + delay.into();
    loop {
        let wait = due.since(now());
        if wait.is_zero() {
            return;
        }
        sleep(wait.into()).await;
    }
}
