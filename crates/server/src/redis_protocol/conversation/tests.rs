#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_core::Clock;
use tollgate_engine::Engine;
use tollgate_listen::{
    Budget, Handshake, HandshakeError, Limits, Listener, RawSocket, Streams, shutdown_channel,
};
use tollgate_memory::SystemClock;
use tollgate_telemetry::Tracing;

use super::*;
use crate::config::{Config, Listen, ListenerKind};
use crate::host::HostPressure;
use crate::metrics::Metrics;
use crate::redis_protocol::{RedisHandler, ThrottleStore};
use crate::stores;

/// Longer than an answer takes.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A handshake whose streams write nothing before they are flushed, as one of TLS does if the peer
/// reads slowly.
#[derive(Clone, Copy)]
struct Buffering;

struct BufferingStream {
    socket: RawSocket,
    unsent: Vec<u8>,
}

// === impl Buffering ===

impl Handshake for Buffering {
    type Stream = BufferingStream;

    async fn handshake(
        &self,
        socket: RawSocket,
        _connection: &Arc<Connection>,
    ) -> Result<BufferingStream, HandshakeError> {
        let unsent = Vec::new();
        Ok(BufferingStream { socket, unsent })
    }
}

// === impl BufferingStream ===

impl AsyncRead for BufferingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for BufferingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.unsent.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while !this.unsent.is_empty() {
            let written = pin!(&mut this.socket).poll_write(cx, &this.unsent);
            this.unsent.drain(..ready!(written)?);
        }
        Pin::new(&mut this.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// A listener whose streams are of this kind.
async fn open() -> (SocketAddr, impl Future<Output = ()>) {
    let kind = ListenerKind::Redis;
    let mut config = Config::new(Vec::new());
    config.listen = vec![Listen {
        kind,
        address: "127.0.0.1:0".parse().unwrap(),
        tls: None,
    }];
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let limits = Limits::default();
    let budget = Arc::new(Budget::new(&limits));
    let stores = stores::open(&config, &[], Arc::clone(&clock)).unwrap();
    let engine = Arc::new(Engine::new(stores));
    let throttles = ThrottleStore::open(&config, &clock).unwrap();
    let host = Arc::new(HostPressure::default());
    let counts = throttles.as_ref();
    let metrics = Metrics::new(&engine, &budget, &limits, &host, None, counts);
    let metrics = Arc::new(metrics);
    let tracing = Tracing::default();
    let handler = RedisHandler::open(&config, &engine, throttles, &metrics, &tracing);
    let session = Streams(handler.unwrap().unwrap());
    let address = &config.listen[0].address;
    let listener = Listener::open(kind.name(), address, kind.protocol()).await;
    let listener = listener.unwrap().with_handshake(Buffering);
    let address = listener.address().tcp().unwrap();
    let (shutdown, signal) = shutdown_channel();
    let bounds = kind.connection_limits(&limits);
    let served = async move {
        listener
            .serve(session, bounds, limits, budget, signal)
            .await;
        drop(shutdown);
    };
    (address, served)
}

#[tokio::test]
async fn a_reply_that_leaves_early_is_flushed_before_more_is_received() {
    let (address, served) = open().await;
    let answered = async {
        let mut client = TcpStream::connect(address).await.unwrap();
        // As long as replies that leave at once: nothing is left to be written behind it.
        let text = "x".repeat(REPLY_BYTES);
        let reply = format!("${REPLY_BYTES}\r\n{text}\r\n");
        let command = format!("*2\r\n$4\r\nECHO\r\n{reply}");
        client.write_all(command.as_bytes()).await.unwrap();
        let mut read = vec![0; reply.len()];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(read, reply.as_bytes());
    };
    tokio::select! {
        answered = timeout(TIMEOUT, answered) => answered.expect("a reply"),
        () = served => panic!("the listener has closed"),
    }
}
