//! A sliding log in blocks of the arena: one to a few bytes for each allowed request.
//!
//! An entry is written as the time since the entry before it, in nanoseconds, shifted left by one
//! bit, in groups of seven bits with the lowest first (LEB128). If it stands for more than one
//! unit, their number comes before it, with the lowest bit set. So the list can be read in both
//! directions. 500 requests in an hour take 5 bytes each: nearly all pauses are below 2^34 ns.

use tollgate_core::{Entries, Limit, LogEntry, Moment, Span};

use crate::arena::{Arena, BlockId, PAYLOAD};
use crate::chain::{Chain, End, Spares, Walk};

/// The most bytes that one entry takes: 56 bits of time and 33 of units.
const ENTRY_BYTES_MAX: usize = 13;
/// Entries that one decision adds at most: a refund that splits one, and a charge.
const PUSHES_MAX: usize = 2;
// So one reserved block is enough for any decision.
const _: () = assert!(PUSHES_MAX * ENTRY_BYTES_MAX <= PAYLOAD);

/// Where the head has how much of the first and of the last block of entries is taken, and the
/// units of the newest entry. The numbers of the blocks and the sums are before.
const FRONT_AT: usize = 32;
const BACK_AT: usize = 33;
const NEWEST_UNITS_AT: usize = 36;

/// A log of more blocks than this loses its oldest entries in place of being evicted.
const LONG: usize = 8;
/// How many blocks it loses at a time.
const SHORTENED_BY: usize = 2;

/// The entries of one key's log.
#[derive(Debug)]
pub(crate) struct PackedLog<'a> {
    chain: Chain<'a>,
    /// The block that stores both ends between decisions; none for a fresh key.
    head: Option<BlockId>,
    oldest: Moment,
    newest: Moment,
    /// The units of the newest entry, which every decision asks for several times; 0 if unknown.
    newest_units: u32,
    units: u64,
}

/// An entry as it is read from the front: its time counts from the entry before.
struct Step {
    since: Span,
    units: u32,
}

// === impl PackedLog ===

