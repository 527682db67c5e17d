//! The server behind the gateway: a small response for every request, and a large one on demand.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The path of the large response.
pub(crate) const LARGE: &str = "/large";
/// The size of the large response: more than all buffers on its way.
const LARGE_BYTES: usize = 64 << 20;
/// What is written of it at once.
const PART_BYTES: usize = 64 * 1024;
/// How long a connection may be idle. The gateway keeps idle connections for longer, and their
/// memory with them, which is not what the attacks are about.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// How long the restarting server is there, and how long it is not, unless an attack is too short
/// for that.
const UP_FOR: Duration = Duration::from_secs(3);
const DOWN_FOR: Duration = Duration::from_millis(500);
/// Connections that wait to be accepted.
const BACKLOG: u32 = 4096;
/// The longest head of a request: as much as the gateway passes on, and what it adds.
const HEAD_BYTES_MAX: u64 = 64 * 1024;

/// Serves until the process ends; returns where.
pub(crate) fn start() -> Result<SocketAddr> {
    let address = free_address()?;
    let runtime = runtime()?;
    let listener = {
        let _within = runtime.enter();
        listen(address)?
    };
    thread::spawn(move || runtime.block_on(serve_all(listener)));
    Ok(address)
}

/// The same of a server that ends with all its connections every [`UP_FOR`], and is back after
/// [`DOWN_FOR`]; in an attack that takes `lasts`, at least twice. Counts its restarts.
pub(crate) fn start_restarting(lasts: Duration, restarts: Arc<AtomicU64>) -> Result<SocketAddr> {
    let (up_for, down_for) = (UP_FOR.min(lasts / 3), DOWN_FOR.min(lasts / 6));
    let address = free_address()?;
    let runtime = runtime()?;
    let serving = async move {
        for start in 0_u64.. {
            let until_down = async {
                if let Ok(listener) = listen(address) {
                    restarts.store(start, Ordering::Relaxed);
                    serve_all(listener).await;
                }
            };
            let _over = timeout(up_for, until_down).await;
            sleep(down_for).await;
        }
    };
    thread::spawn(move || runtime.block_on(serving));
    Ok(address)
}

fn free_address() -> Result<SocketAddr> {
    std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()
}

/// As `TcpListener::bind`, but with room for more connections than an attack opens at once: one
/// that finds none tries again after a second, and a request of the client waits for it.
fn listen(address: SocketAddr) -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// For a server in a thread of its own.
fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Serves until it is dropped, and its connections with it.
async fn serve_all(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        // Without a free socket, the next connection waits for one.
        if let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Answers the requests of one connection until either side ends it.
async fn serve(mut stream: TcpStream) {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    loop {
        let head = timeout(IDLE_MAX, read_head(&mut read)).await;
        let Ok(Ok(Some((is_large, length)))) = head else {
            return;
        };
        let mut body = (&mut read).take(length);
        let _ends_early = tokio::io::copy(&mut body, &mut tokio::io::sink()).await;
        let answered = match is_large {
            true => send_large(&mut write).await,
            false => {
                let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                write.write_all(response).await
            }
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Whether a request is for the large response, and the length of its body; `None` at the end.
async fn read_head(read: &mut (impl AsyncBufReadExt + Unpin)) -> Result<Option<(bool, u64)>> {
    let (mut is_large, mut length, mut is_first) = (false, 0, true);
    let mut head = read.take(HEAD_BYTES_MAX);
    loop {
        let mut line = String::new();
        if head.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            return Ok(Some((is_large, length)));
        }
        if is_first {
            is_large = line.split(' ').nth(1) == Some(LARGE);
            is_first = false;
        } else if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().unwrap_or(0);
        }
    }
}

async fn send_large(write: &mut (impl AsyncWriteExt + Unpin)) -> Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE_BYTES}\r\n\r\n");
    write.write_all(head.as_bytes()).await?;
    let part = vec![b'x'; PART_BYTES];
    for _part in 0..LARGE_BYTES / PART_BYTES {
        write.write_all(&part).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_responses_are_sent() {
        let address = start().expect("a free port");
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let requests = format!(
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET {LARGE} HTTP/1.1\r\n\r\n\
             GET / HTTP/1.1\r\n\r\n"
        );
        stream.write_all(requests.as_bytes()).await.expect("read");
        stream.shutdown().await.expect("connected");
        let mut responses = Vec::new();
        stream.read_to_end(&mut responses).await.expect("answered");
        let small = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        assert!(responses.starts_with(small) && responses.ends_with(small));
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE_BYTES}\r\n\r\n");
        assert_eq!(responses.len(), 2 * small.len() + head.len() + LARGE_BYTES);
    }
}
