//! How often keys are asked that hold no lease.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Key, Moment, Span};

/// Places in which asks are counted, 2 MiB of them. A place knows one key; another one takes it.
const PLACES: usize = 1 << 18;
/// The grain of time in which a place remembers when its key was asked last.
const TICK: Span = Span::from_millis(250);
/// Ticks in which what a place has counted loses half its weight.
const HALF_LIFE: u64 = 8;
/// The weight of one ask.
const ASK: u64 = 16;
/// The weight from which on a key is warm: of two asks within a second and a half.
const WARM: u64 = 26;
/// The weight of a key that is asked once a second, all the time: every four ticks, which take a
/// quarter of it.
const ONCE_A_SECOND: u64 = 4 * ASK;
/// Ticks in which nothing is leased of a key that had nothing to lease.
const REST: u64 = 2;

/// For each place 24 bits of its key, the tick in which that was asked last (24 bits), and the
/// weight of its asks (16 bits).
#[derive(Debug)]
pub(crate) struct Heat {
    places: Box<[AtomicU64]>,
}

// === impl Heat ===

impl Heat {
    pub(crate) fn new() -> Heat {
        Heat {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Counts an ask; if the key is warm, tells about how often it is asked in 16 seconds.
    pub(crate) fn ask(&self, key: Key, here: Moment) -> Option<u64> {
        let (place, print) = self.place(key);
        let now = tick(here);
        // Relaxed: an ask that is counted twice or not at all warms a key a little sooner or later.
        let snapshot = place.load(Ordering::Relaxed);
        let (last, weight) = (snapshot >> 16 & 0xFF_FFFF, snapshot & 0xFFFF);
        let passed = now.wrapping_sub(last) & 0xFF_FFFF;
        let weight = match snapshot >> 40 == print {
            // In the future: the key rests.
            true if passed > 0xFF_FFFF - REST => return None,
            true if passed < 8 * HALF_LIFE => decay(weight, passed),
            _ => 0,
        };
        let weight = (weight + ASK).min(0xFFFF);
        place.store(print << 40 | now << 16 | weight, Ordering::Relaxed);
        (weight >= WARM).then_some(weight * 16 / ONCE_A_SECOND)
    }

    /// There was nothing to lease, and will not be at once.
    pub(crate) fn rest(&self, key: Key, here: Moment) {
        let (place, print) = self.place(key);
        let until = (tick(here) + REST) & 0xFF_FFFF;
        place.store(print << 40 | until << 16, Ordering::Relaxed);
    }

    fn place(&self, key: Key) -> (&AtomicU64, u64) {
        let bits = |shift: u32, mask: u128| u64::try_from(key.bits() >> shift & mask).unwrap_or(0);
        let index = usize::try_from(bits(8, 0x3_FFFF)).unwrap_or(0);
        (&self.places[index], bits(40, 0xFF_FFFF))
    }
}

fn tick(here: Moment) -> u64 {
    (here.as_nanos() / TICK.as_nanos()) & 0xFF_FFFF
}

/// What is left of a weight: half of it after each half-life, in between along a straight line.
const fn decay(weight: u64, ticks: u64) -> u64 {
    let weight = weight >> (ticks / HALF_LIFE);
    weight - weight * (ticks % HALF_LIFE) / (2 * HALF_LIFE)
}

const _: () = assert!(PLACES == 0x3_FFFF + 1, "a place is chosen by 18 bits");

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key::from_bits(0x1234_5678_9ABC_DEF0_1234_5678_9ABC_DEF0);

    fn at(millis: u64) -> Moment {
        Moment::ZERO + Span::from_secs(1_000) + Span::from_millis(millis)
    }

    #[test]
    fn two_asks_make_a_key_warm_if_they_are_close() {
        let heat = Heat::new();
        assert_eq!(heat.ask(KEY, at(0)), None);
        assert_eq!(heat.ask(KEY, at(2_500)), None);
        assert!(heat.ask(KEY, at(3_500)).is_some());
    }

    #[test]
    fn the_weight_tells_the_rate() {
        for (every, expected) in [(100, 160), (500, 32), (1_000, 16)] {
            let heat = Heat::new();
            let mut last = 0;
            for ask in 0..100 {
                last = heat.ask(KEY, at(ask * every)).unwrap_or(0);
            }
            let near = expected * 8 / 10..=expected * 13 / 10;
            assert!(near.contains(&last), "{last} of about {expected}");
        }
    }

    #[test]
    fn a_key_that_had_nothing_to_lease_rests() {
        let heat = Heat::new();
        heat.ask(KEY, at(0));
        assert!(heat.ask(KEY, at(1)).is_some());
        heat.rest(KEY, at(1));
        assert_eq!(heat.ask(KEY, at(2)), None);
        assert_eq!(heat.ask(KEY, at(260)), None);
        assert_eq!(heat.ask(KEY, at(600)), None);
        assert!(heat.ask(KEY, at(601)).is_some());
    }
}
