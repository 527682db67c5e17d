//! One direction of a stream, and the two ends of both.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Link, Network};
use crate::fault_kind::FaultKind;

/// Bytes that an end buffers until they are flushed.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// One direction of a stream: the bytes on their way.
pub(crate) struct Pipe {
    state: Mutex<State>,
    capacity: usize,
}

#[derive(Default)]
struct State {
    /// The messages, each with its time of arrival.
    queue: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    /// Whether the writer has closed it.
    is_closed: bool,
    is_broken: bool,
    cut: Option<Cut>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// A break that is due.
struct Cut {
    /// After how many more bytes that are read.
    left: usize,
    /// The other direction, which breaks as well.
    other: Arc<Pipe>,
    network: Arc<Network>,
}

/// One end of a stream.
pub(crate) struct End {
    network: Arc<Network>,
    link: Link,
    read: Arc<Pipe>,
    write: Arc<Pipe>,
    /// Written and not yet flushed, where the end buffers.
    buffer: Option<BytesMut>,
    timer: Option<Pin<Box<Sleep>>>,
}

// === impl Pipe ===

impl Pipe {
    pub(super) fn new(capacity: usize) -> Pipe {
        Pipe {
            state: Mutex::default(),
            capacity,
        }
    }

    pub(super) fn break_off(&self) {
        let mut state = self.state();
        state.is_broken = true;
        state.queue.clear();
        state.bytes = 0;
        drop(state);
        self.wake();
    }

    pub(super) fn cut_after(&self, bytes: usize, other: Arc<Pipe>, network: Arc<Network>) {
        self.state().cut = Some(Cut {
            left: bytes,
            other,
            network,
        });
    }

    pub(super) fn wake(&self) {
        let mut state = self.state();
        let wakers = [state.reader.take(), state.writer.take()];
        drop(state);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    fn close(&self) {
        self.state().is_closed = true;
        self.wake();
    }

    /// Takes up to `most` bytes that have arrived, or returns when some will.
    fn take(&self, most: usize, held_until: Option<Instant>, waker: &Waker) -> Taken {
        let mut state = self.state();
        if state.is_broken {
            return Taken::Broken;
        }
        let Some((arrives, message)) = state.queue.front_mut() else {
            if state.is_closed {
                return Taken::End;
            }
            state.reader = Some(waker.clone());
            return Taken::Later(None);
        };
        let from = held_until.map_or(*arrives, |held| held.max(*arrives));
        if from > Instant::now() {
            state.reader = Some(waker.clone());
            return Taken::Later(Some(from));
        }
        let mut bytes = message.split_to(message.len().min(most));
        let is_whole = message.is_empty();
        if is_whole {
            state.queue.pop_front();
        }
        let count = bytes.len();
        state.bytes -= count;
        if let Some(cut) = &mut state.cut {
            bytes.truncate(cut.left);
            cut.left -= bytes.len();
        }
        let cut = state.cut.take_if(|cut| cut.left == 0);
        let writer = state.writer.take();
        drop(state);
        writer.into_iter().for_each(Waker::wake);
        if let Some(cut) = cut {
            if !is_whole || bytes.len() < count {
                cut.network.see_effect(FaultKind::Cut);
            }
            self.break_off();
            cut.other.break_off();
            if bytes.is_empty() {
                return Taken::Broken;
            }
        }
        Taken::Bytes(bytes)
    }

    /// Sends as many bytes as there is room for; none if there is no room.
    fn put(&self, bytes: &[u8], arrives: Instant, waker: &Waker) -> io::Result<usize> {
        let mut state = self.state();
        if state.is_broken || state.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = bytes.len().min(self.capacity - state.bytes);
        if count == 0 {
            state.writer = Some(waker.clone());
            return Ok(0);
        }
        let before = state.queue.back().map(|(arrives, _)| *arrives);
        let arrives = before.map_or(arrives, |before| before.max(arrives));
        state.bytes += count;
        state
            .queue
            .push_back((arrives, Bytes::copy_from_slice(&bytes[..count])));
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
        Ok(count)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Taken {
    Bytes(Bytes),
    End,
    Broken,
    /// Nothing yet; perhaps at that moment.
    Later(Option<Instant>),
}

// === impl End ===

impl End {
    pub(super) fn new(
        network: Arc<Network>,
        link: Link,
        read: Arc<Pipe>,
        write: Arc<Pipe>,
        is_buffered: bool,
    ) -> End {
        End {
            network,
            link,
            read,
            write,
            buffer: is_buffered.then(BytesMut::new),
            timer: None,
        }
    }

    fn send(&self, bytes: &[u8], context: &Context<'_>) -> Poll<io::Result<usize>> {
        let arrives = Instant::now() + self.network.delay(self.link);
        match self.write.put(bytes, arrives, context.waker())? {
            0 => Poll::Pending,
            count => Poll::Ready(Ok(count)),
        }
    }
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let condition = self.network.condition(self.link);
            let held_until = condition.held_until;
            match self
                .read
                .take(into.remaining(), held_until, context.waker())
            {
                Taken::Bytes(bytes) => {
                    into.put_slice(&bytes);
                    return Poll::Ready(Ok(()));
                }
                Taken::End => return Poll::Ready(Ok(())),
                Taken::Broken => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                Taken::Later(None) => return Poll::Pending,
                Taken::Later(Some(at)) => {
                    if held_until == Some(at) {
                        self.network.see_effect(match condition.is_silent {
                            true => FaultKind::Partition,
                            false => FaultKind::Hold,
                        });
                    }
                    let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
                    timer.as_mut().reset(at);
                    ready!(timer.as_mut().poll(context));
                }
            }
        }
    }
}

impl AsyncWrite for End {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &self.buffer {
            None => return self.send(bytes, context),
            Some(buffer) if buffer.len() >= BUFFER_BYTES_MAX => {
                ready!(self.as_mut().poll_flush(context))?;
            }
            Some(_) => {}
        }
        let buffer = self.buffer.get_or_insert_default();
        let count = bytes.len().min(BUFFER_BYTES_MAX - buffer.len());
        buffer.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(buffer) = self.buffer.as_ref().filter(|buffer| !buffer.is_empty()) {
            let count = ready!(self.send(buffer, context))?;
            if let Some(buffer) = &mut self.buffer {
                buffer.advance(count);
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write.close();
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.write.close();
        // The reader is gone: discard what arrives, and fail further writes.
        self.read.break_off();
    }
}
