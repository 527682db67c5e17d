//! The interface between `tollgate keys` and a shared store: what it holds for a key.

use std::future::Future;

use crate::charge::Charge;
use crate::decision::Decision;
use crate::key::Key;
use crate::shared_store::SharedStore;
use crate::span::Span;
use crate::store::StoreError;

/// A shared store whose keys an operator can inspect and reset.
pub trait InspectStore: SharedStore {
    /// The name of a key in the store, to find it there with the store's own tools.
    fn name_of(&self, key: Key) -> String;

    /// What the store holds for the charge's key under its limit; if that is nothing, whether the
    /// store decides at all. Charges nothing, whatever the charge costs, and asks the store even if
    /// a denial is cached here.
    ///
    /// # Errors
    ///
    /// As [`Store::decide`](crate::Store::decide).
    fn inspect(
        &self,
        charge: &Charge<'_>,
    ) -> impl Future<Output = Result<KeyState, StoreError>> + Send;

    /// Deletes a key, so that its budget starts over. Returns whether the store held it.
    ///
    /// Other instances keep what they hold of the key: a denial for up to
    /// [`InspectStore::denial_cache_max`], and leased units, which they spend beside the new
    /// budget.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unreachable`], [`StoreError::Rejected`], [`StoreError::TimedOut`] or
    /// [`StoreError::BadReply`].
    fn reset(&self, key: Key) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The longest time for which an instance denies a key without asking the store; zero if it
    /// always asks.
    fn denial_cache_max(&self) -> Span;
}

/// What a shared store holds for one key at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// The size of the state; 0 if the store holds nothing.
    pub bytes: u64,
    /// How long until the store deletes the key; `None` if it holds nothing.
    pub expires: Option<Span>,
    /// The decision on the charge's cost now, and what remains. Nothing is charged. A cost of 0 and
    /// a refund are decided as one unit.
    pub decision: Decision,
    /// What instances have leased: charged already, and not yet spent or returned.
    pub leased: HeldUnits,
    /// What two-phase commits have reserved and not yet confirmed.
    pub reserved: HeldUnits,
}

/// Units that are neither free nor spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldUnits {
    /// How many units.
    pub units: u64,
    /// How many instances or requests hold them.
    pub holders: usize,
    /// How long until the last of them is returned or charged by itself.
    pub ends: Span,
}
