//! The connections of one listener: who is let in, and who makes room.
//!
//! A listener never stops accepting. While it is full, the connection that has been idle longest
//! is closed for a new one; if none is idle, the new one has one of a few reserved places, where it
//! is told about health and nothing else. The same holds for one address that has too many.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::budget::Budget;
use crate::connection::{Close, Connection, Source};
use crate::limits::Limits;

/// Places beyond `connections`, for questions about health.
pub(crate) const RESERVED: usize = 16;
/// A connection that has asked within this time is not idle.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// The most connections that are compared when one must make room.
const COMPARED_MAX: usize = 1024;

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// In all.
    pub connections: usize,
    /// From one address or network.
    pub per_source: usize,
}

/// The open connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    bounds: Bounds,
    turn_bytes: usize,
    budget: Arc<Budget>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Those with a place of their own, and holes.
    places: Vec<Option<Arc<Connection>>>,
    holes: Vec<usize>,
    by_source: HashMap<Source, Vec<usize>>,
    reserved: Vec<Arc<Connection>>,
    /// Where the next comparison begins.
    hand: usize,
}

/// What became of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// There was a place.
    Free,
    /// An idle one made room for it.
    Replaced,
    /// There was no room: it is told about health alone.
    Reserved,
}

/// A connection's place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    pub(crate) connection: Arc<Connection>,
}

// === impl Bounds ===

impl Bounds {
    /// Those of the listeners that decide.
    pub const fn deciding(limits: &Limits) -> Bounds {
        Bounds {
            connections: limits.connections,
            per_source: limits.connections_per_address,
        }
    }

    /// Those of the listener for the operator, who may use all of it from one address.
    pub const fn admin(limits: &Limits) -> Bounds {
        Bounds {
            connections: limits.admin_connections,
            per_source: limits.admin_connections,
        }
    }
}

// === impl Connections ===

impl Connections {
    pub(crate) fn new(bounds: Bounds, turn_bytes: usize, budget: Arc<Budget>) -> Connections {
        Connections {
            bounds,
            turn_bytes,
            budget,
            open: Mutex::default(),
        }
    }

    /// Lets a new connection in.
    pub(crate) fn admit(
        self: &Arc<Connections>,
        peer: SocketAddr,
        now: Instant,
    ) -> (Place, Admission) {
        let source = Source::of(peer.ip());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let admission = open.make_room(self.bounds, source, now);
        let is_reserved = admission == Admission::Reserved;
        let connection = Connection::new(
            peer,
            is_reserved,
            self.turn_bytes,
            Arc::clone(&self.budget),
            now,
        );
        let connection = Arc::new(connection);
        open.insert(source, Arc::clone(&connection));
        drop(open);
        let connections = Arc::clone(self);
        let place = Place {
            connections,
            connection,
        };
        (place, admission)
    }

    /// How many there are, reserved ones included.
    #[cfg(test)]
    fn len(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.len() + open.reserved.len()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Connection>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let placed = open.places.iter().flatten();
        placed.chain(&open.reserved).cloned().collect()
    }
}

// === impl Open ===

impl Open {
    fn len(&self) -> usize {
        self.places.len() - self.holes.len()
    }

    /// Closes an idle connection if there is no place for one from `source`.
    fn make_room(&mut self, bounds: Bounds, source: Source, now: Instant) -> Admission {
        let of_source = self.by_source.get(&source).map_or(0, Vec::len);
        let idlest = if of_source >= bounds.per_source {
            self.idlest_of(source, now)
        } else if self.len() >= bounds.connections {
            self.idlest(now)
        } else {
            return Admission::Free;
        };
        let Some(idlest) = idlest else {
            self.free_reserved();
            return Admission::Reserved;
        };
        if let Some(connection) = self.take(idlest) {
            connection.cut(Close::Idle);
        }
        Admission::Replaced
    }

    /// The connection that has been idle longest, of as many as may be compared.
    fn idlest(&mut self, now: Instant) -> Option<usize> {
        let count = self.places.len();
        let compared = count.min(COMPARED_MAX);
        let indices = (self.hand..self.hand + compared).map(|index| index % count.max(1));
        let idlest = self.idlest_among(indices, now);
        self.hand = (self.hand + compared) % count.max(1);
        idlest
    }

    fn idlest_of(&self, source: Source, now: Instant) -> Option<usize> {
        let indices = self.by_source.get(&source)?.iter().copied();
        self.idlest_among(indices.take(COMPARED_MAX), now)
    }

