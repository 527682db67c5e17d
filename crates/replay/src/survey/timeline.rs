//! Outcomes over time, in a bounded number of slots of equal length.

use tollgate_core::{Moment, Span};

use crate::decider::Outcome;

/// The most slots of a timeline.
pub const SLOTS_MAX: usize = 240;
/// The lengths of slots that people find easy to read, in milliseconds; beyond the last one, its
/// multiples by powers of two.
const LENGTHS: [u64; 24] = [
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
];

/// Outcomes over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// When the first slot begins: a multiple of the length.
    pub from: Moment,
    /// The length of a slot.
    pub length: Span,
    /// The slots, at most [`SLOTS_MAX`].
    pub slots: Vec<Slot>,
}

/// The requests of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// All requests.
    pub offered: u64,
    /// Those that were denied.
    pub denied: u64,
    /// Those without an answer: only instances that share limits have such.
    pub failed: u64,
}

// === impl Timeline ===

impl Timeline {
    /// Empty slots from the first to the last event.
    pub(crate) fn over(bounds: Option<(Moment, Moment)>) -> Timeline {
        let first = bounds.map_or(0, |(first, _)| first.as_nanos());
        let last = bounds.map_or(0, |(_, last)| last.as_nanos());
        let count = |length: u64| last / length - first / length + 1;
        let most = u64::try_from(SLOTS_MAX).unwrap_or(u64::MAX);
        let mut lengths = LENGTHS.iter().map(|millis| millis * 1_000_000);
        let length = lengths.find(|length| count(*length) <= most);
        let length = length.unwrap_or_else(|| {
            let mut length = LENGTHS[LENGTHS.len() - 1] * 1_000_000;
            // Ten doublings reach the 584 years that a moment can be after 1970.
            while count(length) > most {
                length = length.saturating_mul(2);
            }
            length
        });
        let slots = usize::try_from(count(length)).unwrap_or(SLOTS_MAX);
        Timeline {
            from: Moment::from_nanos(first / length * length),
            length: Span::from_nanos(length),
            slots: vec![Slot::default(); slots],
        }
    }

    /// The slot of a moment within the events.
    pub(crate) fn slot_of(&self, at: Moment) -> usize {
        let since = at.as_nanos().saturating_sub(self.from.as_nanos());
        let slot = usize::try_from(since / self.length.as_nanos()).unwrap_or(usize::MAX);
        slot.min(self.slots.len() - 1)
    }

    /// Counts an event of this slot.
    pub(crate) fn add(&mut self, slot: usize, outcome: &Outcome<'_, '_>) {
        let slot = &mut self.slots[slot];
        slot.offered += 1;
        slot.denied += u64::from(outcome.verdict.denial.is_some());
        slot.failed += u64::from(outcome.has_failed);
    }

    /// When a slot begins.
    pub fn start(&self, slot: usize) -> Moment {
        let slot = u64::try_from(slot).unwrap_or(u64::MAX);
        let since = slot.saturating_mul(self.length.as_nanos());
        Moment::from_nanos(self.from.as_nanos().saturating_add(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(moments: &[u64]) -> Timeline {
        let ends = moments.first().zip(moments.last());
        Timeline::over(
            ends.map(|(first, last)| (Moment::from_nanos(*first), Moment::from_nanos(*last))),
        )
    }

    #[test]
    fn any_length_of_time_fits_and_slots_begin_at_multiples() {
        const SECOND: u64 = 1_000_000_000;
        for (moments, length, slots) in [
            (&[][..], 10_000_000, 1),
            (&[7 * SECOND], 10_000_000, 1),
            (&[0, 239 * SECOND], SECOND, 240),
            (&[0, 240 * SECOND], 2 * SECOND, 121),
            (&[u64::MAX - 1, u64::MAX], 10_000_000, 1),
        ] {
            let timeline = over(moments);
            assert_eq!(timeline.length.as_nanos(), length, "{moments:?}");
            assert_eq!(timeline.slots.len(), slots, "{moments:?}");
        }
        let longest = over(&[0, u64::MAX]);
        assert!(longest.slots.len() <= SLOTS_MAX);
        assert_eq!(
            longest.slot_of(Moment::from_nanos(u64::MAX)),
            longest.slots.len() - 1
        );
        let aligned = over(&[1_500_000_000, 200 * SECOND]);
        assert_eq!(aligned.from.as_nanos() % aligned.length.as_nanos(), 0);
        assert_eq!(aligned.start(2).as_nanos(), 3 * SECOND);
    }
}
