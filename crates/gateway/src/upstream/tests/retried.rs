//! Requests that are sent again to other addresses.

use super::*;

/// Two servers close the connection of a request. The third has another request, so it is the
/// last to which new ones go, but the only one that was not tried.
#[tokio::test]
async fn a_request_is_sent_to_each_address_before_it_is_sent_to_one_again() {
    let ([one, two], addresses) = two_servers().await;
    let third = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let third_address = third.local_addr().unwrap().to_string();
    let addresses = [&addresses[..], std::slice::from_ref(&third_address)].concat();
    let upstream = open_upstream(&UpstreamSettings {
        retries: retries(2),
        ..settings_of(addresses, UpstreamProtocol::Http1)
    });
    let _busy = upstream.pools[2].lease().await.unwrap();
    let mut serving = JoinSet::new();
    for server in [one, two] {
        serving.spawn(async move {
            let (mut stream, _peer) = server.accept().await.unwrap();
            let _read = stream.read(&mut [0; 1_024]).await.unwrap();
            drop(stream);
            // A second request is answered.
            answer_one(&server).await
        });
    }
    serving.spawn(async move {
        drop(third.accept().await.unwrap());
        answer_one(&third).await
    });
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let lease = upstream.lease().await.unwrap();
    let sent = upstream.send(lease, request(), TIMEOUT, &clock).await;
    let (response, lease) = sent.unwrap();
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert_eq!(lease.pool().address(), third_address);
}
