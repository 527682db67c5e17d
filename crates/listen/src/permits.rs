//! Connection permits of one listener: how many connections are open, and which one makes room.
//!
//! A listener never stops accepting. When it has no free permit, an idle connection is closed for a
//! new one: one that has not sent a request yet, or else the one that has been idle longest. If
//! none is idle, the new connection gets one of a few reserved permits, with which only health
//! checks are served. The same applies to an address that has too many connections, unless it is
//! that of a trusted proxy, which has those of many clients: only the total bounds them, and when
//! it is reached, its idle connections make room like all others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use crate::address::PeerAddress;
use crate::budget::Budget;
use crate::connection::{Close, Connection};
use crate::idleness::{CloseIdle, Idleness};
use crate::limits::Limits;
use crate::source::{Proxies, Source};

/// Permits beyond `connections`, for health checks.
pub(crate) const RESERVED: usize = 16;
/// Up to this capacity, the map of sources keeps its memory when sources leave it.
const SOURCES_KEPT: usize = 256;
/// The most connections that are compared when one must make room.
const COMPARED_MAX: usize = 1024;

/// How many connections a listener may have.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// In all.
    pub connections: usize,
    /// From one address or network. Peers of a Unix socket have none, and that of a trusted proxy
    /// stands for many: to them, only `connections` applies.
    pub per_source: usize,
}

/// The open connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    bounds: ConnectionLimits,
    turn_bytes: usize,
    budget: Arc<Budget>,
    proxies: Option<Arc<dyn Proxies>>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Those with an ordinary permit; closed ones leave `None`.
    slots: Vec<Option<Arc<Connection>>>,
    free: Vec<usize>,
    /// Indices of slots; those that were compared last are at the end.
    by_source: HashMap<Source, Vec<usize>>,
    reserved: Vec<Arc<Connection>>,
    /// Where the next search for an idle connection begins.
    hand: usize,
}

/// Which permit a new connection got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermitKind {
    /// One was free.
    Free,
    /// That of an idle connection, which is closed.
    Replaced,
    /// A reserved one: only health checks are served.
    Reserved,
}

/// A connection's permit, released when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    connections: Arc<Connections>,
    pub(crate) connection: Arc<Connection>,
}

// === impl ConnectionLimits ===

impl ConnectionLimits {
    /// For a listener that decides requests.
    pub const fn for_decisions(limits: &Limits) -> ConnectionLimits {
        ConnectionLimits {
            connections: limits.connections,
            per_source: limits.connections_per_address,
        }
    }

    /// For the operator's listener, all of which one address may use.
    pub const fn admin(limits: &Limits) -> ConnectionLimits {
        ConnectionLimits {
            connections: limits.admin_connections,
            per_source: limits.admin_connections,
        }
    }
}

// === impl Connections ===

impl Connections {
    /// None yet. Other listeners with the same budget may close idle ones. `proxies` have no share
    /// of their own.
    pub(crate) fn new(
        bounds: ConnectionLimits,
        turn_bytes: usize,
        budget: Arc<Budget>,
        proxies: Option<Arc<dyn Proxies>>,
    ) -> Arc<Connections> {
        let connections = Arc::new(Connections {
            bounds,
            turn_bytes,
            budget: Arc::clone(&budget),
            proxies,
            open: Mutex::default(),
        });
        let known: Weak<Connections> = Arc::downgrade(&connections);
        budget.add_listener(known);
        connections
    }

    /// Finds a permit for a new connection.
    pub(crate) fn acquire(
        self: &Arc<Connections>,
        peer: PeerAddress,
        now: Instant,
    ) -> (Permit, PermitKind) {
        let source = Source::with_proxies(peer, self.proxies.as_deref());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = open.make_room(self.bounds, source, now);
        let is_reserved = kind == PermitKind::Reserved;
        let connection = Connection::new(
            peer,
            is_reserved,
            self.turn_bytes,
            Arc::clone(&self.budget),
            now,
        );
        let connection = Arc::new(connection.with_source(source));
        open.insert(source, Arc::clone(&connection));
        drop(open);
        let connections = Arc::clone(self);
        let permit = Permit {
            connections,
            connection,
        };
        (permit, kind)
    }

    /// How many there are, reserved ones included.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.len() + open.reserved.len()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Connection>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let ordinary = open.slots.iter().flatten();
        ordinary.chain(&open.reserved).cloned().collect()
    }
}

