//! States that are larger than a word: where they are, and how they are encoded.
//!
//! The word of such a slot holds the moment at which the state expires, rounded up to 2^30 ns
//! (1.07 s), in its upper 34 bits, and the number of the state's first block below. Read as one
//! number it is a slightly later moment, so it too says when the state has expired.

use tollgate_core::{
    Account, Algorithm, Anchor, Bucket, COUNTERS_MAX, FixedWindow, Limit, Moment, Segments,
    SlidingLog, SlidingWindow, Usage,
};

use crate::arena::{Arena, BLOCK_BYTES, BlockId, PAYLOAD};
use crate::chain::Spares;
use crate::packed_log::PackedLog;
use crate::pair::SlotValue;
use crate::tag::Tag;
use crate::word_state::WordKind;

/// A key's decoded state, while its slot is locked.
pub(crate) type KeyState<'a> = Account<PackedLog<'a>>;

/// Where a state was written, and the word that its slot has for it.
pub(crate) enum Stored {
    /// In the slot: the word is the state, zero that of a key never seen.
    InSlot(u64),
    /// In the arena: the word leads there.
    InArena(u64),
}

const BLOCK_BITS: u32 = 30;
const BLOCK_MASK: u64 = (1 << BLOCK_BITS) - 1;
/// Counters of a sliding window in its first block, after the number of the newest segment.
const FIRST_COUNTERS: usize = (KIND_AT - 8) / 4;
/// The byte of a state's first block that says how to free it without its limit.
const KIND_AT: usize = PAYLOAD - 1;
const KIND_LIST: u8 = 0;
const KIND_LOG: u8 = 1;
/// Counters in every further block.
const MORE_COUNTERS: usize = PAYLOAD / 4;

// === impl Stored ===

impl Stored {
    /// What the slot of this owner has for it.
    #[inline]
    pub(crate) const fn in_slot(self, owner: Tag) -> SlotValue {
        let (tag, word) = match self {
            Stored::InSlot(word) => (owner.without_spill(), word),
            Stored::InArena(word) => (owner.with_spill(), word),
        };
        SlotValue { tag, word }
    }

    /// The state of which `first` is the first block.
    pub(crate) fn in_arena(expires_at: Moment, first: BlockId) -> Stored {
        Stored::InArena(word(expires_at, first))
    }
}

/// The word of a state in the arena.
fn word(expires_at: Moment, block: BlockId) -> u64 {
    let late = expires_at.as_nanos().saturating_add(BLOCK_MASK);
    late & !BLOCK_MASK | u64::from(block.number())
}

/// The first block of the state that a spilled slot's word leads to.
pub(crate) fn block(word: u64) -> Option<BlockId> {
    BlockId::new(u32::try_from(word & BLOCK_MASK).unwrap_or(0))
}

/// The state of a key never seen.
pub(crate) fn fresh<'a>(limit: &Limit, arena: &'a Arena) -> KeyState<'a> {
    Account::fresh_with(limit, || PackedLog::new(Spares::new(arena)))
}

/// Reads a slot's state, in its word or in the arena, made under `limit`. Its blocks become spares,
/// except those of a log, which stay where they are.
///
/// A state of another kind than `limit`'s, or by another clock, was made under an unknown limit and
/// counts as never seen.
pub(crate) fn read<'a>(
    limit: &Limit,
    SlotValue { tag, word }: SlotValue,
    spares: &mut Spares<'a>,
) -> KeyState<'a> {
    let arena = spares.arena();
    let is_by_its_clock = tag.timeline() == limit.timeline();
    let Some(first) = block(word).filter(|_| tag.is_spilled()) else {
        let state = is_by_its_clock.then(|| read_word(limit, word)).flatten();
        return state.unwrap_or_else(|| fresh(limit, arena));
    };
    let is_log = arena.read_u8(first, KIND_AT) == KIND_LOG;
    let is_of_its_kind =
        !limit.is_bucket() && is_log == (limit.algorithm() == Algorithm::SlidingLog);
    if !is_of_its_kind || !is_by_its_clock {
        free(word, arena);
        return fresh(limit, arena);
    }
    match limit.algorithm() {
        Algorithm::SlidingLog => {
            let entries = PackedLog::open(Spares::new(arena), first);
            Account::SlidingLog(SlidingLog { entries })
        }
        Algorithm::SlidingWindow(segments) => {
            Account::SlidingWindow(read_counters(segments, first, spares))
        }
        _ => {
            let end = Moment::from_nanos(arena.read_u64(first, 0));
            let used = arena.read_u32(first, 8);
            give_all(first, spares);
            Account::FixedWindow(FixedWindow::new(end, used))
        }
    }
}