impl<'a> PackedLog<'a> {
    /// An empty log.
    pub(crate) const fn new(spares: Spares<'a>) -> PackedLog<'a> {
        PackedLog {
            chain: Chain::new(spares),
            head: None,
            oldest: Moment::ZERO,
            newest: Moment::ZERO,
            newest_units: 0,
            units: 0,
        }
    }

    /// The log whose ends [`PackedLog::close`] has stored in `head`.
    pub(crate) fn open(spares: Spares<'a>, head: BlockId) -> PackedLog<'a> {
        let arena = spares.arena();
        let number = |at| arena.read_u64(head, at);
        let end = |block_at, at| End {
            block: arena.read_u32(head, block_at),
            at: usize::from(arena.read_u8(head, at)),
        };
        let (oldest, newest, units) = (number(0), number(8), number(16));
        let (front, back) = (end(24, FRONT_AT), end(28, BACK_AT));
        // A charge writes there, at the end of the decision.
        if let Some(last) = BlockId::new(back.block) {
            arena.prefetch(last);
        }
        let newest_units = arena.read_u32(head, NEWEST_UNITS_AT);
        let mut chain = Chain::new(spares);
        (chain.front, chain.back) = (front, back);
        PackedLog {
            chain,
            head: Some(head),
            oldest: Moment::from_nanos(oldest),
            newest: Moment::from_nanos(newest),
            newest_units,
            units,
        }
    }

    /// Whether the last block of the log in `head` has room for a charge, so that this takes no
    /// further block.
    pub(crate) fn has_room(arena: &Arena, head: BlockId) -> bool {
        usize::from(arena.read_u8(head, BACK_AT)) + ENTRY_BYTES_MAX <= PAYLOAD
    }

    /// Reserves all blocks that one decision can need; `false` if the arena has no more.
    pub(crate) fn reserve(&mut self) -> bool {
        let head = usize::from(self.head.is_none());
        self.chain.spares.reserve(head + 1)
    }

    /// Stores the ends and returns in which block; an empty log frees all its blocks.
    pub(crate) fn close(mut self) -> Option<BlockId> {
        if self.units == 0 {
            if let Some(head) = self.head.take() {
                self.chain.spares.give(head);
            }
            return None;
        }
        let head = self.head.unwrap_or_else(|| self.chain.spares.take());
        let arena = self.chain.spares.arena();
        arena.write_u64(head, 0, self.oldest.as_nanos());
        arena.write_u64(head, 8, self.newest.as_nanos());
        arena.write_u64(head, 16, self.units);
        let ends = [
            (self.chain.front, 24, FRONT_AT),
            (self.chain.back, 28, BACK_AT),
        ];
        for (end, block_at, at) in ends {
            arena.write_u32(head, block_at, end.block);
            arena.write_u8(head, at, u8::try_from(end.at).unwrap_or(u8::MAX));
        }
        arena.write_u32(head, NEWEST_UNITS_AT, self.newest_units);
        // The slot owns the blocks from here on.
        (self.chain.front, self.chain.back, self.head) = (End::default(), End::default(), None);
        Some(head)
    }

    /// Removes the oldest entries to free blocks, if the log is long; returns whether it is. The
    /// head stays in its block.
    pub(crate) fn shorten(mut self) -> bool {
        let is_long = self.chain.is_longer_than(LONG);
        while is_long && self.chain.spares.count() < SHORTENED_BY {
            self.pop_oldest();
        }
        self.close();
        is_long
    }

    /// The most blocks that the log of a key takes under `limit`, the head included.
    ///
    /// An entry's bytes grow with the logarithm of the pause before it, so a full log takes most
    /// with even pauses.
    pub(crate) fn blocks_max(limit: &Limit) -> usize {
        let entries = u64::from(limit.capacity());
        let pause = limit.window().as_nanos() / entries.max(1);
        let bits = u64::from((pause.saturating_mul(2) | 1).ilog2()) + 1;
        let bytes = entries.saturating_mul(7 + bits).div_ceil(7);
        let blocks = bytes.div_ceil(u64::try_from(PAYLOAD).unwrap_or(u64::MAX));
        // The head, and a first block whose oldest entries were removed.
        usize::try_from(blocks)
            .unwrap_or(usize::MAX)
            .saturating_add(2)
    }

    /// Takes over blocks that were reserved elsewhere.
    pub(crate) fn adopt(&mut self, spares: &mut Spares<'a>) {
        std::mem::swap(&mut self.chain.spares, spares);
    }

    /// Removes every entry and frees every block.
    pub(crate) fn clear(&mut self) {
        self.chain.cut_front(self.chain.walk_backward());
        if let Some(head) = self.head.take() {
            self.chain.spares.give(head);
        }
        (self.units, self.newest_units) = (0, 0);
    }

    fn push_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.chain.push(low_bits(number) | 0x80);
            number >>= 7;
        }
        self.chain.push(low_bits(number));
    }

    fn next_number(&self, walk: &mut Walk) -> Option<u64> {
        let mut number = 0;
        let mut shift = 0;
        loop {
            let byte = self.chain.next(walk)?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
            shift += 7;
        }
    }

    fn previous_number(&self, walk: &mut Walk) -> Option<u64> {
        let mut number = u64::from(self.chain.previous(walk)?);
        loop {
            let mut further = *walk;
            match self.chain.previous(&mut further) {
                Some(byte) if byte & 0x80 != 0 => {
                    number = number << 7 | u64::from(byte & 0x7f);
                    *walk = further;
                }
                _ => return Some(number),
            }
        }
    }

    fn next_step(&self, walk: &mut Walk) -> Option<Step> {
        let number = self.next_number(walk)?;
        if number & 1 == 0 {
            return Some(Step {
                since: Span::from_nanos(number >> 1),
                units: 1,
            });
        }
        let units = u32::try_from(number >> 1).unwrap_or(u32::MAX);
        let since = Span::from_nanos(self.next_number(walk)? >> 1);
        Some(Step { since, units })
    }

