//! Which of several addresses a request goes to: the one with the fewest requests in flight.

use std::net::SocketAddr;

use tokio::select;

use super::upstream::{Actor, Stage};
use super::{FREE, RULES, gateway_with, section_of};
use crate::http_client::Client;

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";
const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone";

/// The next request, on a connection of its own, and which of the servers it came to.
async fn accept(stages: &[Stage; 3]) -> (usize, Actor) {
    let [one, two, three] = stages;
    let (index, mut actor) = select! {
        actor = one.accept() => (0, actor),
        actor = two.accept() => (1, actor),
        actor = three.accept() => (2, actor),
    };
    actor.head().await;
    (index, actor)
}

/// A request, on a connection of its own.
async fn begin(gateway: SocketAddr) -> Client {
    let mut client = Client::to(gateway).await;
    client.send(GET).await;
    client
}

#[tokio::test]
async fn requests_go_to_the_server_without_one_while_the_others_are_slow() {
    let stages = [
        Stage::open().await,
        Stage::open().await,
        Stage::open().await,
    ];
    let addresses = stages.each_ref().map(Stage::address);
    let addresses = addresses.map(|address| format!("'{address}'")).join(", ");
    let settings = section_of(&format!("{{addresses: [{addresses}]}}"), FREE);
    let house = gateway_with(RULES, settings, |_| ()).await;
    let gateway = house.gateway();
    let mut slow = Vec::new();
    for _ in 0..2 {
        let client = begin(gateway).await;
        slow.push((client, accept(&stages).await));
    }
    let busy = [slow[0].1.0, slow[1].1.0];
    assert_ne!(busy[0], busy[1], "both slow requests went to one server");
    let idle = 3 - busy[0] - busy[1];
    for _ in 0..12 {
        let mut client = begin(gateway).await;
        let (index, mut actor) = accept(&stages).await;
        assert_eq!(index, idle, "the servers {busy:?} are busy");
        actor.send(DONE).await;
        assert_eq!(client.reply().await.unwrap().body, "done");
    }
    // With one each, any of them may be next. Once one has answered, it is that one.
    let _also_slow = (begin(gateway).await, accept(&stages).await);
    let (mut client, (free, mut actor)) = slow.pop().unwrap();
    actor.send(DONE).await;
    assert_eq!(client.reply().await.unwrap().body, "done");
    for _ in 0..3 {
        let mut client = begin(gateway).await;
        let (index, mut actor) = accept(&stages).await;
        assert_eq!(index, free);
        actor.send(DONE).await;
        assert_eq!(client.reply().await.unwrap().body, "done");
    }
    assert_eq!(slow.len(), 1);
}
