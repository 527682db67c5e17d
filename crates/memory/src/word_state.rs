//! States that fit a slot's word, which read as a moment says when the state expires.

use tollgate_core::{Bucket, FixedWindow, Limit, Moment, SlidingWindow, Timeline, Usage};

/// A state that fits one word.
pub(crate) trait WordState: Usage + Copy {
    /// The state that `limit` reads in `word`. Zero is that of a key never seen.
    fn decode(limit: &Limit, word: u64) -> Self;

    /// The inverse; `None` if the state does not fit after all: a larger limit has counted it.
    fn encode(&self, limit: &Limit) -> Option<u64>;
}

/// A state of one algorithm that fits one word.
pub(crate) trait OwnWordState: WordState {
    /// The clock of all limits with such states.
    const TIMELINE: Timeline;
}

/// A state of any kind that fits one word, of a limit that [`crate::spill::is_too_large`] says no
/// to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnyWordState {
    /// A token or leaky bucket.
    Bucket(Bucket),
    /// A fixed window on the clock.
    FixedWindow(FixedWindow),
    /// A sliding window of one segment.
    SlidingWindow(SlidingWindow<2>),
}

tollgate_core::impl_usage_for_variants!([] AnyWordState {
    Bucket,
    FixedWindow,
    SlidingWindow,
});

// === impl WordState ===

impl WordState for AnyWordState {
    #[inline]
    fn decode(limit: &Limit, word: u64) -> AnyWordState {
        if limit.is_bucket() {
            AnyWordState::Bucket(WordState::decode(limit, word))
        } else if FixedWindow::fits_word(limit) {
            AnyWordState::FixedWindow(WordState::decode(limit, word))
        } else {
            AnyWordState::SlidingWindow(WordState::decode(limit, word))
        }
    }

    #[inline]
    fn encode(&self, limit: &Limit) -> Option<u64> {
        match self {
            AnyWordState::Bucket(bucket) => bucket.encode(limit),
            AnyWordState::FixedWindow(window) => window.encode(limit),
            AnyWordState::SlidingWindow(window) => window.encode(limit),
        }
    }
}

impl WordState for Bucket {
    #[inline]
    fn decode(_limit: &Limit, word: u64) -> Bucket {
        Bucket::full_at(Moment::from_nanos(word))
    }

    #[inline]
    fn encode(&self, _limit: &Limit) -> Option<u64> {
        Some(self.word())
    }
}

impl WordState for FixedWindow {
    #[inline]
    fn decode(limit: &Limit, word: u64) -> FixedWindow {
        FixedWindow::from_word(limit, word)
    }

    #[inline]
    fn encode(&self, _limit: &Limit) -> Option<u64> {
        Some(self.word())
    }
}

impl WordState for SlidingWindow<2> {
    #[inline]
    fn decode(limit: &Limit, word: u64) -> SlidingWindow<2> {
        SlidingWindow::from_word(limit, word)
    }

    #[inline]
    fn encode(&self, limit: &Limit) -> Option<u64> {
        self.word(limit)
    }
}

// === impl OwnWordState ===

impl OwnWordState for Bucket {
    const TIMELINE: Timeline = Timeline::Monotonic;
}

impl OwnWordState for FixedWindow {
    const TIMELINE: Timeline = Timeline::Utc;
}

impl OwnWordState for SlidingWindow<2> {
    const TIMELINE: Timeline = Timeline::Utc;
}
