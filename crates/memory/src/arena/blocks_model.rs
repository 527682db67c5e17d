//! The memory of an arena under the model checker.

use std::ops::Deref;

use super::Block;

#[derive(Debug)]
pub(super) struct Blocks(Box<[Block]>);

// === impl Blocks ===

impl Blocks {
    pub(super) fn zeroed(count: usize) -> Blocks {
        Blocks((0..count).map(|_| Block::default()).collect())
    }
}

impl Deref for Blocks {
    type Target = [Block];

    fn deref(&self) -> &[Block] {
        &self.0
    }
}
