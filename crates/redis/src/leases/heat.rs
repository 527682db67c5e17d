//! How often keys without a lease are requested.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Key, Moment, Span};

/// Slots that count requests, 2 MiB of them. A slot counts one key, and another key replaces it.
const SLOTS: usize = 1 << 18;
/// The resolution of the time of a slot's last request.
const TICK: Span = Span::from_millis(250);
/// The number of ticks in which a weight decays by half.
const HALF_LIFE: u64 = 8;
/// The weight of one request.
const ASK: u64 = 16;
/// The weight from which a key is warm: of two requests within a second and a half.
const WARM: u64 = 26;
/// The equilibrium weight of a key with one request a second: every four ticks, in which a
/// quarter of it decays.
const ONCE_A_SECOND: u64 = 4 * ASK;
/// The number of ticks in which a key that had nothing to lease is not leased.
const REST: u64 = 2;

/// For each slot 24 bits of its key, the tick of its last request (24 bits), and the weight of its
/// requests (16 bits).
#[derive(Debug)]
pub(crate) struct Heat {
    /// Allocated with the first request: many stores only have limits that are too small to lease.
    slots: LazyLock<Box<[AtomicU64]>>,
}

// === impl Heat ===

impl Heat {
    pub(crate) fn new() -> Heat {
        Heat {
            slots: LazyLock::new(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect()),
        }
    }

    /// Counts a request; if the key is warm, returns about how many it has in 16 seconds.
    pub(crate) fn record(&self, key: Key, local_now: Moment) -> Option<u64> {
        let (slot, print) = self.slot(key);
        let now = tick(local_now);
        // Relaxed: a request that is counted twice or not at all warms a key slightly sooner or
        // later.
        let snapshot = slot.load(Ordering::Relaxed);
        let (last, weight) = (snapshot >> 16 & 0xFF_FFFF, snapshot & 0xFFFF);
        let passed = now.wrapping_sub(last) & 0xFF_FFFF;
        let weight = match snapshot >> 40 == print {
            // In the future: the key rests.
            true if passed > 0xFF_FFFF - REST => return None,
            true if passed < 8 * HALF_LIFE => decay(weight, passed),
            _ => 0,
        };
        let weight = (weight + ASK).min(0xFFFF);
        slot.store(print << 40 | now << 16 | weight, Ordering::Relaxed);
        (weight >= WARM).then_some(weight * 16 / ONCE_A_SECOND)
    }

    /// Notes that there was nothing to lease: the key rests.
    pub(crate) fn rest(&self, key: Key, local_now: Moment) {
        let (slot, print) = self.slot(key);
        let until = (tick(local_now) + REST) & 0xFF_FFFF;
        slot.store(print << 40 | until << 16, Ordering::Relaxed);
    }

    fn slot(&self, key: Key) -> (&AtomicU64, u64) {
        let bits = |shift: u32, mask: u128| u64::try_from(key.bits() >> shift & mask).unwrap_or(0);
        let index = usize::try_from(bits(8, 0x3_FFFF)).unwrap_or(0);
        (&self.slots[index], bits(40, 0xFF_FFFF))
    }
}

fn tick(local_now: Moment) -> u64 {
    (local_now.as_nanos() / TICK.as_nanos()) & 0xFF_FFFF
}

/// The weight after decay: half of it after each half-life, linear in between.
const fn decay(weight: u64, ticks: u64) -> u64 {
    let weight = weight >> (ticks / HALF_LIFE);
    weight - weight * (ticks % HALF_LIFE) / (2 * HALF_LIFE)
}

const _: () = assert!(SLOTS == 0x3_FFFF + 1, "a slot is chosen by 18 bits");

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
        assert_eq!(heat.record(KEY, at(0)), None);
        assert_eq!(heat.record(KEY, at(2_500)), None);
        assert!(heat.record(KEY, at(3_500)).is_some());
    }

    #[test]
    fn the_weight_tells_the_rate() {
        for (every, expected) in [(100, 160), (500, 32), (1_000, 16)] {
            let heat = Heat::new();
            let mut last = 0;
            for ask in 0..100 {
                last = heat.record(KEY, at(ask * every)).unwrap_or(0);
            }
            let near = expected * 8 / 10..=expected * 13 / 10;
            assert!(near.contains(&last), "{last} of about {expected}");
        }
    }

    #[test]
    fn a_key_that_had_nothing_to_lease_rests() {
        let heat = Heat::new();
        heat.record(KEY, at(0));
        assert!(heat.record(KEY, at(1)).is_some());
        heat.rest(KEY, at(1));
        assert_eq!(heat.record(KEY, at(2)), None);
        assert_eq!(heat.record(KEY, at(260)), None);
        assert_eq!(heat.record(KEY, at(600)), None);
        assert!(heat.record(KEY, at(601)).is_some());
    }
}
