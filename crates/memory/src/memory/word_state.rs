//! States that fit a slot's word, which read as a moment says when the state expires.

use tollgate_core::{Bucket, FixedWindow, Limit, Moment, Usage};

/// A state that fits one word. Its default is that of a key never seen, and its word is zero.
pub(super) trait WordState: Usage + Default {
    /// The state that `limit` reads in `word`.
    fn decode(limit: &Limit, word: u64) -> Self;

    /// The inverse.
    fn encode(&self) -> u64;
}

/// A state of any kind that fits one word.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnyWordState {
    /// A token or leaky bucket.
    Bucket(Bucket),
    /// A fixed window on the clock.
    FixedWindow(FixedWindow),
}

// === impl AnyWordState ===

impl AnyWordState {
    /// The state that `limit` reads in `word`; `None` if its states do not fit a word.
    #[inline]
    pub(super) fn decode(limit: &Limit, word: u64) -> Option<AnyWordState> {
        if limit.is_bucket() {
            Some(AnyWordState::Bucket(WordState::decode(limit, word)))
        } else if FixedWindow::fits_word(limit) {
            Some(AnyWordState::FixedWindow(WordState::decode(limit, word)))
        } else {
            None
        }
    }

    /// The inverse.
    #[inline]
    pub(super) fn encode(&self) -> u64 {
        match self {
            AnyWordState::Bucket(bucket) => bucket.encode(),
            AnyWordState::FixedWindow(window) => window.encode(),
        }
    }
}

tollgate_core::impl_usage_for_variants!([] AnyWordState { Bucket, FixedWindow });

// === impl WordState ===

impl WordState for Bucket {
    #[inline]
    fn decode(_limit: &Limit, word: u64) -> Bucket {
        Bucket::full_at(Moment::from_nanos(word))
    }

    #[inline]
    fn encode(&self) -> u64 {
        self.word()
    }
}

impl WordState for FixedWindow {
    #[inline]
    fn decode(limit: &Limit, word: u64) -> FixedWindow {
        FixedWindow::from_word(limit, word)
    }

    #[inline]
    fn encode(&self) -> u64 {
        self.word()
    }
}
