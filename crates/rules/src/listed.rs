//! The first descriptors of a level, as explanations show them.

use std::sync::Arc;

use crate::domain::RuleDescriptor;
use crate::walk::SHOWN_MAX;

/// Descriptors in the order of the files, of which the first [`SHOWN_MAX`] are kept. They are
/// chosen when the rules are loaded: a level can have 100 000, too many to sort for a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    first: Vec<Arc<RuleDescriptor>>,
    count: usize,
}

// === impl Listed ===

impl Listed {
    /// Adds the next one.
    pub(crate) fn add(&mut self, written: &Arc<RuleDescriptor>) {
        self.count += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(Arc::clone(written));
        }
    }

    /// The first [`SHOWN_MAX`].
    pub(crate) fn first(&self) -> &[Arc<RuleDescriptor>] {
        &self.first
    }

    /// How many there are beyond them.
    pub(crate) const fn omitted(&self) -> usize {
        self.count - self.first.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_are_kept_and_the_others_are_counted() {
        let mut listed = Listed::default();
        for (count, line) in (1..=100).enumerate() {
            listed.add(&Arc::new(RuleDescriptor {
                key: "k".into(),
                value: None,
                file: "rules.yaml".into(),
                line,
            }));
            let lines = listed.first().iter().map(|written| written.line);
            assert!(lines.eq(1..=line.min(16)));
            assert_eq!(listed.omitted(), (count + 1).saturating_sub(SHOWN_MAX));
        }
        assert!(listed.first.capacity() < 100);
    }
}
