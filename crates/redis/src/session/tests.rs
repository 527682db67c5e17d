#![allow(clippy::unwrap_used)]

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{sleep, timeout};
use tollgate_core::{Charge, Cost, Key, Limit, Span};

use super::*;
use crate::config::Config;
use crate::connection::{Hello, Opener};
use crate::connection_task::Target;
use crate::environment::Environment;
use crate::fit::FittedLimit;
use crate::request_queue::{Redirected, RequestQueue};
use crate::script::Caller;
use crate::script_request::ScriptKind;
use crate::stats::Stats;

/// How long a caller waits for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_millis(10);

/// A peer that has stopped reading: writes are buffered, as in TLS, and never sent.
struct Stuck;

impl AsyncRead for Stuck {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Stuck {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// A peer that replies late, and whose replies are seen only by the second read, as if this process
/// had been stopped from before they came until after they were due.
struct Unread {
    after: Duration,
    asked_at: Option<Instant>,
    was_looked_at: bool,
}

impl Unread {
    /// Replies later than after this time.
    fn after(after: Duration) -> Unread {
        Unread {
            after,
            asked_at: None,
            was_looked_at: false,
        }
    }
}

impl AsyncRead for Unread {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let is_due = |at: Instant| at.elapsed() > self.after;
        if !self.asked_at.is_some_and(is_due) {
            return Poll::Pending;
        }
        if !self.was_looked_at {
            self.was_looked_at = true;
            return Poll::Pending;
        }
        *self = Unread::after(self.after);
        into.put_slice(b"-ERR no\r\n");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Unread {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.asked_at.get_or_insert_with(Instant::now);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn request() -> ScriptRequest {
    let limit = Limit::fixed_window(9, Span::DAY).unwrap();
    let charge = Charge::new(Key::from_bits(1), &limit, Cost::ONE);
    ScriptRequest::of_one(&charge, &FittedLimit::new(&limit).unwrap())
}

/// A request queue with one session on a stuck connection; the receiver gets the reason it ended.
fn stuck() -> (RequestQueue, Arc<Stats>, oneshot::Receiver<End>) {
    session_on(Stuck, REPLY_TIMEOUT)
}

fn session_on(
    stream: impl Stream + 'static,
    reply_timeout: Duration,
) -> (RequestQueue, Arc<Stats>, oneshot::Receiver<End>) {
    let stats = Arc::new(Stats::default());
    let (reply, ended) = oneshot::channel();
    let queue = RequestQueue::new(reply_timeout, Arc::clone(&stats), |shared| async move {
        let task = ConnectionTask {
            opener: Opener::new(&Config::single("h:1"), &Environment::default()).unwrap(),
            target: Target::Fixed("h:1".into()),
            caller: Caller::default(),
            batch: 64,
        };
        let connection = Connection {
            stream: Box::new(stream),
            input: BytesMut::new(),
            scripts: ScriptKind::ALL.map(|_| vec![b'n'; 40]),
            hello: Hello::default(),
            checks_keys: false,
        };
        let mut lost = None;
        let session = Session::new(&task, &shared, connection, &"h:1".into(), &mut lost);
        reply.send(session.run().await).unwrap();
    });
    (queue, stats, ended)
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stops_reading_holds_up_nobody() {
    let (queue, _, ended) = stuck();
    for _ in 0..LOST_MAX {
        let since = Instant::now();
        let asked = timeout(
            10 * REPLY_TIMEOUT,
            queue.ask(request(), Some(0), Redirected::No, since),
        )
        .await;
        assert!(matches!(asked.unwrap(), Err(Failure::OutcomeUnknown)));
        assert_eq!(since.elapsed(), REPLY_TIMEOUT);
    }
    assert!(!queue.is_up(), "the breaker is open");
    let ended = timeout(Duration::from_secs(3), ended).await.unwrap();
    assert_eq!(ended, Ok(End::Broken { was_useful: false }));
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_is_counted_once() {
    let (queue, stats, ended) = stuck();
    let asked = queue
        .ask(request(), Some(0), Redirected::No, Instant::now())
        .await;
    assert!(matches!(asked, Err(Failure::OutcomeUnknown)));
    ended.await.unwrap();
    assert_eq!(stats.counts().lost, 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_that_is_dead_is_noticed_before_it_is_needed() {
    let (queue, _, ended) = stuck();
    let ended = timeout(Duration::from_secs(4), ended).await.unwrap();
    assert_eq!(ended, Ok(End::Broken { was_useful: false }));
    sleep(REPLY_TIMEOUT).await;
    assert!(!queue.is_up());
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_was_not_read_in_time_is_no_silence() {
    let (queue, _, mut ended) = session_on(Unread::after(SILENCE_MAX), REPLY_TIMEOUT);
    let went_on = timeout(10 * SILENCE_MAX, &mut ended).await;
    assert!(went_on.is_err(), "{went_on:?}");
    assert!(queue.is_up());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_for_longer_has_its_reply_after_a_long_silence() {
    let (queue, _, _ended) = session_on(Unread::after(5 * SILENCE_MAX), 10 * SILENCE_MAX);
    let asked = queue
        .ask(request(), Some(0), Redirected::No, Instant::now())
        .await;
    assert!(matches!(asked, Err(Failure::Rejected(_))), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_left_once_its_callers_have_given_up() {
    let (queue, _, ended) = session_on(Stuck, 10 * SILENCE_MAX);
    let since = Instant::now();
    let asked = queue.ask(request(), Some(0), Redirected::No, since).await;
    assert!(matches!(asked, Err(Failure::OutcomeUnknown)), "{asked:?}");
    assert_eq!(since.elapsed(), 10 * SILENCE_MAX);
    timeout(SILENCE_MAX, ended).await.unwrap().unwrap();
}

/// A server that was not found to check keys gets no request over several slots: the caller can
/// decide on each slot.
#[tokio::test(start_paused = true)]
async fn a_request_over_several_slots_is_rejected_where_keys_are_not_checked() {
    let (queue, _, _ended) = stuck();
    let since = Instant::now();
    let asked = queue.ask(request(), None, Redirected::No, since).await;
    assert!(matches!(asked, Err(Failure::Apart)), "{asked:?}");
    assert_eq!(since.elapsed(), Duration::ZERO);
}
