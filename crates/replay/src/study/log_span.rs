//! The time that a log covers.

use tollgate_core::{Moment, Span};

/// The seconds from that of the first moment of a log to that of the last, both included, because
/// the times of most logs are whole seconds. They are counted from the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogSpan {
    from: u64,
    end: u64,
}

/// Which window of this length a moment is in.
pub(super) fn number_of(at: Moment, window: Span) -> u64 {
    at.since(Moment::ZERO).as_nanos() / window.as_nanos()
}

// === impl LogSpan ===

impl LogSpan {
    pub(super) fn of(first_and_last: Option<(Moment, Moment)>) -> LogSpan {
        let second = |at| number_of(at, Span::SECOND);
        let (from, end) =
            first_and_last.map_or((0, 0), |(first, last)| (second(first), second(last) + 1));
        LogSpan { from, end }
    }

    pub(super) fn length(self) -> Span {
        Span::from_secs(self.end - self.from)
    }

    /// Whether a window of this length lies wholly in the log. It begins at a multiple of it.
    pub(super) fn has_whole(self, window: Span) -> bool {
        let length = window.as_nanos() / Span::SECOND.as_nanos();
        self.from.next_multiple_of(length) + length <= self.end
    }
}
