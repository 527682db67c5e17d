//! What a denied client does.

use tollgate_core::{Span, Wait};

use crate::random::Random;

/// The longest pause of a client that backs off, in first pauses.
const BACKOFF_MAX: u64 = 64;

/// How a denied client tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    pub(crate) pause: Pause,
    /// The first attempt and all retries.
    pub(crate) attempts: u32,
}

/// How long a denied client waits before it tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Always as long.
    Fixed(Span),
    /// A random part of this, which doubles with each retry.
    Backoff(Span),
    /// As long as `Retry-After` says, and a random part of a second longer, because clients that
    /// read the same number of seconds must not come at the same moment.
    RetryAfter,
}

// === impl Retry ===

impl Retry {
    /// The pause after this many attempts, the last of which was denied with this `wait`;
    /// `None` if the client gives up.
    pub(crate) fn pause(self, attempts: u32, wait: Wait, random: &mut Random) -> Option<Span> {
        if attempts >= self.attempts {
            return None;
        }
        match (self.pause, wait) {
            (Pause::Fixed(pause), _) => Some(pause),
            (Pause::Backoff(first), _) => {
                let doublings = attempts.saturating_sub(1).min(BACKOFF_MAX.ilog2());
                let longest = first * (1 << doublings);
                let part = random.below(longest.as_nanos());
                Some(Span::from_nanos(part + 1))
            }
            (Pause::RetryAfter, Wait::For(wait)) => {
                let reported = Span::from_secs(wait.as_secs_ceil());
                let part = random.below(Span::SECOND.as_nanos());
                Some(reported + Span::from_nanos(part))
            }
            (Pause::RetryAfter, Wait::Never) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_within_their_bounds() {
        let mut random = Random::new(1, 1);
        let mut pause = |pause, attempts, wait| {
            let retry = Retry {
                pause,
                attempts: 10,
            };
            retry.pause(attempts, wait, &mut random)
        };
        let wait = Wait::For(Span::from_millis(1_500));
        let fixed = Pause::Fixed(Span::from_millis(100));
        assert_eq!(pause(fixed, 1, wait), Some(Span::from_millis(100)));
        assert_eq!(pause(fixed, 9, Wait::Never), Some(Span::from_millis(100)));
        assert_eq!(pause(fixed, 10, wait), None);
        assert_eq!(pause(Pause::RetryAfter, 1, Wait::Never), None);
        for attempts in 1..10 {
            let whole = pause(Pause::RetryAfter, attempts, wait);
            let whole = whole.expect("it will be allowed");
            assert!((Span::from_secs(2)..Span::from_secs(3)).contains(&whole));
            let backoff = pause(Pause::Backoff(Span::SECOND), attempts, wait);
            let most = Span::SECOND * (1 << (attempts - 1).min(6));
            let backoff = backoff.expect("attempts remain");
            assert!(!backoff.is_zero() && backoff <= most, "{backoff:?}");
        }
    }
}
