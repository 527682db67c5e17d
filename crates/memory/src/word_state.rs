//! States that fit a slot's word, which read as a moment says when the state expires.

use tollgate_core::{Bucket, FixedWindow, Limit, Moment, SlidingWindow, Timeline, Usage};

/// What the states are of those limits whose states fit a word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WordKind {
    /// A token or leaky bucket.
    Bucket,
    /// A fixed window on the clock.
    FixedWindow,
    /// A sliding window of one segment.
    SlidingWindow,
}

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

/// A state of a limit that has a [`WordKind`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnyWordState {
    Bucket(Bucket),
    FixedWindow(FixedWindow),
    SlidingWindow(SlidingWindow<2>),
}

tollgate_core::impl_usage_for_variants!([] AnyWordState {
    Bucket,
    FixedWindow,
    SlidingWindow,
});

// === impl WordKind ===

impl WordKind {
    /// `None` if states of `limit` do not fit a word. Those of a fixed window on the clock, or of a
    /// sliding window of one segment, may still be in a word then, and in the arena otherwise:
    /// limits of another N may have counted on the same key.
    #[inline(always)]
    pub(crate) fn of(limit: &Limit) -> Option<WordKind> {
        if limit.is_bucket() {
            Some(WordKind::Bucket)
        } else if FixedWindow::fits_word(limit) {
            Some(WordKind::FixedWindow)
        } else if SlidingWindow::fits_word(limit) {
            Some(WordKind::SlidingWindow)
        } else {
            None
        }
    }
}

// === impl WordState ===

impl WordState for AnyWordState {
    #[inline]
    fn decode(limit: &Limit, word: u64) -> AnyWordState {
        match WordKind::of(limit) {
            Some(WordKind::Bucket) => AnyWordState::Bucket(WordState::decode(limit, word)),
            Some(WordKind::FixedWindow) => {
                AnyWordState::FixedWindow(WordState::decode(limit, word))
            }
            // A limit without a kind has no such states, and is never passed.
            Some(WordKind::SlidingWindow) | None => {
                AnyWordState::SlidingWindow(WordState::decode(limit, word))
            }
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
