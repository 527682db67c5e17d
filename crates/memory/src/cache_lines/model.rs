//! The table's lines under the model checker, whose atomics are more than their bytes.

use std::ops::Deref;

use crate::cache_line::CacheLine;

#[derive(Debug)]
pub(crate) struct CacheLines(Box<[CacheLine]>);

// === impl CacheLines ===

impl CacheLines {
    pub(crate) fn zeroed(count: usize) -> CacheLines {
        CacheLines((0..count).map(|_| CacheLine::default()).collect())
    }
}

impl Deref for CacheLines {
    type Target = [CacheLine];

    fn deref(&self) -> &[CacheLine] {
        &self.0
    }
}