impl CloseIdle for Connections {
    fn greatest_idleness(&self, now: Instant) -> Option<Idleness> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.idlest_open(now).map(|(idleness, _)| idleness)
    }

    fn close_idlest(&self, now: Instant) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let idlest = open.idlest_open(now).map(|(_, idlest)| Arc::clone(idlest));
        open.move_hand();
        drop(open);
        // It keeps its permit until it has ended.
        let Some(idlest) = idlest else { return false };
        idlest.close(Close::NoFile);
        true
    }
}

// === impl Open ===

impl Open {
    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Closes an idle connection if no permit is free for one from `source`.
    fn make_room(&mut self, bounds: ConnectionLimits, source: Source, now: Instant) -> PermitKind {
        let of_source = self.by_source.get(&source).map_or(0, Vec::len);
        let idlest = if of_source >= bounds.per_source && source.has_share() {
            self.idlest_of(source, now)
        } else if self.len() >= bounds.connections {
            self.idlest(now)
        } else {
            return PermitKind::Free;
        };
        let Some(idlest) = idlest else {
            self.free_reserved();
            return PermitKind::Reserved;
        };
        if let Some(connection) = self.take(idlest) {
            connection.close(Close::Idle);
        }
        PermitKind::Replaced
    }

    /// The connection that loses least, of as many as may be compared.
    fn idlest(&mut self, now: Instant) -> Option<usize> {
        let idlest = self.idlest_among(self.candidates(), now);
        self.move_hand();
        idlest
    }

    /// The next search begins where this one has ended.
    fn move_hand(&mut self) {
        let count = self.slots.len().max(1);
        self.hand = (self.hand + count.min(COMPARED_MAX)) % count;
    }

    /// The connection of an address that loses least, of as many as may be compared.
    fn idlest_of(&mut self, source: Source, now: Instant) -> Option<usize> {
        let indices = self.by_source.get(&source)?;
        let compared = indices.len().min(COMPARED_MAX);
        let idlest = self.idlest_among(indices[..compared].iter().copied(), now);
        // The next search begins where this one has ended.
        self.by_source.get_mut(&source)?.rotate_left(compared);
        idlest
    }

    fn idlest_among(&self, indices: impl Iterator<Item = usize>, now: Instant) -> Option<usize> {
        let idle = indices.filter_map(|index| {
            let idleness = self.slots.get(index)?.as_ref()?.idleness(now)?;
            Some((idleness, index))
        });
        idle.max().map(|(_, index)| index)
    }

    /// The connection that loses least, of as many as may be compared, except those that are being
    /// closed: their files are free soon.
    fn idlest_open(&self, now: Instant) -> Option<(Idleness, &Arc<Connection>)> {
        let ordinary = self
            .candidates()
            .filter_map(|index| self.slots[index].as_ref());
        let open = ordinary
            .chain(&self.reserved)
            .filter(|connection| connection.close_reason().is_none());
        open.filter_map(|connection| Some((connection.idleness(now)?, connection)))
            .max_by_key(|(idleness, _)| *idleness)
    }

    /// The indices of the connections that are compared next.
    fn candidates(&self) -> impl Iterator<Item = usize> + use<> {
        let (hand, count) = (self.hand, self.slots.len());
        let compared = count.min(COMPARED_MAX);
        (hand..hand + compared).map(move |index| index % count.max(1))
    }

    /// Frees a reserved permit: of the source that has most of them, the oldest, which has had its
    /// time for a health check. So a flood from few addresses does not end a health check from
    /// another one, also if that needs several round trips, as TLS does.
    fn free_reserved(&mut self) {
        if self.reserved.len() < RESERVED {
            return;
        }
        let count = |connection: &Arc<Connection>| {
            let is_alike = |other: &&Arc<Connection>| other.source() == connection.source();
            self.reserved.iter().filter(is_alike).count()
        };
        // The last of equal ones is the maximum, and the oldest is meant.
        let busiest = (0..self.reserved.len())
            .rev()
            .max_by_key(|index| count(&self.reserved[*index]));
        if let Some(index) = busiest {
            self.reserved.remove(index).close(Close::Idle);
        }
    }

