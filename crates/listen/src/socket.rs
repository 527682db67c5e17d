//! The stream of a connection: it closes if the peer does not read, pauses reading at the end of
//! the connection's quantum, and counts incoming frames.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;
use tokio::time::Sleep;

use crate::connection::{Close, Connection};
use crate::deferral::Deferral;
use crate::drain_end::{DrainEnd, poll_timer};
use crate::frames::Frames;
use crate::held_answers::HeldAnswers;
use crate::own_response::OwnResponse;
use crate::preface::FirstBytes;

/// A stream on which no single write waits longer than `write_timeout`.
///
/// Otherwise a peer that sends requests and never reads would keep its connection for ever.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    stream: S,
    /// Bytes that were read from the stream already, and that a reader gets first.
    first: FirstBytes,
    /// Bytes that the HTTP library has read beyond the last request; a reader gets them next.
    unused: Bytes,
    connection: Arc<Connection>,
    /// Of HTTP/2.
    frames: Option<Frames>,
    write_timeout: Duration,
    deferral: Deferral,
    /// Only if answers are deferred.
    held: HeldAnswers,
    /// Of HTTP/1, until its connection has ended.
    own_response: Option<OwnResponse>,
    /// Since when a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Since when the stream is to end.
    ending: Option<Pin<Box<Sleep>>>,
    /// `None` if a drain does not end it.
    drain_end: Option<DrainEnd>,
}

// === impl Socket ===

impl<S> Socket<S> {
    /// A stream from which `first` was read already. One of HTTP/2 has `frames`; HTTP/1 has none.
    pub(crate) fn new(
        stream: S,
        first: FirstBytes,
        connection: Arc<Connection>,
        frames: Option<Frames>,
        write_timeout: Duration,
    ) -> Socket<S> {
        Socket {
            stream,
            first,
            unused: Bytes::new(),
            connection,
            frames,
            write_timeout,
            deferral: Deferral::off(),
            held: HeldAnswers::default(),
            own_response: None,
            waiting: None,
            ending: None,
            drain_end: None,
        }
    }

    /// The same stream, which ends when the connection is drained: once nothing has arrived for
    /// [`DRAIN_QUIET`](crate::drain_end::DRAIN_QUIET), or at half of the drain.
    pub(crate) fn with_end_on_drain(self, drain_timeout: Duration) -> Socket<S> {
        Socket {
            drain_end: Some(DrainEnd::new(drain_timeout)),
            ..self
        }
    }

    /// From now on a drain does not end it; whether one has, although the peer may still send.
    pub(crate) fn forget_drain(&mut self) -> bool {
        let drain_end = self.drain_end.take();
        drain_end.is_some_and(|end| end.has_stopped())
    }

    /// The same stream, whose answers leave once the other connections that are ready have been
    /// read; those of a resumed pipeline leave in one write. Each poll of the connection must begin
    /// a quantum.
    pub(crate) fn with_deferral(self) -> Socket<S> {
        Socket {
            deferral: Deferral::on(),
            ..self
        }
    }

    /// The same stream, which withholds what the HTTP library writes itself.
    pub(crate) fn with_own_response(self) -> Socket<S> {
        Socket {
            own_response: Some(OwnResponse::default()),
            ..self
        }
    }

    /// What was withheld, if anything. From now on nothing is.
    pub(crate) fn take_own_response(&mut self) -> Option<OwnResponse> {
        let own_response = self.own_response.take();
        own_response.filter(|response| !response.is_empty())
    }

