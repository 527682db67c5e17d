//! Searches for an address that accepts a connection.

use tokio::time::{pause, timeout};
use tollgate_core::{Span, Timeline};
use tollgate_engine::Pace;

use super::*;
use crate::load_trend::LoadSettings;
use crate::settings::UpstreamTlsSettings;

/// How often an address is looked for while the health of all changes.
const SEARCHES: usize = 100_000;

/// A search reads the health of addresses while their checks change it.
#[tokio::test]
async fn addresses_may_fail_their_checks_while_a_request_looks_for_one() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    let upstream = upstream_of(vec![address; 2], UpstreamProtocol::Http1, 1);
    // Both have as many requests as they may, so that no search takes long.
    let _busy = [
        upstream.lease().await.unwrap(),
        upstream.lease().await.unwrap(),
    ];
    let upstream = Arc::new(upstream);
    let has_ended = Arc::new(AtomicBool::new(false));
    let checks = std::thread::spawn({
        let (upstream, has_ended) = (Arc::clone(&upstream), Arc::clone(&has_ended));
        move || {
            for passes in [true, false].into_iter().cycle() {
                if has_ended.load(Ordering::Relaxed) {
                    return;
                }
                for pool in &upstream.pools {
                    pool.health.set_passes_checks(passes);
                }
            }
        }
    });
    let searches = Arc::clone(&upstream);
    // Its panic is the task's.
    let searching = tokio::spawn(async move {
        for _ in 0..SEARCHES {
            assert!(
                searches
                    .find_lease(&Tried::default(), Instant::now())
                    .await
                    .is_err()
            );
        }
    });
    let searched = searching.await;
    has_ended.store(true, Ordering::Relaxed);
    checks.join().unwrap();
    assert!(searched.is_ok());
}

/// Each would take as long as a connection may.
#[tokio::test]
async fn a_search_ends_however_many_addresses_do_not_answer() {
    // Connections are accepted, and no handshake of TLS is answered.
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    let upstream = open_upstream(&UpstreamSettings {
        tls: Some(UpstreamTlsSettings::default()),
        ..settings_of(vec![address; 8], UpstreamProtocol::Http1)
    });
    pause();
    let search = timeout(4 * TIMEOUT, upstream.lease());
    let failure = search.await.unwrap().map(drop).unwrap_err();
    assert!(matches!(failure, Failure::SlowConnect), "{failure:?}");
}

/// A request whose connection was closed before it was sent, and for which no other address accepts
/// one, has failed once.
#[tokio::test]
async fn a_request_that_finds_no_other_connection_is_one_failure() {
    let ([one, other], addresses) = two_servers().await;
    let upstream = upstream_at(addresses.to_vec());
    drop(other);
    let manual = Arc::new(ManualClock::default());
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&manual);
    let pace = Pace {
        hold: Span::ZERO,
        sample_age_max: Span::MINUTE,
    };
    let now = clock.on(Timeline::Monotonic);
    upstream.load.sample(&LoadSettings::default(), pace, now);

    let lease = upstream.lease().await.unwrap();
    assert_eq!(lease.pool().address(), addresses[0]);
    let sending = upstream.send(lease, request(), TIMEOUT, &clock);
    let (sent, kept) = tokio::join!(sending, answer_one(&one));
    let (response, lease) = sent.unwrap();
    drop(response);
    lease.finish();
    yield_now().await;
    let reused = upstream.lease().await.unwrap();
    assert!(reused.may_be_stale());
    drop((kept, one));
    for _ in 0..TURNS {
        yield_now().await;
    }
    let sending = upstream.send(reused, request(), TIMEOUT, &clock);
    assert!(!sending.await.unwrap_err().was_sent);
    assert_eq!(upstream.load.failures(), 1);
}
