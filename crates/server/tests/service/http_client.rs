//! A minimal HTTP/1.1 client that can also send invalid requests.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than any test takes: if what a test waits for does not come, the test fails here.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One connection, over TCP or over a stream above it.
pub(crate) struct Client<S = TcpStream>(pub(crate) S);

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

// === impl Client ===

impl Client {
    pub(crate) async fn to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Client(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        // The server may already have closed the connection.
        let _ = self.0.write_all(bytes).await;
    }

    /// The same, where the server may have closed the connection.
    pub(crate) async fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// All bytes up to and with `end`.
    pub(crate) async fn read_until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            read.push(timeout(TIMEOUT, self.0.read_u8()).await.unwrap().unwrap());
        }
        String::from_utf8(read).unwrap()
    }

    /// Closes the sending side; reading goes on.
    pub(crate) async fn end_sending(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    /// All bytes until the connection ends.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let read = timeout(TIMEOUT, self.0.read_to_end(&mut rest)).await;
        // A reset is an end as well.
        let _ = read.unwrap();
        rest
    }

    /// The next response; `None` if the connection ends without one.
    pub(crate) async fn reply(&mut self) -> Option<Reply> {
        timeout(TIMEOUT, self.read_reply()).await.unwrap()
    }

    /// Whether the connection ends without another byte.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let read = timeout(TIMEOUT, self.0.read_u8()).await.unwrap();
        read.is_err()
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Reply {
        self.send_body("POST", path, body).await
    }

    pub(crate) async fn put(&mut self, path: &str, body: &str) -> Reply {
        self.send_body("PUT", path, body).await
    }

    async fn send_body(&mut self, method: &str, path: &str, body: &str) -> Reply {
        let length = body.len();
        let line = format!("{method} {path} HTTP/1.1\r\n");
        let head = format!("{line}host: localhost\r\ncontent-length: {length}\r\n\r\n");
        self.send((head + body).as_bytes()).await;
        self.reply().await.unwrap()
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.send(request.as_bytes()).await;
        self.reply().await.unwrap()
    }

    async fn read_reply(&mut self) -> Option<Reply> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        self.0.read_exact(&mut body).await.ok()?;
        Some(Reply {
            status: head[9..12].parse().unwrap(),
            body: String::from_utf8(body).unwrap(),
            head,
        })
    }
}

// === impl Reply ===

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The detail of a problem document with this status.
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let media_type = self.header("content-type");
        assert_eq!(media_type, Some("application/problem+json"), "{self:?}");
        let json = self.json();
        assert_eq!(json["status"], status, "{self:?}");
        json["detail"].as_str().unwrap().to_owned()
    }
}
