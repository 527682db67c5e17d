//! Searches for an address that accepts a connection.

use super::*;

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
            assert!(searches.find_lease(None).await.is_err());
        }
    });
    let searched = searching.await;
    has_ended.store(true, Ordering::Relaxed);
    checks.join().unwrap();
    assert!(searched.is_ok());
}