/// Reads the state in a slot's word; `None` if states of this kind are never in a word. A window is
/// read by its length alone: a smaller limit on the same key may have counted it.
fn read_word<'a>(limit: &Limit, word: u64) -> Option<KeyState<'a>> {
    match limit.algorithm() {
        Algorithm::SlidingWindow(Segments::ONE) => {
            let window = SlidingWindow::from_word(limit, word);
            let window = SlidingWindow::new(window.newest(), window.counters(limit));
            Some(Account::SlidingWindow(window))
        }
        Algorithm::FixedWindow(Anchor::Clock) => {
            Some(Account::FixedWindow(FixedWindow::from_word(limit, word)))
        }
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            Some(Account::Bucket(Bucket::full_at(Moment::from_nanos(word))))
        }
        _ => None,
    }
}

/// Reserves all blocks that a decision on `state` under `limit` can need; `false` if the arena has
/// no more. The block that a fixed window was read from is a spare already.
pub(crate) fn reserve(
    state: &mut KeyState<'_>,
    limit: &Limit,
    is_changed: bool,
    spares: &mut Spares<'_>,
) -> bool {
    let fits_word = WordKind::of(limit).is_some();
    match (limit.algorithm(), state) {
        (Algorithm::SlidingLog, Account::SlidingLog(log)) => {
            // A log under another window is rewritten.
            log.entries.reserve() && (!is_changed || spares.reserve(2))
        }
        // The head and the first block of entries.
        (Algorithm::SlidingLog, _) => spares.reserve(2),
        (Algorithm::SlidingWindow(_), Account::SlidingWindow(window))
            if fits_word && of_two_windows(window, limit).stays_in_word(limit) =>
        {
            true
        }
        (Algorithm::SlidingWindow(segments), _) => spares.reserve(blocks_of(segments)),
        (Algorithm::FixedWindow(_), _) if !fits_word => spares.reserve(1),
        _ => true,
    }
}

/// Whether a state that was read for the limit that made it is written back without a further block
/// if it is not charged: where it was, or in fewer blocks.
pub(crate) const fn can_stay(state: &KeyState<'_>) -> bool {
    matches!(state, Account::SlidingLog(_) | Account::FixedWindow(_))
}

/// Reserves the block of a window that is charged by another, larger limit on the same key: its
/// units may not fit a word although those of `limit` do.
pub(crate) fn reserve_for_larger(limit: &Limit, spares: &mut Spares<'_>) -> bool {
    limit.is_bucket() || spares.reserve(1)
}

/// Writes a state to the slot's word if it fits, else to the arena.
pub(crate) fn write(state: KeyState<'_>, limit: &Limit, spares: &mut Spares<'_>) -> Stored {
    match state {
        Account::Bucket(bucket) => Stored::InSlot(bucket.word()),
        Account::FixedWindow(window) => match fixed_window_word(window, limit) {
            Some(word) => Stored::InSlot(word),
            None => Stored::in_arena(window.expires_at(limit), write_window(window, spares)),
        },
        Account::SlidingWindow(window) => match sliding_window_word(&window, limit) {
            Some(word) => Stored::InSlot(word),
            None => {
                let first = write_counters(&window, limit, spares);
                Stored::in_arena(window.expires_at(limit), first)
            }
        },
        Account::SlidingLog(log) => write_log(log, limit, spares.arena()),
    }
}

