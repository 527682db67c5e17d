#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::time::Duration;

use http::{Request, Response, Version};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc::channel;
use tokio::task::JoinSet;
use tokio::time::{advance, pause};
use tollgate_behaviour::{Random, check};

use super::*;

const IDLE: Duration = Duration::from_secs(60);

/// What a client sends: after a pause, so many bytes.
type Part = (Duration, u64);

/// A body of which a client has sent a part, and what ends it when it is dropped.
pub(crate) async fn unfinished() -> (RequestBody, (DuplexStream, JoinSet<()>)) {
    let (mut client, server) = duplex(1_024);
    let head = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 10\r\n\r\npart";
    client.write_all(head).await.unwrap();
    let (sender, mut bodies) = channel(1);
    let service = service_fn(move |request: Request<Incoming>| {
        let _sent = sender.try_send(request.into_body());
        pending::<Result<Response<Empty<Bytes>>, Infallible>>()
    });
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let served = http1::Builder::new().serve_connection(TokioIo::new(server), service);
        let _ended = served.await;
    });
    let incoming = bodies.recv().await.unwrap();
    let received = ReceivedBody::new(incoming, Version::HTTP_11);
    let body = RequestBody::new(received, 10, IDLE, 0);
    (body, (client, serving))
}

/// Its concurrency limits no longer count it.
#[tokio::test]
async fn a_body_ends_some_time_after_its_response() {
    let (mut body, (mut client, _serving)) = unfinished().await;
    let first = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
    assert_eq!(first.unwrap().unwrap().into_data().unwrap(), "part");
    pause();
    body.progress().unwrap().record_answer();
    client.write_all(b"m").await.unwrap();
    let more = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
    assert_eq!(more.unwrap().unwrap().into_data().unwrap(), "m");
    advance(UPLOAD_TIME + Duration::from_millis(1)).await;
    client.write_all(b"more").await.unwrap();
    let late = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
    assert!(matches!(late, Some(Err(BodyError::Late))), "{late:?}");
}

/// How long a client of these parts is waited for until it is given up, and the rate that it fell
/// behind, if any; `None` if it is not given up.
async fn play(pace: &mut ArrivalPace, parts: &[Part]) -> Option<(Duration, Option<u64>)> {
    let began = Instant::now();
    for (pause, bytes) in parts {
        let limit = pace.begin_wait();
        if *pause >= limit {
            advance(limit).await;
            return Some((began.elapsed(), pace.missed_rate()));
        }
        advance(*pause).await;
        pace.end_wait();
        pace.add(*bytes);
    }
    None
}

#[tokio::test]
async fn a_byte_now_and_then_does_not_suffice() {
    pause();
    let drip = [(Duration::from_secs(1), 1); 1000];
    let ended = play(&mut ArrivalPace::new(IDLE, 240), &drip).await;
    // A minute, and a quarter of a second for sixty bytes.
    assert_eq!(ended, Some((Duration::from_millis(60_250), Some(240))));
    // As long as there is no least rate, only pauses count.
    assert!(play(&mut ArrivalPace::new(IDLE, 0), &drip).await.is_none());
    let silence = play(&mut ArrivalPace::new(IDLE, 0), &[(IDLE, 1)]).await;
    assert_eq!(silence, Some((IDLE, None)));
    let silence = play(&mut ArrivalPace::new(IDLE, 240), &[(IDLE, 1)]).await;
    assert_eq!(silence, Some((IDLE, None)));
}

#[tokio::test]
async fn the_least_rate_suffices_and_pauses_are_forgiven() {
    pause();
    let steady = [(Duration::from_secs(1), 240); 10_000];
    let mut pace = ArrivalPace::new(IDLE, 240);
    assert!(play(&mut pace, &steady).await.is_none());
    // As long a pause as without a least rate.
    let after_pause = [
        (Duration::from_secs(59), 240),
        (Duration::from_secs(1), 240),
    ];
    assert!(play(&mut pace, &after_pause).await.is_none());
    // Time in which the upstream takes nothing is not the client's.
    advance(Duration::from_secs(3600)).await;
    assert!(
        play(&mut pace, &[(Duration::from_secs(1), 1)])
            .await
            .is_none()
    );
}

fn any_parts(random: &mut Random) -> Vec<Part> {
    let parts = (0..random.between(1, 60)).map(|_| {
        let pause = Duration::from_millis(random.any_size(100_000));
        (pause, random.any_size(100_000))
    });
    parts.collect()
}

#[test]
fn waits_are_bounded_by_the_bytes_that_came() {
    check("bodies", 2000, |random| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().start_paused(true).build();
        let parts = any_parts(random);
        let rate = random.between(1, 10_000);
        let ended = runtime.unwrap().block_on(async {
            let mut pace = ArrivalPace::new(IDLE, rate);
            play(&mut pace, &parts).await
        });
        // The same, in one sum over all parts.
        let (mut waited, mut sent) = (Duration::ZERO, 0);
        let mut expected = None;
        for (pause, bytes) in parts {
            let left = IDLE + Duration::from_millis(sent * 1000 / rate) - waited;
            if pause >= left.min(IDLE) {
                expected = Some((waited + left.min(IDLE), left < IDLE));
                break;
            }
            waited += pause;
            sent += bytes;
        }
        let ended = ended.map(|(after, missed)| (after, missed.is_some()));
        assert_eq!(ended, expected);
    });
}