    /// Withholds what is to be written if it is the library's: how many bytes these are.
    fn withhold(&mut self, parts: &[IoSlice<'_>]) -> Option<usize> {
        let own_response = self.own_response.as_mut()?;
        if !self.connection.exchange().is_none() {
            return None;
        }
        own_response.withhold(parts)
    }

    /// Whether something is withheld, so that the stream goes on.
    fn withholds(&self) -> bool {
        let own_response = self.own_response.as_ref();
        own_response.is_some_and(|response| !response.is_empty())
    }

    /// From now on everything leaves at once.
    pub(crate) const fn end_deferral(&mut self) {
        self.deferral = Deferral::off();
    }

    /// Ready if something may be written now.
    fn poll_permitted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.connection.has_to_write() {
            return Poll::Ready(());
        }
        let quantum = self.connection.quantum();
        ready!(quantum.poll_write(cx));
        self.deferral.poll_write(quantum.turn(), cx)
    }

    /// Returns bytes to the stream that were read already.
    pub(crate) fn unread(&mut self, bytes: Bytes) {
        self.unused = bytes;
    }

    /// Copies bytes that were read already; whether there were any.
    fn read_again(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        if !self.first.rest().is_empty() {
            buf.put_slice(self.first.take(buf.remaining()));
            return true;
        }
        let count = buf.remaining().min(self.unused.len());
        buf.put_slice(&self.unused.split_to(count));
        count > 0
    }

    /// Whether what is written now may be held until the next turn: the connection resumes a
    /// pipeline.
    fn may_hold(&self) -> bool {
        let connection = &self.connection;
        let resumes = self.deferral.is_on() && connection.quantum().resumes_requests();
        resumes && !connection.has_to_write()
    }

