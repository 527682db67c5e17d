//! The table's lines under the model checker, whose atomics are more than their bytes.

use std::ops::Deref;

use crate::line::Line;

#[derive(Debug)]
pub(crate) struct Lines(Box<[Line]>);

// === impl Lines ===

impl Lines {
    pub(crate) fn zeroed(count: usize) -> Lines {
        Lines((0..count).map(|_| Line::default()).collect())
    }
}

impl Deref for Lines {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        &self.0
    }
}
