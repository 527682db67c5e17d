//! How the time of the next event is awaited.

use tokio::task::yield_now;
use tokio::time::{Duration, Instant, advance, sleep_until};

/// How time passes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// By the machine's clock.
    Real,
    /// By Tokio's paused clock, which began to tick then.
    Virtual(Instant),
}

const TICK: Duration = Duration::from_millis(1);
/// How often tasks get their turn when their timers have fired.
const TURNS: u32 = 3;

// === impl Pace ===

impl Pace {
    /// Waits until this moment.
    ///
    /// Timers of a paused clock fire at whole milliseconds, as the clock is moved from one timer to
    /// the next. In between it is moved here, so that a request is decided at its own nanosecond.
    pub(super) async fn until(self, moment: Instant) {
        let Pace::Virtual(begin) = self else {
            return sleep_until(moment).await;
        };
        let passed = moment.saturating_duration_since(begin);
        let tick = moment - passed_since_tick(passed);
        if Instant::now() < tick {
            self.to_tick().await;
            sleep_until(tick).await;
            // What wakes at this millisecond begins in it.
            for _ in 0..TURNS {
                yield_now().await;
            }
        }
        let rest = moment.saturating_duration_since(Instant::now());
        if !rest.is_zero() {
            advance(rest).await;
        }
    }

    /// Waits until timers can fire again.
    pub(super) async fn to_tick(self) {
        if let Pace::Virtual(begin) = self {
            let passed = passed_since_tick(Instant::now().duration_since(begin));
            if !passed.is_zero() {
                advance(TICK - passed).await;
            }
        }
    }
}

/// What of this time is no whole millisecond.
fn passed_since_tick(passed: Duration) -> Duration {
    Duration::from_nanos(u64::from(passed.subsec_nanos() % 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn events_are_at_their_nanosecond_and_timers_at_their_millisecond() {
        let begin = Instant::now();
        let pace = Pace::Virtual(begin);
        let timers = tokio::spawn(async move {
            let mut fired = Vec::new();
            for millis in [1, 2, 4, 9] {
                sleep_until(begin + Duration::from_millis(millis)).await;
                fired.push((Instant::now() - begin).as_nanos());
            }
            fired
        });
        for nanos in [300, 1_700_001, 1_700_002, 8_500_000, 12_000_000, 12_345_678] {
            let moment = begin + Duration::from_nanos(nanos);
            pace.until(moment).await;
            assert_eq!(Instant::now(), moment, "{nanos}");
        }
        let fired = timers.await.expect("it does not panic");
        assert_eq!(fired, [1_000_000, 2_000_000, 4_000_000, 9_000_000]);
    }
}