    fn idlest_among(&self, indices: impl Iterator<Item = usize>, now: Instant) -> Option<usize> {
        let idle = indices.filter_map(|index| {
            let idle = self.places.get(index)?.as_ref()?.idle(now);
            (idle >= IDLE_AFTER).then_some((idle, index))
        });
        idle.max().map(|(_, index)| index)
    }

    /// Makes room among the reserved places: whoever has one and has not asked yet is too late.
    fn free_reserved(&mut self) {
        if self.reserved.len() >= RESERVED {
            self.reserved.remove(0).cut(Close::Idle);
        }
    }

    fn insert(&mut self, source: Source, connection: Arc<Connection>) {
        if connection.is_reserved() {
            self.reserved.push(connection);
            return;
        }
        let index = self.holes.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[index] = Some(connection);
        self.by_source.entry(source).or_default().push(index);
    }

    /// Empties a place.
    fn take(&mut self, index: usize) -> Option<Arc<Connection>> {
        let connection = self.places.get_mut(index)?.take()?;
        self.holes.push(index);
        let source = connection.source();
        if let Some(indices) = self.by_source.get_mut(&source) {
            indices.retain(|other| *other != index);
            if indices.is_empty() {
                self.by_source.remove(&source);
            }
        }
        Some(connection)
    }

    fn remove(&mut self, connection: &Arc<Connection>) {
        let is_it = |other: &Arc<Connection>| Arc::ptr_eq(other, connection);
        self.reserved.retain(|other| !is_it(other));
        let indices = self.by_source.get(&connection.source());
        let index = indices.and_then(|indices| {
            let is_there = |index: &&usize| self.places[**index].as_ref().is_some_and(is_it);
            indices.iter().find(is_there).copied()
        });
        if let Some(index) = index {
            self.take(index);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let open = self.connections.open.lock();
        open.unwrap_or_else(PoisonError::into_inner)
            .remove(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn connections(connections: usize, per_source: usize) -> Arc<Connections> {
        let bounds = Bounds {
            connections,
            per_source,
        };
        let budget = Arc::new(Budget::new(&Limits::default()));
        Arc::new(Connections::new(bounds, 1000, budget))
    }

    fn peer(number: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, number], 1))
    }

    #[test]
    fn whoever_has_just_come_keeps_its_place_and_health_is_still_told() {
        let (all, now) = (connections(3, 2), Instant::now());
        let mut places = Vec::new();
        for (number, expected) in [
            (1, Admission::Free),
            (1, Admission::Free),
            // One address has what it may have.
            (1, Admission::Reserved),
            (2, Admission::Free),
            // The listener is full.
            (3, Admission::Reserved),
        ] {
            let (place, admission) = all.admit(peer(number), now);
            assert_eq!(admission, expected, "{number}");
            assert_eq!(
                place.connection.is_reserved(),
                expected == Admission::Reserved
            );
            places.push(place);
        }
        assert_eq!(all.len(), 5);
        // A place that is given back is free again.
        places.remove(0);
        assert_eq!(all.admit(peer(3), now).1, Admission::Free);
        drop(places);
        assert_eq!(all.len(), 0);
        assert!(all.open.lock().unwrap().by_source.is_empty());
    }

    #[test]
    fn reserved_places_are_bounded_and_the_oldest_makes_room() {
        let (all, now) = (connections(1, 1), Instant::now());
        let _kept = all.admit(peer(0), now);
        let reserved: Vec<Place> = (0..2 * RESERVED)
            .map(|_| all.admit(peer(1), now).0)
            .collect();
        assert_eq!(all.len(), 1 + RESERVED);
        let cut = |place: &&Place| place.connection.closed() == Some(Close::Idle);
        assert_eq!(reserved.iter().filter(cut).count(), RESERVED);
        assert!(cut(&&reserved[0]) && !cut(&&reserved[2 * RESERVED - 1]));
    }

    #[test]
    fn an_idle_one_makes_room_and_the_one_that_asks_stays() {
        let (all, now) = (connections(3, 2), Instant::now());
        let places = [1, 1, 2].map(|number| all.admit(peer(number), now).0);
        let now = now + Duration::from_secs(5);
        places[1].connection.has_asked(now);
        let (second, admission) = all.admit(peer(1), now);
        assert_eq!(admission, Admission::Replaced);
        assert_eq!(places[0].connection.closed(), Some(Close::Idle));
        let (_third, admission) = all.admit(peer(3), now);
        assert_eq!(admission, Admission::Replaced);
        assert_eq!(places[2].connection.closed(), Some(Close::Idle));
        for place in [&places[1], &second] {
            assert_eq!(place.connection.closed(), None);
        }
    }
}
