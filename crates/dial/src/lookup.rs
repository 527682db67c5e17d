//! The IP addresses of servers: one lookup of a name at a time, and a few of all names.
//!
//! The system's lookup blocks a thread and cannot be cancelled: it goes on when the connection that
//! needs it has timed out. With a lookup for each attempt to connect, a name server that does not
//! answer would soon occupy all threads that the runtime has for blocking work, which others need
//! to read files. So attempts that come meanwhile share a lookup. Its result is not kept for later
//! ones.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::net::lookup_host;
use tokio::sync::{Semaphore, watch};

/// The most lookups of this process in flight, and so the threads that they block. Further ones
/// wait.
pub const LOOKUPS_MAX: usize = 4;

static LOOKUPS: LazyLock<Lookups> = LazyLock::new(Lookups::new);

/// Lookups in flight, by `host:port`.
struct Lookups {
    in_flight: Mutex<HashMap<String, Pending>>,
    permits: Semaphore,
}

/// What a lookup will have found. Its task has the other end until then.
type Pending = watch::Receiver<Option<Found>>;

/// What a lookup has found, or why it has failed.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;

/// The IP addresses of `host:port`, in the system's order. Looks its name up, or waits for the
/// lookup of that name that is in flight, which goes on if this is dropped.
///
/// # Errors
///
/// Why the lookup has failed.
pub(crate) async fn find(address: &str) -> io::Result<Vec<SocketAddr>> {
    match address.parse() {
        Ok(ip) => Ok(vec![ip]),
        Err(_) => {
            let look_up = |name| async { Ok(lookup_host::<String>(name).await?.collect()) };
            LOOKUPS.find_by(address, look_up).await
        }
    }
}

// === impl Lookups ===

impl Lookups {
    fn new() -> Lookups {
        Lookups {
            in_flight: Mutex::default(),
            permits: Semaphore::new(LOOKUPS_MAX),
        }
    }

    /// [`find`] with another way to look up a name.
    async fn find_by<F>(
        &'static self,
        address: &str,
        look_up: impl FnOnce(String) -> F,
    ) -> io::Result<Vec<SocketAddr>>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let mut found = self.join(address, look_up);
        let found = found.wait_for(Option::is_some).await;
        let found = found.map_err(|_| io::Error::other("the lookup has panicked"))?;
        let found = found.as_ref().expect("it was waited for");
        found
            .clone()
            .map_err(|(kind, text)| io::Error::new(kind, text))
    }

    /// The lookup in flight, or else one that begins now.
    fn join<F>(&'static self, address: &str, look_up: impl FnOnce(String) -> F) -> Pending
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let mut in_flight = self.lock();
        // Without its other end, its task has panicked, or its runtime has ended.
        let other = in_flight.get(address);
        if let Some(other) = other.filter(|one| one.has_changed().is_ok()) {
            return other.clone();
        }
        let (result, found) = watch::channel(None);
        in_flight.insert(address.to_owned(), found.clone());
        let address = address.to_owned();
        let looked_up = look_up(address.clone());
        // In a task, so that it also goes on here when what began it has timed out.
        tokio::spawn(async move {
            let permit = self.permits.acquire().await;
            let looked_up = looked_up.await;
            drop(permit);
            self.lock().remove(&address);
            let looked_up = looked_up.map_err(|error| (error.kind(), error.to_string()));
            result.send_replace(Some(looked_up));
        });
        found
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Pending>> {
        self.in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::task::{JoinSet, yield_now};
    use tokio::time::timeout;

    use super::*;

    const NAME: &str = "api.internal:80";

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

    fn lookups() -> &'static Lookups {
        Box::leak(Box::new(Lookups::new()))
    }

    fn find_all(all: &'static Lookups, names: &Names) -> JoinSet<io::Result<Vec<SocketAddr>>> {
        let mut finding = JoinSet::new();
        for _ in 0..100 {
            let names = names.clone();
            finding.spawn(async move { all.find_by(NAME, |name| names.look_up(name)).await });
        }
        finding
    }

    #[tokio::test]
    async fn connections_that_are_opened_at_once_share_a_lookup_also_if_some_give_up() {
        let (all, names) = (lookups(), Names::new());
        for _ in 0..3 {
            let given_up = find_all(all, &names);
            while names.lookups() == 0 {
                yield_now().await;
            }
            drop(given_up);
        }
        let waiting = find_all(all, &names);
        yield_now().await;
        assert_eq!(names.lookups(), 1);
        names.permits.add_permits(1);
        for found in waiting.join_all().await {
            assert_eq!(found.unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        }
        assert!(all.lock().is_empty());

        // The next one asks again, and what it hears is true for all.
        names.permits.add_permits(1);
        for found in find_all(all, &names).join_all().await {
            let error = found.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert_eq!(error.to_string(), NAME);
        }
        assert_eq!(names.lookups(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_time_out_leave_a_few_lookups_whatever_the_number_of_names() {
        let (all, names) = (lookups(), Names::new());
        for attempt in 0..1000 {
            let (address, asked) = (format!("host-{}:80", attempt % 50), names.clone());
            let found = all.find_by(&address, |name| asked.look_up(name));
            let found = timeout(Duration::from_millis(50), found).await;
            assert!(found.is_err(), "nobody answers");
        }
        assert_eq!(names.lookups(), LOOKUPS_MAX);
        assert_eq!(all.lock().len(), 50);
    }

    #[tokio::test]
    async fn a_lookup_that_panics_is_an_error_and_the_next_one_asks_again() {
        let (all, names) = (lookups(), Names::new());
        names.lookups.store(2, Ordering::Relaxed);
        for lookups in [3, 4] {
            names.permits.add_permits(1);
            for found in find_all(all, &names).join_all().await {
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
            assert_eq!(find(address).await.unwrap(), [expected.parse().unwrap()]);
        }
        let local = find("localhost:80").await.unwrap();
        assert!(local.iter().all(|one| one.ip().is_loopback()));
    }
}
