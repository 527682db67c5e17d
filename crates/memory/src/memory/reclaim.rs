//! Memory for states that spill, when the arena has no more.
//!
//! Blocks of keys that are not remembered any more come first; otherwise the cheapest of the next
//! few live keys pays, and is counted as evicted: the one charged once before one that came back,
//! that one before one that was denied, among equals the one that would have been forgotten first.
//! The search goes on where the last one ended, all around the arena, so that all its keys take
//! part. A long log is not forgotten for the sake of a block or two: it loses its oldest entries.

use std::sync::atomic::Ordering;

use tollgate_core::{Clock, Now};

use super::Memory;
use super::hold::Locked;
use crate::line;
use crate::pair::{Pair, Seen};
use crate::wide;

/// Keys with a state in the arena that one search compares.
const COMPARED_MAX: usize = 64;
/// Slots that one search looks at, those included that are locked or have no such state any more.
const LOOKED_MAX: usize = 1 << 12;

impl<C: Clock> Memory<C> {
    /// Frees blocks; says whether there were any to free.
    pub(super) fn reclaim(&self, now: Now) -> bool {
        // Relaxed: a hint, which no decision depends on.
        let start = self.hand.load(Ordering::Relaxed);
        let (mut from, mut has_wrapped) = (start, false);
        let (mut compared, mut has_freed) = (0, false);
        let mut cheapest: Option<(&Pair, Seen)> = None;
        for _ in 0..LOOKED_MAX {
            let Some(number) = self.table.next_spilled(from) else {
                if has_wrapped {
                    break;
                }
                (from, has_wrapped) = (0, true);
                continue;
            };
            if has_wrapped && number >= start {
                break;
            }
            from = number + 1;
            let slot = self.table.slot(number);
            let seen = slot.load();
            if seen.tag.is_locked() {
                continue;
            }
            if !seen.tag.is_wide() {
                self.table.forget_spilled(number);
                continue;
            }
            compared += 1;
            if !line::is_live(seen, now) {
                has_freed |= self.evict(slot, seen, now);
            } else if cheapest
                .is_none_or(|(_, other)| line::standing(seen, now) < line::standing(other, now))
            {
                cheapest = Some((slot, seen));
            }
            if compared == COMPARED_MAX {
                break;
            }
        }
        self.hand.store(from, Ordering::Relaxed);
        has_freed || cheapest.is_some_and(|(slot, seen)| self.shorten_or_evict(slot, seen, now))
    }

    /// Takes some blocks from a live key, or all of them.
    fn shorten_or_evict(&self, slot: &Pair, seen: Seen, now: Now) -> bool {
        let held = Seen {
            tag: seen.tag.locked(),
            ..seen
        };
        if !slot.replace(seen, held) {
            // Somebody is at work on it, who may free blocks as well: worth another search.
            return true;
        }
        let locked = Locked { slot, seen: held };
        if wide::shorten(seen.word, &self.arena) {
            self.table.count_eviction();
            return true;
        }
        // Unlocks it.
        drop(locked);
        self.evict(slot, seen, now)
    }

    fn evict(&self, slot: &Pair, seen: Seen, now: Now) -> bool {
        let is_evicted = slot.replace(seen, Seen::default());
        if is_evicted {
            self.table.lost(seen, now);
            wide::free(seen.word, &self.arena);
        }
        is_evicted
    }
}
