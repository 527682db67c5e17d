//! Connections to the service, from any loopback address.

use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use crate::frames::{HEAD_BYTES, Head, flag, frame, hello, kind};
use crate::stream::Stream;

/// How long anything may take before it counts as an error.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// The receive buffer of a client that does not want its response.
const RECEIVE_BYTES: u32 = 4096;
/// The longest response of the service.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Connects from `from`, any address of 127.0.0.0/8.
pub(crate) async fn connect(from: Ipv4Addr, to: SocketAddr) -> Result<Stream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    let socket = within(socket.connect(to)).await?;
    socket.set_nodelay(true)?;
    Ok(Stream::new(socket))
}

/// The same with a small receive buffer, so that few bytes of an unread response leave the service.
pub(crate) async fn connect_narrow(from: Ipv4Addr, to: SocketAddr) -> Result<Stream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BYTES)?;
    socket.bind(SocketAddr::from((from, 0)))?;
    Ok(Stream::new(within(socket.connect(to)).await?))
}

/// As [`connect`], with HTTP/2's preface; `window` is that of a stream's response.
pub(crate) async fn connect_h2(from: Ipv4Addr, to: SocketAddr, window: u32) -> Result<Stream> {
    let mut stream = connect(from, to).await?;
    stream.greet(&hello(window)).await?;
    Ok(stream)
}

/// Waits with a timeout.
pub(crate) async fn within<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(TIMEOUT, work)
        .await
        .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Reads one frame.
pub(crate) async fn read_frame(stream: &mut Stream) -> Result<(Head, Vec<u8>)> {
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).await?;
    let head = Head::parse(head);
    let mut payload = vec![0; head.length];
    stream.read_exact(&mut payload).await?;
    Ok((head, payload))
}

/// Acknowledges settings and pings, as every peer must.
pub(crate) async fn acknowledge(stream: &mut Stream, head: Head, payload: &[u8]) -> Result<()> {
    if matches!(head.kind, kind::SETTINGS | kind::PING) && head.flags & flag::ACK == 0 {
        let payload = if head.kind == kind::PING {
            payload
        } else {
            &[]
        };
        let mut out = Vec::new();
        frame(&mut out, head.kind, flag::ACK, 0, payload);
        stream.write_all(&out).await?;
    }
    Ok(())
}

/// Reads an HTTP/1.1 response with a `content-length` and returns its status.
pub(crate) async fn read_response(stream: &mut (impl AsyncRead + Unpin)) -> Result<u16> {
    let (status, _) = read_answer(stream).await?;
    Ok(status)
}

/// The same, and returns its body too.
pub(crate) async fn read_answer(stream: &mut (impl AsyncRead + Unpin)) -> Result<(u16, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let status = text.get(9..12).and_then(|status| status.parse().ok());
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|length| length.parse::<usize>().ok());
    let (Some(status), Some(length @ 0..ANSWER_BYTES_MAX)) = (status, length) else {
        return Err(Error::new(ErrorKind::InvalidData, "no response of ours"));
    };
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((status, body))
}

/// An HTTP/1.1 request.
pub(crate) fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
    (head + body).into_bytes()
}

/// The `number`-th of the loopback addresses that attacks come from.
pub(crate) fn source(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)).wrapping_add(number))
}
