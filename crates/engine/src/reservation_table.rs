//! The reservations that are not settled yet, of requests that were decided in memory.
//!
//! Bounded: a reservation needs a place before its request is decided, and none is evicted for it.
//! A reservation leaves the table when it is settled or expires.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::{Moment, Span};

use crate::reservation_id::ReservationId;

/// How many reservations may be open at once, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationBounds {
    /// The most reservations that are neither settled nor expired.
    pub max: usize,
    /// How long a reservation can be settled. After that, its estimate stays charged.
    pub lifetime: Span,
}

/// The open reservations. A part is what one limit charged.
#[derive(Debug)]
pub(crate) struct ReservationTable<P> {
    bounds: ReservationBounds,
    contents: Mutex<Contents<P>>,
}

#[derive(Debug)]
struct Contents<P> {
    open: HashMap<ReservationId, OpenReservation<P>>,
    /// The same reservations, the one that expires first in front.
    by_expiry: BTreeSet<(Moment, ReservationId)>,
    /// Places of reservations that are not in `open`, because their requests are being decided or
    /// they are being settled.
    claimed: usize,
}

/// A reservation that is neither settled nor expired.
#[derive(Debug)]
pub(crate) struct OpenReservation<P> {
    pub(crate) expires: Moment,
    /// What is to be settled.
    pub(crate) parts: VecDeque<P>,
}

/// The table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// A place for one reservation. It becomes free again if it is dropped.
#[must_use = "a place that is dropped is free again"]
pub(crate) struct Place<'t, P>(&'t ReservationTable<P>);

/// A reservation that is being settled, which no other request can settle meanwhile. If it is
/// dropped unsettled, it goes back to the table.
pub(crate) struct Taken<'t, P> {
    /// The place that it may go back to.
    place: Option<Place<'t, P>>,
    id: ReservationId,
    open: OpenReservation<P>,
}

// === impl ReservationBounds ===

impl Default for ReservationBounds {
    fn default() -> ReservationBounds {
        ReservationBounds {
            max: 16_384,
            lifetime: Span::HOUR,
        }
    }
}

// === impl ReservationTable ===

impl<P> ReservationTable<P> {
    pub(crate) fn new(bounds: ReservationBounds) -> ReservationTable<P> {
        let contents = Contents {
            open: HashMap::new(),
            by_expiry: BTreeSet::new(),
            claimed: 0,
        };
        ReservationTable {
            bounds,
            contents: Mutex::new(contents),
        }
    }

    pub(crate) const fn bounds(&self) -> ReservationBounds {
        self.bounds
    }

    /// How many reservations are neither settled nor expired.
    pub(crate) fn open(&self, now: Moment) -> usize {
        let mut contents = self.lock();
        contents.drop_expired(now);
        contents.open.len()
    }

    /// Claims the place of a new reservation.
    pub(crate) fn claim(&self, now: Moment) -> Result<Place<'_, P>, Full> {
        let mut contents = self.lock();
        contents.drop_expired(now);
        if contents.open.len() + contents.claimed >= self.bounds.max {
            return Err(Full);
        }
        contents.claimed += 1;
        Ok(Place(self))
    }

    /// Takes a reservation out, to settle it. `None` if there is none with this id, or another
    /// caller has taken it.
    pub(crate) fn take(&self, id: ReservationId, now: Moment) -> Option<Taken<'_, P>> {
        let mut contents = self.lock();
        contents.drop_expired(now);
        let open = contents.open.remove(&id)?;
        contents.by_expiry.remove(&(open.expires, id));
        contents.claimed += 1;
        let place = Some(Place(self));
        Some(Taken { place, id, open })
    }

    fn lock(&self) -> MutexGuard<'_, Contents<P>> {
        // A panic leaves the contents complete: nothing in between can panic.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Contents ===

impl<P> Contents<P> {
    fn drop_expired(&mut self, now: Moment) {
        while let Some((expires, id)) = self.by_expiry.first().copied()
            && expires <= now
        {
            self.by_expiry.pop_first();
            self.open.remove(&id);
        }
    }
}

// === impl Place ===

impl<P> Place<'_, P> {
    /// Puts a reservation in its place.
    pub(crate) fn fill(self, id: ReservationId, open: OpenReservation<P>) {
        let table = self.0;
        // The place is not free, as it would be if `self` were dropped, but taken.
        std::mem::forget(self);
        let mut contents = table.lock();
        contents.claimed -= 1;
        contents.by_expiry.insert((open.expires, id));
        contents.open.insert(id, open);
    }
}

impl<P> Drop for Place<'_, P> {
    fn drop(&mut self) {
        self.0.lock().claimed -= 1;
    }
}

// === impl Taken ===

impl<P> Taken<'_, P> {
    /// Settles every part by `settle`, and returns what it returned for each.
    ///
    /// # Errors
    ///
    /// The first error of `settle`, which must not have changed anything then. That part and those
    /// after it go back to the table, to be settled later.
    pub(crate) fn settle<T, E>(
        mut self,
        mut settle: impl FnMut(&P) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let mut settlements = Vec::with_capacity(self.open.parts.len());
        // If `settle` panics, its part is not put back: it may have been settled.
        while let Some(part) = self.open.parts.pop_front() {
            match settle(&part) {
                Ok(settlement) => settlements.push(settlement),
                Err(error) => {
                    self.open.parts.push_front(part);
                    return Err(error);
                }
            }
        }
        Ok(settlements)
    }
}

impl<P> Drop for Taken<'_, P> {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else {
            return;
        };
        if !self.open.parts.is_empty() {
            let parts = std::mem::take(&mut self.open.parts);
            let expires = self.open.expires;
            place.fill(self.id, OpenReservation { expires, parts });
        }
    }
}

#[cfg(test)]
mod tests;