    fn previous_step(&self, walk: &mut Walk) -> Option<Step> {
        let since = Span::from_nanos(self.previous_number(walk)? >> 1);
        let mut further = *walk;
        match self.previous_number(&mut further) {
            Some(number) if number & 1 == 1 => {
                *walk = further;
                Some(Step {
                    since,
                    units: u32::try_from(number >> 1).unwrap_or(u32::MAX),
                })
            }
            _ => Some(Step { since, units: 1 }),
        }
    }
}

impl Drop for PackedLog<'_> {
    /// A log that was not closed frees its blocks.
    fn drop(&mut self) {
        self.clear();
    }
}

impl Entries for PackedLog<'_> {
    fn units(&self) -> u64 {
        self.units
    }

    fn oldest(&self) -> Option<LogEntry> {
        let step = self.next_step(&mut self.chain.walk_forward())?;
        Some(LogEntry {
            at: self.oldest,
            units: step.units,
        })
    }

    fn oldest_at(&self) -> Option<Moment> {
        (!self.chain.is_empty()).then_some(self.oldest)
    }

    fn newest(&self) -> Option<LogEntry> {
        if self.newest_units > 0 {
            return Some(LogEntry {
                at: self.newest,
                units: self.newest_units,
            });
        }
        let step = self.previous_step(&mut self.chain.walk_backward())?;
        Some(LogEntry {
            at: self.newest,
            units: step.units,
        })
    }

    fn iter(&self) -> impl Iterator<Item = LogEntry> {
        let mut walk = self.chain.walk_forward();
        let mut at = None;
        std::iter::from_fn(move || {
            let step = self.next_step(&mut walk)?;
            // The oldest entry's own pause counts from an entry that was removed.
            let next = at.map_or(self.oldest, |at: Moment| at + step.since);
            at = Some(next);
            Some(LogEntry {
                at: next,
                units: step.units,
            })
        })
    }

    fn push_newest(&mut self, entry: LogEntry) {
        if self.chain.is_empty() {
            (self.oldest, self.newest) = (entry.at, entry.at);
        }
        if entry.units != 1 {
            self.push_number(u64::from(entry.units) << 1 | 1);
        }
        self.push_number(entry.at.since(self.newest).as_nanos() << 1);
        (self.newest, self.newest_units) = (entry.at, entry.units);
        self.units += u64::from(entry.units);
    }

    fn pop_newest(&mut self) -> Option<LogEntry> {
        let mut walk = self.chain.walk_backward();
        let step = self.previous_step(&mut walk)?;
        let entry = LogEntry {
            at: self.newest,
            units: step.units,
        };
        self.chain.cut_back(walk);
        (self.newest, self.newest_units) = (self.newest - step.since, 0);
        self.units -= u64::from(step.units);
        Some(entry)
    }

    fn pop_oldest(&mut self) -> Option<LogEntry> {
        let mut walk = self.chain.walk_forward();
        let step = self.next_step(&mut walk)?;
        let entry = LogEntry {
            at: self.oldest,
            units: step.units,
        };
        let next = self.next_step(&mut { walk });
        self.chain.cut_front(walk);
        self.oldest = next.map_or(self.newest, |next| self.oldest + next.since);
        if self.chain.is_empty() {
            self.newest_units = 0;
        }
        self.units -= u64::from(step.units);
        Some(entry)
    }

    fn age(&mut self, span: Span) {
        if Moment::ZERO + span <= self.oldest {
            self.oldest = self.oldest - span;
            self.newest = self.newest - span;
            return;
        }
        // Moments before the origin become the origin, so the pauses between them shrink: the
        // entries are rewritten, which takes no more blocks than before. So near to the origin of a
        // clock there are few.
        let entries: Vec<LogEntry> = std::iter::from_fn(|| self.pop_oldest()).collect();
        for entry in entries {
            self.push_newest(LogEntry {
                at: entry.at - span,
                ..entry
            });
        }
    }
}

fn low_bits(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

#[cfg(test)]
mod tests;
