//! What the series of metrics belong to: routes, upstreams, addresses and concurrency limits.
//!
//! The series of one that a reload removes are removed with it: otherwise each name that was ever
//! in the settings would have its series for ever. Requests that began before may still count for
//! them, and must not make them again, so whatever has one name shares one owner.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};

/// What series belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OwnerName {
    Route(String),
    Upstream(String),
    /// An address of an upstream whose health is checked.
    Checked {
        upstream: String,
        address: String,
    },
    InFlight(String),
}

/// All owners, by name. As many as the settings name.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<BTreeMap<OwnerName, Arc<Owner>>>);

/// Owns the series of one name.
#[derive(Default)]
pub(super) struct Owner(Mutex<Owned>);

#[derive(Default)]
struct Owned {
    is_removed: bool,
    /// Each removes a series. At most one for each value of the other labels, which are names of
    /// outcomes and reasons in the code.
    removals: Vec<Box<dyn Fn() + Send>>,
}

// === impl Owners ===

impl Owners {
    /// The owner of this name.
    pub(super) fn of(&self, name: OwnerName) -> Arc<Owner> {
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(owners.entry(name).or_default())
    }

    /// Removes the series of all others.
    pub(super) fn retain(&self, names: &BTreeSet<OwnerName>) {
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|name, owner| {
            let stays = names.contains(name);
            if !stays {
                owner.remove();
            }
            stays
        });
    }
}

// === impl Owner ===

impl Owner {
    /// A series of this owner, which has just got its name.
    pub(super) fn create<S, M, C>(&self, family: &Family<S, M, C>, labels: &S) -> M
    where
        S: Clone + Hash + Eq + Send + Sync + 'static,
        M: Clone + Send + Sync + 'static,
        C: MetricConstructor<M> + Clone + Send + Sync + 'static,
    {
        self.lock().create(family, labels)
    }

    /// Adds one to a series, unless they have been removed.
    pub(super) fn count<S>(&self, family: &Family<S, Counter>, labels: &S)
    where
        S: Clone + Hash + Eq + Send + Sync + 'static,
    {
        let known = family.get(labels).map(|counter| counter.clone());
        if let Some(counter) = known {
            counter.inc();
            return;
        }
        // It is made under the lock, so that it is not made after all others were removed.
        let mut owned = self.lock();
        if !owned.is_removed {
            owned.create(family, labels).inc();
        }
    }

    fn remove(&self) {
        let mut owned = self.lock();
        owned.is_removed = true;
        owned.removals.drain(..).for_each(|remove| remove());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Owned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Owned ===

impl Owned {
    fn create<S, M, C>(&mut self, family: &Family<S, M, C>, labels: &S) -> M
    where
        S: Clone + Hash + Eq + Send + Sync + 'static,
        M: Clone + Send + Sync + 'static,
        C: MetricConstructor<M> + Clone + Send + Sync + 'static,
    {
        if family.get(labels).is_none() {
            let (family, labels) = (family.clone(), labels.clone());
            self.removals.push(Box::new(move || {
                family.remove(&labels);
            }));
        }
        family.get_or_create_owned(labels)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").finish_non_exhaustive()
    }
}