    /// Takes what does not leave now: how many bytes. `None` if something may be written, and all
    /// that was held has been.
    fn poll_take(
        &mut self,
        parts: &[IoSlice<'_>],
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<usize>>>
    where
        S: AsyncWrite + Unpin,
    {
        let mut taken = self.withhold(parts);
        if taken.is_none() && self.may_hold() {
            let count = self.held.hold(parts, self.connection.quantum().turn());
            taken = (count > 0).then_some(count);
        }
        if taken.is_none() {
            ready!(self.poll_held(cx))?;
            ready!(self.poll_permitted(cx));
        }
        Poll::Ready(Ok(taken))
    }

    fn record_sent(&mut self, parts: &[IoSlice<'_>], written: &Poll<Result<usize>>) {
        let Poll::Ready(Ok(bytes)) = written else {
            return;
        };
        self.connection.quantum().record_written(*bytes);
        if let Some(frames) = &mut self.frames {
            frames.record_sent(parts, *bytes);
        }
    }

    /// Returns the outcome of a write, or an error once it has waited too long.
    fn check_timeout<T>(&mut self, cx: &mut Context<'_>, poll: Poll<Result<T>>) -> Poll<Result<T>> {
        if poll.is_ready() {
            self.waiting = None;
            return poll;
        }
        ready!(poll_timer(&mut self.waiting, self.write_timeout, cx));
        self.give_up()
    }

    /// Writes what is held.
    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        while !self.held.is_empty() {
            let poll = Pin::new(&mut self.stream).poll_write(cx, self.held.rest());
            self.record_sent(&[], &poll);
            let written = ready!(self.check_timeout(cx, poll))?;
            if written == 0 {
                return Poll::Ready(Err(Error::from(ErrorKind::WriteZero)));
            }
            self.held.record_written(written);
        }
        Poll::Ready(Ok(()))
    }

    fn give_up<T>(&self) -> Poll<Result<T>> {
        self.connection.record_close(Close::SlowReader);
        Poll::Ready(Err(Error::from(ErrorKind::TimedOut)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = self.get_mut();
        ready!(this.connection.quantum().poll_read(cx));
        if let Some(end) = &mut this.drain_end
            && end.poll_half(&this.connection, cx).is_ready()
        {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let is_again = this.read_again(buf);
        // In one read with what follows: a reader that gets part of a request makes room for more.
        if buf.remaining() > 0 {
            match Pin::new(&mut this.stream).poll_read(cx, buf) {
                Poll::Ready(read) => read?,
                Poll::Pending if is_again => {}
                Poll::Pending => {
                    // TLS reads several times for some data, and may have used up the quantum.
                    ready!(this.connection.quantum().poll_read(cx));
                    this.connection.quantum().record_drained();
                    let Some(end) = &mut this.drain_end else {
                        return Poll::Pending;
                    };
                    return end.poll_quiet(&this.connection, cx).map(Ok);
                }
            }
        }
        if let Some(end) = &mut this.drain_end {
            end.record_read();
        }
        let read = &buf.filled()[before..];
        let quantum = this.connection.quantum();
        quantum.record_read(read.len());
        this.deferral.record_read(quantum.turn());
        if let Some(frames) = &mut this.frames
            && let Err(flood) = frames.read(read, Instant::now())
        {
            this.connection.record_close(Close::Flood(flood.0));
            return Poll::Ready(Err(Error::other("too many frames without a request")));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        if let Some(taken) = ready!(this.poll_take(&[IoSlice::new(buf)], cx))? {
            return Poll::Ready(Ok(taken));
        }
        let poll = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.record_sent(&[IoSlice::new(buf)], &poll);
        this.check_timeout(cx, poll)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        // What is held leaves in the next turn, once those that are ready have been polled; the
        // next request of the pipeline is answered meanwhile.
        if this.may_hold() && this.held.is_of(this.connection.quantum().turn()) {
            let _later = pin!(yield_now()).poll(cx);
            this.connection.exchange().record_flush();
            return Poll::Ready(Ok(()));
        }
        ready!(this.poll_held(cx))?;
        let poll = Pin::new(&mut this.stream).poll_flush(cx);
        if let Poll::Ready(Ok(())) = poll {
            this.connection.exchange().record_flush();
        }
        this.check_timeout(cx, poll)
    }

    /// May wait for the peer: the last message of TLS needs room in the socket. Writes that succeed
    /// meanwhile, such as an empty flush, do not prolong this.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if this.withholds() {
            return Poll::Ready(Ok(()));
        }
        ready!(this.poll_held(cx))?;
        let poll = Pin::new(&mut this.stream).poll_shutdown(cx);
        if poll.is_ready() {
            return poll;
        }
        ready!(poll_timer(&mut this.ending, this.write_timeout, cx));
        this.give_up()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let this = self.get_mut();
        if let Some(taken) = ready!(this.poll_take(bufs, cx))? {
            return Poll::Ready(Ok(taken));
        }
        let poll = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.record_sent(bufs, &poll);
        this.check_timeout(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::poll_fn;
    use std::sync::Mutex;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::advance;

    use super::*;
    use crate::address::PeerAddress;
    use crate::budget::Budget;
    use crate::drain_end::DRAIN_QUIET;
    use crate::limits::Limits;
    use crate::preface::read_first;

    fn connection() -> Arc<Connection> {
        let budget = Arc::new(Budget::new(&Limits::default()));
        let (peer, now) = (PeerAddress::Unix, Instant::now());
        Arc::new(Connection::new(peer, false, 1000, budget, now))
    }

    /// A drained socket that ends on a drain, and its peer.
    fn drained(drain_timeout: Duration) -> (DuplexStream, Socket<DuplexStream>) {
        let connection = connection();
        connection.drain();
        let (peer, stream) = duplex(1000);
        let first = FirstBytes::default();
        let socket = Socket::new(stream, first, connection, None, Duration::ZERO);
        (peer, socket.with_end_on_drain(drain_timeout))
    }

    #[tokio::test]
    async fn bytes_that_were_read_already_arrive_in_one_read_with_those_that_follow() {
        let (mut peer, stream) = duplex(1000);
        let request = b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n";
        peer.write_all(request).await.unwrap();
        let mut stream = stream;
        let mut first = FirstBytes::default();
        read_first(&mut stream, &mut first).await.unwrap();
        assert!(!first.rest().is_empty());
        let mut socket = Socket::new(stream, first, connection(), None, Duration::ZERO);
        let mut read = [0; 1000];
        assert_eq!(socket.read(&mut read).await.unwrap(), request.len());
        assert_eq!(&read[..request.len()], request);
        // What was read by the HTTP library comes first, without waiting for more.
        socket.unread(Bytes::from_static(b"again "));
        assert_eq!(socket.read(&mut read).await.unwrap(), 6);
        socket.unread(Bytes::from_static(b"again "));
        peer.write_all(b"and more").await.unwrap();
        assert_eq!(socket.read(&mut read).await.unwrap(), 14);
        assert_eq!(&read[..14], b"again and more");
    }

    /// Answers each byte with itself, as the connections that are served do: each poll of one is a
    /// turn, and what happens is noted.
    async fn answer_bytes(
        mut socket: Socket<DuplexStream>,
        name: char,
        events: Arc<Mutex<Vec<(char, &'static str)>>>,
    ) {
        let connection = Arc::clone(&socket.connection);
        let note = |event| events.lock().unwrap().push((name, event));
        let mut run = Box::pin(async {
            while let Ok(byte) = socket.read_u8().await {
                note("read");
                socket.write_u8(byte).await.unwrap();
                note("written");
            }
        });
        poll_fn(|cx| {
            connection.quantum().begin(cx);
            run.as_mut().poll(cx)
        })
        .await;
    }

    #[tokio::test]
    async fn answers_leave_once_all_connections_that_are_ready_have_been_read() {
        let events = Arc::default();
        let (mut peers, mut tasks) = (Vec::new(), tokio::task::JoinSet::new());
        for name in ['a', 'b', 'c'] {
            let (mut peer, stream) = duplex(1000);
            peer.write_u8(7).await.unwrap();
            let first = FirstBytes::default();
            let socket = Socket::new(stream, first, connection(), None, Duration::ZERO);
            tasks.spawn(answer_bytes(
                socket.with_deferral(),
                name,
                Arc::clone(&events),
            ));
            peers.push(peer);
        }
        for peer in &mut peers {
            assert_eq!(peer.read_u8().await.unwrap(), 7);
        }
        drop(peers);
        tasks.join_all().await;
        let events = events.lock().unwrap();
        let (read, written) = events.split_at(3);
        assert!(read.iter().all(|(_, event)| *event == "read"), "{read:?}");
        assert_eq!(written.len(), 3);
    }

    /// What has arrived.
    async fn read_now(peer: &mut DuplexStream) -> String {
        let mut bytes = [0; 100];
        let mut read = ReadBuf::new(&mut bytes);
        poll_fn(|cx| {
            let _nothing = Pin::new(&mut *peer).poll_read(cx, &mut read);
            Poll::Ready(())
        })
        .await;
        String::from_utf8(read.filled().to_vec()).unwrap()
    }

    /// Begins turns of a connection until one resumes a request that has waited for it.
    async fn resume(known: &Connection) {
        poll_fn(|cx| {
            known.quantum().begin(cx);
            while known.poll_decide(100, cx).is_ready() {}
            Poll::Ready(())
        })
        .await;
        while !known.quantum().resumes_requests() {
            yield_now().await;
            begin(known).await;
        }
    }

    async fn begin(known: &Connection) {
        poll_fn(|cx| {
            known.quantum().begin(cx);
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn answers_to_a_pipeline_that_is_resumed_leave_in_one_write() {
        let (mut peer, stream) = duplex(1000);
        let known = connection();
        let first = FirstBytes::default();
        let socket = Socket::new(stream, first, Arc::clone(&known), None, Duration::ZERO);
        let mut socket = socket.with_deferral();
        resume(&known).await;
        for answer in [b"a", b"b"] {
            socket.write_all(answer).await.unwrap();
            socket.flush().await.unwrap();
        }
        assert_eq!(read_now(&mut peer).await, "");
        begin(&known).await;
        socket.write_all(b"c").await.unwrap();
        socket.flush().await.unwrap();
        assert_eq!(read_now(&mut peer).await, "abc");
        // Of the turn in which they left, the rest leaves in the next one.
        socket.write_all(b"d").await.unwrap();
        socket.flush().await.unwrap();
        assert_eq!(read_now(&mut peer).await, "");
        begin(&known).await;
        socket.flush().await.unwrap();
        assert_eq!(read_now(&mut peer).await, "d");
        // Without a pipeline nothing is held.
        known.quantum().record_drained();
        begin(&known).await;
        socket.write_all(b"e").await.unwrap();
        assert_eq!(read_now(&mut peer).await, "e");
        // What is held leaves before what is written at the end, and when it is closed.
        resume(&known).await;
        socket.write_all(b"f").await.unwrap();
        known.close(Close::Idle);
        socket.write_all(b"g").await.unwrap();
        assert_eq!(read_now(&mut peer).await, "fg");
    }

    #[tokio::test]
    async fn the_last_poll_of_a_connection_sends_what_there_is() {
        let (mut peer, stream) = duplex(1000);
        peer.write_u8(7).await.unwrap();
        let known = connection();
        let first = FirstBytes::default();
        let socket = Socket::new(stream, first, Arc::clone(&known), None, Duration::ZERO);
        let mut socket = socket.with_deferral();
        let mut answer = Box::pin(async {
            let byte = socket.read_u8().await.unwrap();
            socket.write_u8(byte).await.unwrap();
        });
        poll_fn(|cx| {
            assert!(answer.as_mut().poll(cx).is_pending());
            known.close(Close::Idle);
            answer.as_mut().poll(cx)
        })
        .await;
        assert_eq!(peer.read_u8().await.unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_peer_has_sent_is_read_although_it_arrives_after_the_drain_began() {
        let (mut peer, mut socket) = drained(Limits::default().drain_timeout);
        let late = async move {
            for part in [&b"on "[..], b"its ", b"way"] {
                advance(DRAIN_QUIET / 2).await;
                peer.write_all(part).await.unwrap();
            }
            peer
        };
        let mut read = String::new();
        let (read_all, _open) = tokio::join!(socket.read_to_string(&mut read), late);
        assert_eq!((read_all.unwrap(), read.as_str()), (10, "on its way"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_connection_ends_before_the_drain_does() {
        for drain_timeout in [Duration::from_millis(10), Duration::from_secs(10)] {
            let (_peer, mut socket) = drained(drain_timeout);
            let began = tokio::time::Instant::now();
            assert_eq!(socket.read(&mut [0; 10]).await.unwrap(), 0);
            assert!(began.elapsed() < drain_timeout);
        }
    }

    /// What arrives later can still be read and discarded.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_never_quiet_is_read_for_half_of_the_drain() {
        let drain_timeout = Duration::from_secs(10);
        let (mut peer, mut socket) = drained(drain_timeout);
        let began = tokio::time::Instant::now();
        let mut times = tokio::time::interval(DRAIN_QUIET / 2);
        let send = async {
            loop {
                times.tick().await;
                if peer.write_all(b"more").await.is_err() {
                    return;
                }
            }
        };
        let read = async {
            while socket.read(&mut [0; 10]).await.unwrap() > 0 {}
            let read_for = began.elapsed();
            assert_eq!(socket.read(&mut [0; 10]).await.unwrap(), 0);
            assert!(socket.forget_drain());
            assert_eq!(socket.read(&mut [0; 4]).await.unwrap(), 4);
            read_for
        };
        tokio::select! {
            () = send => unreachable!(),
            read_for = read => {
                let late = read_for.checked_sub(drain_timeout / 2).unwrap();
                assert!(late <= Duration::from_millis(1), "{late:?}");
            }
        }
    }
}
