//! A client of the Redis protocol that sends any bytes.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_server::{Config, Listen, ListenerKind};

use crate::house::House;

/// Longer than anything takes here.
const SOON: Duration = Duration::from_secs(20);

/// A connection to the listener `redis`.
pub(crate) struct RedisClient(pub(crate) TcpStream);

/// Adds the listener to the settings.
pub(crate) fn with_redis(config: &mut Config) {
    config.listen.push(Listen {
        kind: ListenerKind::Redis,
        address: "127.0.0.1:0".parse().unwrap(),
        tls: None,
    });
}

/// Where it listens.
pub(crate) fn redis_of(house: &House) -> SocketAddr {
    house.running.address(ListenerKind::Redis).unwrap()
}

// === impl RedisClient ===

impl RedisClient {
    pub(crate) async fn to(house: &House) -> RedisClient {
        RedisClient(TcpStream::connect(redis_of(house)).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// So many bytes.
    pub(crate) async fn read(&mut self, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        let reading = self.0.read_exact(&mut read);
        timeout(SOON, reading).await.unwrap().unwrap();
        read
    }

    /// So many lines, without their ends.
    pub(crate) async fn lines(&mut self, lines: usize) -> Vec<String> {
        let mut read = String::new();
        while read.matches("\r\n").count() < lines {
            read.push(char::from(self.read(1).await[0]));
        }
        read.lines().map(str::to_owned).collect()
    }

    /// Everything until the service closes the connection.
    pub(crate) async fn rest(&mut self) -> String {
        let mut read = Vec::new();
        let reading = self.0.read_to_end(&mut read);
        timeout(SOON, reading).await.unwrap().unwrap();
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Sends a line, or several, and expects this reply and nothing else.
    pub(crate) async fn expect(&mut self, line: &str, reply: &str) {
        // What comes behind the reply shows that there is nothing else.
        self.send(format!("{line}\r\nECHO end\r\n")).await;
        let expected = format!("{reply}$3\r\nend\r\n");
        let mut read = Vec::new();
        while !read.ends_with(b"$3\r\nend\r\n") {
            let reading = self.0.read_buf(&mut read);
            assert_ne!(timeout(SOON, reading).await.unwrap().unwrap(), 0, "{line}");
        }
        assert_eq!(String::from_utf8_lossy(&read), expected, "{line}");
    }
}

/// The reply of integers, as it is written.
pub(crate) fn integers(numbers: &[i64]) -> String {
    let count = numbers.len();
    let numbers = numbers.iter().map(|number| format!(":{number}\r\n"));
    format!("*{count}\r\n{}", numbers.collect::<String>())
}