/// Opens the log in `first`, for a charge that takes no further block; `None` if it needs one, or
/// if something else is in there.
pub(crate) fn open_log(first: BlockId, arena: &Arena) -> Option<SlidingLog<PackedLog<'_>>> {
    let is_log = arena.read_u8(first, KIND_AT) == KIND_LOG;
    (is_log && PackedLog::has_room(arena, first)).then(|| SlidingLog {
        entries: PackedLog::open(Spares::new(arena), first),
    })
}

/// Writes a log's ends to its head, where its entries are already.
pub(crate) fn write_log(log: SlidingLog<PackedLog<'_>>, limit: &Limit, arena: &Arena) -> Stored {
    let expires_at = log.expires_at(limit);
    let Some(head) = log.entries.close() else {
        return Stored::InSlot(0);
    };
    arena.write_u8(head, KIND_AT, KIND_LOG);
    Stored::in_arena(expires_at, head)
}

/// The state as a word, zero if nothing is consumed; `None` if it does not fit one.
fn fixed_window_word(window: FixedWindow, limit: &Limit) -> Option<u64> {
    let is_on_clock = limit.algorithm() == Algorithm::FixedWindow(Anchor::Clock);
    let fits = is_on_clock && u64::from(window.used()) < limit.window().as_nanos();
    (fits || window.used() == 0).then(|| window.word())
}

/// As [`fixed_window_word`].
fn sliding_window_word(window: &SlidingWindow, limit: &Limit) -> Option<u64> {
    if limit.algorithm() == Algorithm::SlidingWindow(Segments::ONE) {
        return of_two_windows(window, limit).word(limit);
    }
    (window.expires_at(limit) == Moment::ZERO).then_some(0)
}

/// The state of a limit with one segment, without counters that it has not.
fn of_two_windows(window: &SlidingWindow, limit: &Limit) -> SlidingWindow<2> {
    SlidingWindow::new(window.newest(), window.counters(limit))
}

/// Writes a fixed window into a block.
fn write_window(window: FixedWindow, spares: &mut Spares<'_>) -> BlockId {
    let arena = spares.arena();
    let block = spares.take();
    arena.write_u64(block, 0, window.end().as_nanos());
    arena.write_u32(block, 8, window.used());
    arena.write_u8(block, KIND_AT, KIND_LIST);
    arena.set_link(block, 0);
    block
}

/// Frees the state that a spilled slot's word leads to.
pub(crate) fn free(slot_word: u64, arena: &Arena) {
    let Some(first) = block(slot_word) else {
        return;
    };
    if arena.read_u8(first, KIND_AT) == KIND_LOG {
        let mut log = PackedLog::open(Spares::new(arena), first);
        log.clear();
    } else {
        give_all(first, &mut Spares::new(arena));
    }
}

/// Frees some blocks of a long log, with its oldest entries; returns whether it was one.
pub(crate) fn shorten(slot_word: u64, arena: &Arena) -> bool {
    let first = block(slot_word).filter(|first| arena.read_u8(*first, KIND_AT) == KIND_LOG);
    first.is_some_and(|first| PackedLog::open(Spares::new(arena), first).shorten())
}

/// The most bytes that a key of `limit` takes beside its slot: 0 if its state fits the slot, else
/// the blocks of a full state. A sliding log is at its largest with even pauses.
///
/// # Example
///
/// ```
/// use tollgate_core::{Limit, Span};
/// use tollgate_memory::spilled_bytes_max;
///
/// assert_eq!(spilled_bytes_max(&Limit::token_bucket(100, Span::MINUTE)?), 0);
/// assert_eq!(spilled_bytes_max(&Limit::sliding_window(100, Span::HOUR, 60)?), 320);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
pub fn spilled_bytes_max(limit: &Limit) -> usize {
    let blocks = match limit.algorithm() {
        _ if WordKind::of(limit).is_some() || limit.capacity() == 0 => 0,
        Algorithm::SlidingLog => PackedLog::blocks_max(limit),
        Algorithm::SlidingWindow(segments) => blocks_of(segments),
        _ => 1,
    };
    blocks.saturating_mul(BLOCK_BYTES)
}

