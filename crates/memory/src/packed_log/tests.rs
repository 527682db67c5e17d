#![allow(clippy::unwrap_used)]

use tollgate_core::Plain;

use super::*;
use crate::arena::Arena;

/// A packed log and a plain one agree, entry by entry, under every mixture of calls.
#[test]
fn packed_is_plain() {
    let arena = Arena::with_blocks(4_000);
    let mut packed = PackedLog::new(Spares::new(&arena));
    let mut plain = Plain::default();
    let mut now = 1_000u64;
    let mut seed = 3u64;
    for _ in 0..20_000 {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let random = seed >> 20;
        match random % 8 {
            0 => assert_eq!(packed.pop_newest(), plain.pop_newest()),
            1 | 2 => assert_eq!(packed.pop_oldest(), plain.pop_oldest()),
            _ => {
                assert!(packed.reserve());
                now += random % (1 << (random % 43));
                let units = if random & 64 == 0 {
                    1
                } else {
                    u32::try_from(random >> 12).unwrap()
                };
                let entry = LogEntry {
                    at: Moment::from_nanos(now),
                    units,
                };
                packed.push_newest(entry);
                plain.push_newest(entry);
            }
        }
        assert_eq!(packed.units(), plain.units());
        assert_eq!(packed.oldest(), plain.oldest());
        assert_eq!(packed.newest(), plain.newest());
        if random.is_multiple_of(50) {
            assert_eq!(
                packed.iter().collect::<Vec<_>>(),
                plain.iter().collect::<Vec<_>>()
            );
            if let Some(head) = reopened(&mut packed, &arena) {
                packed = PackedLog::open(Spares::new(&arena), head);
            }
        }
    }
    packed.clear();
    packed.close();
    assert_eq!(arena.in_use(), 0);
}

/// After a step back near the origin of a clock, what is older than the origin is at the origin.
#[test]
fn entries_older_than_the_origin_keep_no_distance() {
    let arena = Arena::with_blocks(100);
    let mut packed = PackedLog::new(Spares::new(&arena));
    let mut plain = Plain::default();
    for at in [10, 20, 30, 4_000, 1_000_000] {
        assert!(packed.reserve());
        let entry = LogEntry {
            at: Moment::from_nanos(at),
            units: 3,
        };
        packed.push_newest(entry);
        plain.push_newest(entry);
    }
    for span in [5, 10, 20, 2_000, 10_000_000] {
        let span = Span::from_nanos(span);
        packed.age(span);
        plain.age(span);
        assert_eq!(
            packed.iter().collect::<Vec<_>>(),
            plain.iter().collect::<Vec<_>>(),
            "{span}"
        );
        assert_eq!(packed.newest(), plain.newest());
    }
}

fn reopened<'a>(packed: &mut PackedLog<'a>, arena: &'a Arena) -> Option<BlockId> {
    assert!(packed.reserve());
    std::mem::replace(packed, PackedLog::new(Spares::new(arena))).close()
}
