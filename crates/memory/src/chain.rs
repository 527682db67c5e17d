//! A double-ended queue of bytes in blocks of the arena.
//!
//! The blocks form an XOR linked list: the link of each is the previous block's number XOR the next
//! one's. A walk comes from a neighbour, so it knows one of the two.

use crate::arena::{Arena, BlockId, PAYLOAD};

/// Blocks that a decision has reserved, returned to the arena when dropped.
#[derive(Debug)]
pub(crate) struct Spares<'a> {
    arena: &'a Arena,
    first: Option<BlockId>,
    count: usize,
}

/// A position between two bytes. A front is never at the end of its block, nor a back at the
/// beginning of its own, unless the chain is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// The number of the block, 0 in an empty chain.
    pub(crate) block: u32,
    /// Bytes before this position in its block.
    pub(crate) at: usize,
}

/// A queue of bytes.
#[derive(Debug)]
pub(crate) struct Chain<'a> {
    pub(crate) spares: Spares<'a>,
    pub(crate) front: End,
    pub(crate) back: End,
}

/// A walk over the bytes of a chain, in either direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    place: End,
    /// The block from which the walk came into its current one.
    behind: u32,
}

// === impl Spares ===

impl<'a> Spares<'a> {
    pub(crate) const fn new(arena: &'a Arena) -> Spares<'a> {
        Spares {
            arena,
            first: None,
            count: 0,
        }
    }

    /// Takes blocks from the arena until there are `count`; `false` if it has no more.
    pub(crate) fn reserve(&mut self, count: usize) -> bool {
        while self.count < count {
            let Some(block) = self.arena.take() else {
                return false;
            };
            self.give(block);
        }
        true
    }

    /// Adds a block to the reserve.
    pub(crate) fn give(&mut self, block: BlockId) {
        self.arena
            .set_link(block, self.first.map_or(0, BlockId::number));
        self.first = Some(block);
        self.count += 1;
    }

    /// Takes one of the blocks that were reserved before the decision began.
    pub(crate) fn take(&mut self) -> BlockId {
        let block = self
            .first
            .expect("every state's blocks are reserved before it is changed");
        self.first = BlockId::new(self.arena.link(block));
        self.count -= 1;
        block
    }

    /// How many blocks are reserved.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    pub(crate) const fn arena(&self) -> &'a Arena {
        self.arena
    }
}

impl Drop for Spares<'_> {
    fn drop(&mut self) {
        while self.count > 0 {
            let block = self.take();
            self.arena.give(block);
        }
    }
}

// === impl Chain ===

impl<'a> Chain<'a> {
    pub(crate) const fn new(spares: Spares<'a>) -> Chain<'a> {
        let end = End { block: 0, at: 0 };
        Chain {
            spares,
            front: end,
            back: end,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.front == self.back
    }

    /// Whether there are more than `count` blocks; visits no more than that.
    pub(crate) fn is_longer_than(&self, count: usize) -> bool {
        let mut walk = self.walk_forward();
        for _ in 0..count {
            if walk.place.block == self.back.block {
                return false;
            }
            self.step(&mut walk, 0);
        }
        true
    }

    /// Appends one byte, in a reserved block if the last one is full.
    pub(crate) fn push(&mut self, byte: u8) {
        let arena = self.spares.arena();
        if self.back.block == 0 || self.back.at == PAYLOAD {
            let block = self.spares.take();
            let last = self.back.block;
            arena.set_link(block, last);
            match BlockId::new(last) {
                Some(last) => arena.set_link(last, arena.link(last) ^ block.number()),
                None => {
                    self.front = End {
                        block: block.number(),
                        at: 0,
                    }
                }
            }
            self.back = End {
                block: block.number(),
                at: 0,
            };
        }
        if let Some(block) = BlockId::new(self.back.block) {
            arena.write_u8(block, self.back.at, byte);
        }
        self.back.at += 1;
    }

    /// A walk that begins at the oldest byte.
    pub(crate) const fn walk_forward(&self) -> Walk {
        Walk {
            place: self.front,
            behind: 0,
        }
    }

    /// A walk that begins at the newest byte.
    pub(crate) const fn walk_backward(&self) -> Walk {
        Walk {
            place: self.back,
            behind: 0,
        }
    }

    /// The byte after the walk's position.
    pub(crate) fn next(&self, walk: &mut Walk) -> Option<u8> {
        if walk.place == self.back {
            return None;
        }
        if walk.place.at == PAYLOAD {
            self.step(walk, 0);
        }
        let block = BlockId::new(walk.place.block)?;
        let byte = self.spares.arena().read_u8(block, walk.place.at);
        walk.place.at += 1;
        Some(byte)
    }

    /// The byte before the walk's position.
    pub(crate) fn previous(&self, walk: &mut Walk) -> Option<u8> {
        if walk.place == self.front {
            return None;
        }
        if walk.place.at == 0 {
            self.step(walk, PAYLOAD);
        }
        let block = BlockId::new(walk.place.block)?;
        walk.place.at -= 1;
        Some(self.spares.arena().read_u8(block, walk.place.at))
    }

    fn step(&self, walk: &mut Walk, at: usize) {
        if let Some(block) = BlockId::new(walk.place.block) {
            let ahead = self.spares.arena().link(block) ^ walk.behind;
            *walk = Walk {
                place: End { block: ahead, at },
                behind: block.number(),
            };
        }
    }

    /// Removes all bytes before the walk's position.
    pub(crate) fn cut_front(&mut self, walk: Walk) {
        while self.front.block != walk.place.block {
            self.front.block = self.drop_end(self.front.block);
        }
        self.front = walk.place;
        if self.front.at == PAYLOAD && self.front.block != self.back.block {
            self.front = End {
                block: self.drop_end(self.front.block),
                at: 0,
            };
        }
        self.free_if_empty();
    }

    /// Forgets all bytes after the walk's place.
    pub(crate) fn cut_back(&mut self, walk: Walk) {
        while self.back.block != walk.place.block {
            self.back.block = self.drop_end(self.back.block);
        }
        self.back = walk.place;
        if self.back.at == 0 && self.back.block != self.front.block {
            self.back = End {
                block: self.drop_end(self.back.block),
                at: PAYLOAD,
            };
        }
        self.free_if_empty();
    }

    /// Frees the block at one end and gives the number of its only neighbour.
    fn drop_end(&mut self, end: u32) -> u32 {
        let arena = self.spares.arena();
        let Some(block) = BlockId::new(end) else {
            return 0;
        };
        let neighbour = arena.link(block);
        if let Some(neighbour) = BlockId::new(neighbour) {
            arena.set_link(neighbour, arena.link(neighbour) ^ end);
        }
        self.spares.give(block);
        neighbour
    }

    fn free_if_empty(&mut self) {
        if self.is_empty() && self.front.block != 0 {
            self.drop_end(self.front.block);
            self.front = End::default();
            self.back = End::default();
        }
    }
}

#[cfg(test)]
mod tests;
