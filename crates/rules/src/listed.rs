//! The first of many, as explanations show them.

/// The most candidates, keys or descriptors that each list of a [`Walk`](crate::Walk) has.
pub const SHOWN_MAX: usize = 16;

/// Descriptors in the order of the files, of which the first [`SHOWN_MAX`] are kept. They are
/// chosen when the rules are loaded: a level can have 100 000, too many to sort for a request.
#[derive(Clone, Debug)]
pub(crate) struct Listed<T> {
    first: Vec<T>,
    count: usize,
}

// === impl Listed ===

impl<T: Clone> Listed<T> {
    /// Adds the next one.
    pub(crate) fn add(&mut self, next: &T) {
        self.count += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(next.clone());
        }
    }

    /// The first [`SHOWN_MAX`].
    pub(crate) fn first(&self) -> &[T] {
        &self.first
    }

    /// How many there are beyond them.
    pub(crate) const fn rest(&self) -> usize {
        self.count - self.first.len()
    }
}

impl<T> Default for Listed<T> {
    fn default() -> Listed<T> {
        Listed {
            first: Vec::new(),
            count: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_are_kept_and_the_others_are_counted() {
        let mut listed = Listed::default();
        for number in 1..=100 {
            listed.add(&number);
            assert!(listed.first().iter().copied().eq(1..=number.min(SHOWN_MAX)));
            assert_eq!(listed.rest(), number.saturating_sub(SHOWN_MAX));
        }
        assert!(listed.first.capacity() < 100);
    }
}