    fn insert(&mut self, source: Source, connection: Arc<Connection>) {
        if connection.is_reserved() {
            self.reserved.push(connection);
            return;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(connection);
        self.by_source.entry(source).or_default().push(index);
    }

    /// Frees the permit at an index.
    fn take(&mut self, index: usize) -> Option<Arc<Connection>> {
        let connection = self.slots.get_mut(index)?.take()?;
        self.free.push(index);
        let source = connection.source();
        if let Some(indices) = self.by_source.get_mut(&source) {
            indices.retain(|other| *other != index);
            if indices.is_empty() {
                self.by_source.remove(&source);
                self.shrink_sources();
            }
        }
        Some(connection)
    }

    /// Returns memory once most sources are gone, seldom enough to cost nothing.
    fn shrink_sources(&mut self) {
        let count = self.by_source.len();
        if self.by_source.capacity() > SOURCES_KEPT.max(4 * count) {
            self.by_source.shrink_to(2 * count);
        }
    }

    fn remove(&mut self, connection: &Arc<Connection>) {
        let is_it = |other: &Arc<Connection>| Arc::ptr_eq(other, connection);
        self.reserved.retain(|other| !is_it(other));
        let indices = self.by_source.get(&connection.source());
        let index = indices.and_then(|indices| {
            let is_there = |index: &&usize| self.slots[**index].as_ref().is_some_and(is_it);
            indices.iter().find(is_there).copied()
        });
        if let Some(index) = index {
            self.take(index);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let open = self.connections.open.lock();
        open.unwrap_or_else(PoisonError::into_inner)
            .remove(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::{IpAddr, SocketAddr};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    fn connections(connections: usize, per_source: usize) -> Arc<Connections> {
        let bounds = ConnectionLimits {
            connections,
            per_source,
        };
        Connections::new(bounds, 1000, budget(), None)
    }

    fn budget() -> Arc<Budget> {
        Arc::new(Budget::new(&Limits::default()))
    }

    fn peer(number: u8) -> PeerAddress {
        SocketAddr::from(([10, 0, 0, number], 1)).into()
    }

    #[test]
    fn new_connections_keep_their_permits_and_health_checks_are_still_served() {
        let (all, now) = (connections(3, 2), Instant::now());
        let mut permits = Vec::new();
        for (number, expected) in [
            (1, PermitKind::Free),
            (1, PermitKind::Free),
            // One address has all that it may have.
            (1, PermitKind::Reserved),
            (2, PermitKind::Free),
            // The listener is full.
            (3, PermitKind::Reserved),
        ] {
            let (permit, kind) = all.acquire(peer(number), now);
            assert_eq!(kind, expected, "{number}");
            assert_eq!(
                permit.connection.is_reserved(),
                expected == PermitKind::Reserved
            );
            permits.push(permit);
        }
        assert_eq!(all.len(), 5);
        // A permit that is released is free again.
        permits.remove(0);
        assert_eq!(all.acquire(peer(3), now).1, PermitKind::Free);
        drop(permits);
        assert_eq!(all.len(), 0);
        assert!(all.open.lock().unwrap().by_source.is_empty());
    }

    #[test]
    fn peers_of_a_unix_socket_count_together_under_the_total_only() {
        let (all, now) = (connections(2, 1), Instant::now());
        let kinds: Vec<_> = (0..3)
            .map(|_| all.acquire(PeerAddress::Unix, now))
            .collect();
        let kinds: Vec<_> = kinds.iter().map(|(_, kind)| *kind).collect();
        let expected = [PermitKind::Free, PermitKind::Free, PermitKind::Reserved];
        assert_eq!(kinds, expected);
    }

    /// Trusts 10.0.0.1 while it is true.
    #[derive(Debug, Default)]
    struct First(AtomicBool);

    impl Proxies for First {
        fn is_trusted(&self, address: IpAddr) -> bool {
            self.0.load(Ordering::Relaxed) && peer(1).ip() == Some(address)
        }
    }

    fn connections_with(proxies: &Arc<First>, connections: usize) -> Arc<Connections> {
        let proxies: Arc<First> = Arc::clone(proxies);
        let bounds = ConnectionLimits {
            connections,
            per_source: 1,
        };
        Connections::new(bounds, 1000, budget(), Some(proxies))
    }

    #[test]
    fn a_trusted_proxy_counts_under_the_total_only_and_makes_room_like_others() {
        let proxies = Arc::new(First(true.into()));
        let (all, now) = (connections_with(&proxies, 4), Instant::now());
        let permits = [1, 1, 2, 1].map(|number| all.acquire(peer(number), now).0);
        for permit in &permits {
            assert!(!permit.connection.is_reserved());
            permit.connection.record_request(now);
        }
        // Those of the proxy do not count for others, nor do others have more for it.
        let kinds = [2, 3, 1].map(|number| all.acquire(peer(number), now).1);
        assert_eq!(kinds, [PermitKind::Reserved; 3]);
        let now = now + Duration::from_secs(5);
        for index in [0, 2, 3] {
            permits[index].connection.record_request(now);
        }
        let (other, kind) = all.acquire(peer(3), now);
        assert_eq!(kind, PermitKind::Replaced);
        let closed = permits.iter().map(|one| one.connection.close_reason());
        let closed: Vec<_> = closed.collect();
        assert_eq!(closed, [None, Some(Close::Idle), None, None]);
        drop((permits, other));
        assert_eq!(all.len(), 0);
        assert!(all.open.lock().unwrap().by_source.is_empty());
    }

    /// Each is given back to where it was taken, whatever the settings say by then.
    #[test]
    fn connections_stay_counted_as_they_were_when_the_trusted_proxies_change() {
        let proxies = Arc::new(First::default());
        let (all, now) = (connections_with(&proxies, 100), Instant::now());
        let trust = |is_trusted| proxies.0.store(is_trusted, Ordering::Relaxed);
        let acquire = || all.acquire(peer(1), now);
        let (of_client, kind) = acquire();
        assert_eq!(kind, PermitKind::Free);
        assert_eq!(acquire().1, PermitKind::Reserved);
        trust(true);
        let of_proxy = [(); 3].map(|()| acquire());
        assert!(of_proxy.iter().all(|(_, kind)| *kind == PermitKind::Free));
        trust(false);
        // The permit of the client is taken, and those of the proxy do not count.
        assert_eq!(acquire().1, PermitKind::Reserved);
        drop(of_proxy);
        assert_eq!(acquire().1, PermitKind::Reserved);
        trust(true);
        drop(of_client);
        trust(false);
        let (of_client, kind) = acquire();
        assert_eq!(kind, PermitKind::Free);
        drop(of_client);
        assert_eq!(all.len(), 0);
        assert!(all.open.lock().unwrap().by_source.is_empty());
    }

    #[test]
    fn the_sources_of_connections_that_have_ended_take_no_memory() {
        let (all, now) = (connections(10_000, 1), Instant::now());
        let kept = all.acquire(peer(1), now);
        let of = |number: u32| {
            let address = std::net::Ipv4Addr::from(0x0b00_0000 + number);
            PeerAddress::Tcp(SocketAddr::new(address.into(), 1))
        };
        for _peak in 0..2 {
            let permits: Vec<_> = (0..5_000)
                .map(|number| all.acquire(of(number), now))
                .collect();
            assert!(permits.iter().all(|(_, kind)| *kind == PermitKind::Free));
            drop(permits);
            let open = all.open.lock().unwrap();
            assert!(open.by_source.capacity() <= 2 * SOURCES_KEPT);
            assert_eq!(open.by_source.len(), 1);
        }
        drop(kept);
    }

    #[test]
    fn reserved_permits_are_bounded_and_the_oldest_makes_room() {
        let (all, now) = (connections(1, 1), Instant::now());
        let _kept = all.acquire(peer(0), now);
        let reserved: Vec<Permit> = (0..2 * RESERVED)
            .map(|_| all.acquire(peer(1), now).0)
            .collect();
        assert_eq!(all.len(), 1 + RESERVED);
        let cut = |permit: &&Permit| permit.connection.close_reason() == Some(Close::Idle);
        assert_eq!(reserved.iter().filter(cut).count(), RESERVED);
        assert!(cut(&&reserved[0]) && !cut(&&reserved[2 * RESERVED - 1]));
    }

    #[test]
    fn a_reserved_permit_outlasts_a_flood_from_another_address() {
        let (all, now) = (connections(1, 1), Instant::now());
        let _kept = all.acquire(peer(0), now);
        let (check, kind) = all.acquire(peer(1), now);
        assert_eq!(kind, PermitKind::Reserved);
        let flood: Vec<Permit> = (0..10 * RESERVED)
            .map(|number| all.acquire(peer(2 + u8::from(number % 2 == 0)), now).0)
            .collect();
        assert_eq!(all.len(), 1 + RESERVED);
        assert_eq!(check.connection.close_reason(), None);
        let open = |permit: &&Permit| permit.connection.close_reason().is_none();
        assert_eq!(flood.iter().filter(open).count(), RESERVED - 1);
        assert!(open(&&flood[10 * RESERVED - 1]));
    }

    /// Connections that are opened faster than they become idle do not take every permit.
    #[test]
    fn a_connection_without_a_request_makes_room_first() {
        let (all, then) = (connections(3, 3), Instant::now());
        let permits = [1, 2, 3].map(|number| all.acquire(peer(number), then).0);
        permits[0].connection.record_request(then);
        let now = then + Duration::from_millis(249);
        assert_eq!(all.acquire(peer(4), now).1, PermitKind::Reserved);
        let now = then + Duration::from_millis(250);
        permits[1].connection.record_request(now);
        let (fourth, kind) = all.acquire(peer(4), now);
        assert_eq!(kind, PermitKind::Replaced);
        assert_eq!(permits[2].connection.close_reason(), Some(Close::Idle));
        // The first has been idle for longer, but it has sent a request.
        let now = now + Duration::from_secs(5);
        assert_eq!(all.acquire(peer(5), now).1, PermitKind::Replaced);
        assert_eq!(fourth.connection.close_reason(), Some(Close::Idle));
        for permit in &permits[..2] {
            assert_eq!(permit.connection.close_reason(), None);
        }
    }

    #[test]
    fn an_idle_connection_makes_room_and_an_active_one_stays() {
        let (all, now) = (connections(3, 2), Instant::now());
        let permits = [1, 1, 2].map(|number| all.acquire(peer(number), now).0);
        let now = now + Duration::from_secs(5);
        permits[1].connection.record_request(now);
        let (second, kind) = all.acquire(peer(1), now);
        assert_eq!(kind, PermitKind::Replaced);
        assert_eq!(permits[0].connection.close_reason(), Some(Close::Idle));
        let (_third, kind) = all.acquire(peer(3), now);
        assert_eq!(kind, PermitKind::Replaced);
        assert_eq!(permits[2].connection.close_reason(), Some(Close::Idle));
        for permit in [&permits[1], &second] {
            assert_eq!(permit.connection.close_reason(), None);
        }
    }

    /// Whichever they are: the ones that were compared last are not compared again next.
    #[test]
    fn an_address_with_many_connections_makes_room_with_any_idle_one() {
        let (all, then) = (connections(5000, 1100), Instant::now());
        let permits: Vec<_> = (0..1100).map(|_| all.acquire(peer(1), then).0).collect();
        let now = then + Duration::from_secs(5);
        for permit in &permits[..COMPARED_MAX] {
            permit.connection.record_request(now);
        }
        // The first search may be among the busy ones.
        let kinds = [(); 2].map(|()| all.acquire(peer(1), now).1);
        assert!(kinds.contains(&PermitKind::Replaced), "{kinds:?}");
        let reasons = permits
            .iter()
            .map(|permit| permit.connection.close_reason());
        let closed: Vec<_> = (0..)
            .zip(reasons)
            .filter(|(_, reason)| reason.is_some())
            .collect();
        assert!(
            matches!(closed[..], [(COMPARED_MAX.., Some(Close::Idle))]),
            "{closed:?}"
        );
    }

    /// Another listener's connection loses less: it is closed for the file that this one needs.
    #[test]
    fn the_idlest_connection_of_all_listeners_is_closed_for_its_file() {
        let (budget, then) = (budget(), Instant::now());
        let bounds = ConnectionLimits {
            connections: 2,
            per_source: 2,
        };
        let [http, admin] =
            [(); 2].map(|()| Connections::new(bounds, 1000, Arc::clone(&budget), None));
        let [asked, waits] = [1, 2].map(|number| http.acquire(peer(number), then).0);
        let reserved = http.acquire(peer(3), then).0;
        assert!(reserved.connection.is_reserved());
        let later = then + Duration::from_secs(1);
        let [silent, busy] = [1, 2].map(|number| admin.acquire(peer(number), later).0);
        asked.connection.record_request(then);
        waits.connection.record_request(later);
        busy.connection.begin_request();

        let closed = |permit: &&Permit| permit.connection.close_reason() == Some(Close::NoFile);
        let permits = [&asked, &waits, &silent, &busy, &reserved];
        let which = || permits.map(|permit| closed(&permit));
        let now = later + Duration::from_millis(250);
        for (is_closed, expected) in [
            // Nothing has arrived on it, and it is older than `silent`.
            (true, [false, false, false, false, true]),
            (true, [false, false, true, false, true]),
            (true, [true, false, true, false, true]),
            // The others are not idle.
            (false, [true, false, true, false, true]),
        ] {
            assert_eq!(budget.close_idlest(now), is_closed);
            assert_eq!(which(), expected);
        }
        drop((asked, silent, http));
        assert!(!budget.close_idlest(now), "of listeners that are there");
    }
}
