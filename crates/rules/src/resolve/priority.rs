//! The priority of a request: a descriptor that states it, and the limits that ask for it.

use tollgate_core::{Descriptor, Request};

use crate::domain::{Domain, PriorityLimit};

/// The priority that the request states; of several descriptors that do, the first counts.
pub(super) fn of<'r>(request: &'r Request<'_>, domain: &Domain) -> Option<&'r [u8]> {
    let key = domain.priority_key.as_deref()?;
    let mut descriptors = request.descriptors.iter();
    descriptors.find_map(|descriptor| priority_in(descriptor, key))
}

/// The priority that this descriptor states: its only entry, or one of several without an order.
fn priority_in<'r>(descriptor: &'r Descriptor<'_>, key: &[u8]) -> Option<&'r [u8]> {
    let entries = match &descriptor.entries[..] {
        [only] => std::slice::from_ref(only),
        several if descriptor.is_unordered => several,
        _ => return None,
    };
    let entry = entries.iter().find(|entry| entry.key == key)?;
    Some(entry.value)
}

// === impl Domain ===

impl Domain {
    /// Whether this descriptor states the request's priority and nothing else: then it matches no
    /// rule.
    pub(super) fn states_priority(&self, descriptor: &Descriptor<'_>) -> bool {
        match (&self.priority_key, &descriptor.entries[..]) {
            (Some(key), [only]) => only.key == &**key,
            _ => false,
        }
    }
}

// === impl PriorityLimit ===

impl PriorityLimit {
    /// Whether a request with this priority can use the share.
    pub(super) fn is_for(&self, priority: Option<&[u8]>) -> bool {
        let mut priorities = self.priorities.iter();
        priority.is_some_and(|stated| priorities.any(|listed| **listed == *stated))
    }
}
