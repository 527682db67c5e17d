//! A descriptor that outlives its request.

use tollgate_core::{Cost, Descriptor, Entry, Override};

/// A copy of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedDescriptor {
    /// Keys and values.
    entries: Vec<[Box<[u8]>; 2]>,
    is_unordered: bool,
    cost: Option<Cost>,
    limit: Option<Override>,
}

// === impl OwnedDescriptor ===

impl OwnedDescriptor {
    pub(crate) fn of(descriptor: &Descriptor<'_>) -> OwnedDescriptor {
        OwnedDescriptor::cut(descriptor, usize::MAX, usize::MAX)
    }

    /// The first entries, and of each the first bytes of its key and value.
    pub(crate) fn cut(
        descriptor: &Descriptor<'_>,
        entries_max: usize,
        bytes_max: usize,
    ) -> OwnedDescriptor {
        let cut = |text: &[u8]| Box::from(&text[..text.len().min(bytes_max)]);
        let entries = descriptor.entries.iter().take(entries_max);
        OwnedDescriptor {
            entries: entries
                .map(|entry| [cut(entry.key), cut(entry.value)])
                .collect(),
            is_unordered: descriptor.is_unordered,
            cost: descriptor.cost,
            limit: descriptor.limit,
        }
    }

    /// Whether it has all entries of a descriptor that it was copied from.
    pub(crate) fn is_same(&self, descriptor: &Descriptor<'_>) -> bool {
        let own = self.entries.iter().map(|[key, value]| (&**key, &**value));
        own.eq(descriptor
            .entries
            .iter()
            .map(|entry| (entry.key, entry.value)))
    }

    pub(crate) fn descriptor(&self) -> Descriptor<'_> {
        let entries = self.entries.iter();
        Descriptor {
            entries: entries.map(|[key, value]| Entry { key, value }).collect(),
            is_unordered: self.is_unordered,
            cost: self.cost,
            limit: self.limit,
        }
    }
}
