//! Peers that hang up while their requests are answered.
//!
//! The HTTP library finds the end of a stream only by reading, and it reads nothing while it holds
//! bytes that belong to no request yet, or a body that nobody reads. One byte behind a request
//! would hide from it that the peer has gone, for as long as the response takes. The system knows.

use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::{Instant, Sleep, sleep};

use crate::exchange::Exchange;

/// How often the system is asked while a request is answered.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Finds out whether the peer of a connection of HTTP/1 has hung up.
#[derive(Debug)]
pub(crate) struct HangUp {
    exchange: Arc<Exchange>,
    /// When the system is asked next. It is set once for all requests: they are short, and setting
    /// a timer costs more than letting it fire.
    timer: Option<Pin<Box<Sleep>>>,
}

// === impl HangUp ===

impl HangUp {
    pub(crate) const fn new(exchange: Arc<Exchange>) -> HangUp {
        HangUp {
            exchange,
            timer: None,
        }
    }

    /// Ready once the peer has hung up during a request.
    pub(crate) fn poll(&mut self, socket: &impl AsFd, cx: &mut Context<'_>) -> Poll<()> {
        if !self.exchange.is_open() {
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(ASK_EVERY)));
        while timer.as_mut().poll(cx).is_ready() {
            if has_hung_up(socket) {
                return Poll::Ready(());
            }
            timer.as_mut().reset(Instant::now() + ASK_EVERY);
        }
        Poll::Pending
    }
}

/// Whether the peer has closed its side of the connection, or all of it, read or unread.
fn has_hung_up(socket: &impl AsFd) -> bool {
    const AT_ONCE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    // An error and the end of both sides are found as well, whatever is asked for.
    poll(&mut polled, Some(&AT_ONCE)).is_ok() && !polled[0].revents().is_empty()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::poll_fn;
    use std::net::Ipv4Addr;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;

    /// Both ends of a connection.
    async fn connect() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await;
        (peer.unwrap(), listener.accept().await.unwrap().0)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_has_hung_up_whatever_of_it_is_unread() {
        let (mut peer, socket) = connect().await;
        peer.write_all(b"unread").await.unwrap();
        let exchange = Arc::new(Exchange::none());
        exchange.begin();
        let mut hang_up = HangUp::new(Arc::clone(&exchange));
        let mut has_hung_up = async || {
            let polled = poll_fn(|cx| hang_up.poll(&socket, cx));
            timeout(10 * ASK_EVERY, polled).await.is_ok()
        };
        assert!(!has_hung_up().await, "it is connected");
        peer.shutdown().await.unwrap();
        exchange.complete();
        assert!(!has_hung_up().await, "no request is answered");
        exchange.begin();
        assert!(has_hung_up().await, "it has closed its side");
    }
}
