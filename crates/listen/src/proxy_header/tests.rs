#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::UnixStream;

use super::*;
use crate::raw_socket::RawSocket;

/// A format for tests: `client=`, a digit, and a line feed.
const HEADER: &[u8] = b"client=7\n";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
/// The most bytes of a header; some of a request fit behind it.
const BYTES_MAX: usize = 16;

#[derive(Debug)]
struct Lines;

impl ProxyHeaders for Lines {
    fn expects(&self, peer: PeerAddress) -> bool {
        peer == PeerAddress::Unix
    }

    fn bytes_max(&self) -> usize {
        BYTES_MAX
    }

    fn parse(&self, bytes: &[u8]) -> Result<Option<ProxyHeader>, Error> {
        let name = b"client=";
        if !bytes.starts_with(&name[..bytes.len().min(name.len())]) {
            return Err(Error::other("no header"));
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        Ok(end.map(|end| ProxyHeader {
            client: Some(Ipv4Addr::new(192, 0, 2, bytes[end - 1] - b'0').into()),
            bytes: end + 1,
        }))
    }
}

fn seven() -> Option<IpAddr> {
    Some(Ipv4Addr::new(192, 0, 2, 7).into())
}

/// What is read from a stream on which a peer sends `sent`, and closes it after that.
async fn read(
    room: usize,
    sent: &'static [u8],
) -> (
    Result<(Option<IpAddr>, Vec<u8>), HandshakeError>,
    DuplexStream,
) {
    let (mut client, mut stream) = duplex(room);
    tokio::spawn(async move { client.write_all(sent).await });
    let read = read_proxy_header(&Lines, &mut stream).await;
    (read, stream)
}

/// However the bytes arrive, none is lost, and none is read twice.
#[tokio::test]
async fn a_header_in_pieces_is_read_and_what_follows_it_stays() {
    let sent = [HEADER, REQUEST].concat();
    let sent: &'static [u8] = sent.leak();
    for room in 1..=sent.len() {
        let (read, mut stream) = read(room, sent).await;
        let (client, mut request) = read.unwrap();
        assert_eq!(client, seven());
        assert!(request.len() <= BYTES_MAX - HEADER.len());
        stream.read_to_end(&mut request).await.unwrap();
        assert_eq!(request, REQUEST, "{room}");
    }
}

#[tokio::test]
async fn a_connection_without_a_header_is_an_error() {
    for (sent, failure, problem) in [
        (REQUEST, Failure::InvalidProxyHeader, "no header"),
        (
            b"client=77777777777777777777777",
            Failure::InvalidProxyHeader,
            "the proxy's header has more than 16 bytes",
        ),
        // A health check that only connects, or a proxy that stops.
        (b"", Failure::Aborted, "unexpected end of file"),
        (b"client=", Failure::Aborted, "unexpected end of file"),
    ] {
        for room in [1, 64] {
            let error = read(room, sent).await.0.unwrap_err();
            assert_eq!((error.failure, &*error.to_string()), (failure, problem));
        }
    }
}

/// The bytes behind a header are the first ones of the socket, in readers of any size.
#[tokio::test]
async fn a_socket_gives_back_what_was_read_with_the_header() {
    for size in [1, 5, 64] {
        let (mut client, stream) = UnixStream::pair().unwrap();
        client.write_all(b"rest").await.unwrap();
        client.shutdown().await.unwrap();
        let mut socket = RawSocket::from(stream).with_unread(b"first, ".to_vec());
        let (mut all, mut buffer) = (Vec::new(), vec![0; size]);
        loop {
            match socket.read(&mut buffer).await.unwrap() {
                0 => break,
                read => all.extend_from_slice(&buffer[..read]),
            }
        }
        assert_eq!(all, b"first, rest");
    }
}

/// Nothing is allocated for a connection on which nothing was read with the header.
#[tokio::test]
async fn a_socket_without_such_bytes_reads_at_once() {
    let (mut client, stream) = UnixStream::pair().unwrap();
    client.write_all(b"a").await.unwrap();
    let mut socket = RawSocket::from(stream).with_unread(Vec::new());
    assert_eq!(socket.read(&mut [0; 8]).await.unwrap(), 1);
}
