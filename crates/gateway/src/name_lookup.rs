//! The IP addresses of a server, of whose name one lookup is in flight at a time.
//!
//! The system's lookup blocks a thread and cannot be cancelled: it goes on when the request that
//! needs it has timed out. With a lookup for each connection, a name server that does not answer
//! would soon occupy all threads that the runtime has for blocking work. So connections that are
//! opened meanwhile share a lookup. Its result is not kept for later ones.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use tokio::net::lookup_host;
use tokio::sync::watch;

/// Looks up the IP addresses of `host:port`.
#[derive(Debug)]
pub(crate) struct NameLookup {
    address: String,
    /// The address, if it is an IP address and needs no lookup.
    ip: Option<SocketAddr>,
    in_flight: Mutex<Option<watch::Receiver<Option<Found>>>>,
}

/// What a lookup has found, or why it has failed.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;

// === impl NameLookup ===

impl NameLookup {
    pub(crate) fn new(address: String) -> NameLookup {
        NameLookup {
            ip: address.parse().ok(),
            address,
            in_flight: Mutex::default(),
        }
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Whether it is a name. An IP address needs no lookup.
    pub(crate) const fn is_looked_up(&self) -> bool {
        self.ip.is_none()
    }

    /// Looks the name up, or waits for the lookup in flight. An IP address needs none.
    ///
    /// # Errors
    ///
    /// Why it has failed.
    pub(crate) async fn find(&self) -> io::Result<Vec<SocketAddr>> {
        if let Some(ip) = self.ip {
            return Ok(vec![ip]);
        }
        self.find_by(|name| async { Ok(lookup_host(name).await?.collect()) })
            .await
    }

    /// The same with another way to look up a name.
    async fn find_by<F>(&self, look_up: impl FnOnce(String) -> F) -> io::Result<Vec<SocketAddr>>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let mut found = self.join(look_up);
        let found = found.wait_for(Option::is_some).await;
        let found = found.map_err(|_| io::Error::other("the lookup has panicked"))?;
        let found = found.as_ref().expect("it was waited for");
        found
            .clone()
            .map_err(|(kind, text)| io::Error::new(kind, text))
    }

    /// The lookup in flight, or else one that begins now.
    fn join<F>(&self, look_up: impl FnOnce(String) -> F) -> watch::Receiver<Option<Found>>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let mut in_flight = self
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Its task has the other end until there is a result.
        if let Some(other) = in_flight.as_ref().filter(|one| one.has_changed().is_ok()) {
            return other.clone();
        }
        let (result, found) = watch::channel(None);
        let looked_up = look_up(self.address.clone());
        // In a task, so that it also goes on here when the request that began it has timed out.
        tokio::spawn(async move {
            let looked_up = looked_up.await;
            let looked_up = looked_up.map_err(|error| (error.kind(), error.to_string()));
            result.send_replace(Some(looked_up));
        });
        *in_flight = Some(found.clone());
        found
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    /// A name server: counts lookups, and answers each when it has a permit.
    #[derive(Clone)]
    struct Names {
        lookups: Arc<AtomicUsize>,
        permits: Arc<Semaphore>,
    }

    impl Names {
        fn new() -> Names {
            Names {
                lookups: Arc::default(),
                permits: Arc::new(Semaphore::new(0)),
            }
        }

        fn lookups(&self) -> usize {
            self.lookups.load(Ordering::Relaxed)
        }

        async fn look_up(self, name: String) -> io::Result<Vec<SocketAddr>> {
            let before = self.lookups.fetch_add(1, Ordering::Relaxed);
            self.permits.acquire().await.unwrap().forget();
            match before {
                0 => Ok(vec![([127, 0, 0, 1], 80).into()]),
                1 => Err(io::Error::new(io::ErrorKind::NotFound, name)),
                _ => panic!("as if the system's library did"),
            }
        }
    }

    fn find(lookup: &Arc<NameLookup>, names: &Names) -> JoinSet<io::Result<Vec<SocketAddr>>> {
        let mut all = JoinSet::new();
        for _ in 0..100 {
            let (lookup, names) = (Arc::clone(lookup), names.clone());
            all.spawn(async move { lookup.find_by(|name| names.look_up(name)).await });
        }
        all
    }

    #[tokio::test]
    async fn connections_that_are_opened_at_once_share_a_lookup_also_if_some_give_up() {
        let lookup = Arc::new(NameLookup::new("api.internal:80".to_owned()));
        let names = Names::new();
        for _ in 0..3 {
            let given_up = find(&lookup, &names);
            while names.lookups() == 0 {
                yield_now().await;
            }
            drop(given_up);
        }
        let waiting = find(&lookup, &names);
        yield_now().await;
        assert_eq!(names.lookups(), 1);
        names.permits.add_permits(1);
        for found in waiting.join_all().await {
            assert_eq!(found.unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        }

        // The next one asks again, and what it hears is true for all.
        names.permits.add_permits(1);
        for found in find(&lookup, &names).join_all().await {
            let error = found.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert_eq!(error.to_string(), "api.internal:80");
        }
        assert_eq!(names.lookups(), 2);
    }

    #[tokio::test]
    async fn a_lookup_that_panics_is_an_error_and_the_next_one_asks_again() {
        let lookup = Arc::new(NameLookup::new("api.internal:80".to_owned()));
        let names = Names::new();
        names.lookups.store(2, Ordering::Relaxed);
        for lookups in [3, 4] {
            names.permits.add_permits(1);
            for found in find(&lookup, &names).join_all().await {
                assert_eq!(found.unwrap_err().kind(), io::ErrorKind::Other);
            }
            assert_eq!(names.lookups(), lookups);
        }
    }

    #[tokio::test]
    async fn names_and_addresses_are_found() {
        for (address, expected) in [
            ("192.0.2.7:80", "192.0.2.7:80"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
        ] {
            let found = NameLookup::new(address.to_owned()).find().await.unwrap();
            assert_eq!(found, [expected.parse().unwrap()]);
        }
        let local = NameLookup::new("localhost:80".to_owned()).find().await;
        assert!(local.unwrap().iter().all(|one| one.ip().is_loopback()));
    }
}