fn blocks_of(segments: Segments) -> usize {
    let more = (usize::from(segments.get()) + 1).saturating_sub(FIRST_COUNTERS);
    1 + more.div_ceil(MORE_COUNTERS)
}

/// Whether the counters of so many segments fit one block.
pub(crate) fn fits_block(segments: Segments) -> bool {
    blocks_of(segments) == 1
}

/// Reads a sliding window whose counters fit one block; `None` if something else is in there.
pub(crate) fn read_block(block: BlockId, arena: &Arena) -> Option<SlidingWindow<FIRST_COUNTERS>> {
    let is_whole = arena.link(block) == 0 && arena.read_u8(block, KIND_AT) == KIND_LIST;
    let counters: [u32; FIRST_COUNTERS] = std::array::from_fn(|n| arena.read_u32(block, 8 + 4 * n));
    is_whole.then(|| SlidingWindow::new(arena.read_u64(block, 0), &counters))
}

/// Writes it back, for a limit that has as many counters.
pub(crate) fn write_block(
    window: &SlidingWindow<FIRST_COUNTERS>,
    limit: &Limit,
    block: BlockId,
    arena: &Arena,
) {
    arena.write_u64(block, 0, window.newest());
    for (number, counter) in window.counters(limit).iter().enumerate() {
        arena.write_u32(block, 8 + 4 * number, *counter);
    }
}

fn read_counters(segments: Segments, first: BlockId, spares: &mut Spares<'_>) -> SlidingWindow {
    let arena = spares.arena();
    let newest = arena.read_u64(first, 0);
    let mut counters = [0; COUNTERS_MAX];
    let count = usize::from(segments.get()) + 1;
    for (place, counter) in Blocks::of(first, arena)
        .places()
        .zip(&mut counters[..count])
    {
        *counter = arena.read_u32(place.0, place.1);
    }
    give_all(first, spares);
    SlidingWindow::new(newest, &counters[..count])
}

/// Writes a sliding window into as many blocks as its counters need; returns the first.
fn write_counters(window: &SlidingWindow, limit: &Limit, spares: &mut Spares<'_>) -> BlockId {
    let arena = spares.arena();
    let counters = window.counters(limit);
    let first = spares.take();
    arena.write_u64(first, 0, window.newest());
    arena.write_u8(first, KIND_AT, KIND_LIST);
    let mut last = first;
    for _ in 0..counters
        .len()
        .saturating_sub(FIRST_COUNTERS)
        .div_ceil(MORE_COUNTERS)
    {
        let next = spares.take();
        arena.set_link(last, next.number());
        last = next;
    }
    arena.set_link(last, 0);
    for (place, counter) in Blocks::of(first, arena).places().zip(counters) {
        arena.write_u32(place.0, place.1, *counter);
    }
    first
}

/// Turns all blocks of a list into spares.
fn give_all(first: BlockId, spares: &mut Spares<'_>) {
    let mut next = Some(first);
    while let Some(block) = next {
        next = BlockId::new(spares.arena().link(block));
        spares.give(block);
    }
}

/// The blocks of a sliding window, in which its counters follow each other.
struct Blocks<'a> {
    arena: &'a Arena,
    block: Option<BlockId>,
    at: usize,
    end: usize,
}

impl<'a> Blocks<'a> {
    const fn of(first: BlockId, arena: &'a Arena) -> Blocks<'a> {
        Blocks {
            arena,
            block: Some(first),
            at: 8,
            end: KIND_AT,
        }
    }

    fn places(&mut self) -> impl Iterator<Item = (BlockId, usize)> {
        std::iter::from_fn(|| {
            if self.at + 4 > self.end {
                self.block = BlockId::new(self.arena.link(self.block?));
                (self.at, self.end) = (0, PAYLOAD);
            }
            let place = (self.block?, self.at);
            self.at += 4;
            Some(place)
        })
    }
}
