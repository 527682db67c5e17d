//! Connects to one of the IP addresses of a server.
//!
//! A name may have an address that drops everything it is sent: of a machine that was switched off,
//! or of an IP version that does not lead anywhere. So the next address is tried when one fails,
//! and also while one takes long, as RFC 8305 ("Happy Eyeballs") describes it.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

/// How long an address may take before the next one is tried as well.
pub const NEXT_AFTER: Duration = Duration::from_millis(250);
/// The most addresses that are tried.
pub const TRIED_MAX: usize = 16;

/// Connects to the first of these addresses that accepts the connection; the others are left.
///
/// # Errors
///
/// That of the last address that failed, if all have.
pub(crate) async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    connect_by(addresses, connect_to).await
}

/// Connects to this address, but never to the connection itself.
///
/// If nothing listens on a port of this machine from which the system also takes the ports of
/// clients, a connection to it sooner or later is given this very port, and then TCP connects it to
/// itself (RFC 9293, 3.5, simultaneous open). It would answer with what it was sent, and hold the
/// port against the server that is to come back.
async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

/// The same with another way to connect.
async fn connect_by<T, F>(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T>
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    if let [only] = addresses {
        return connect(*only).await;
    }
    let mut untried = addresses.iter().take(TRIED_MAX);
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        if let Some(next) = untried.next() {
            attempts.spawn(connect(*next));
        }
        let are_more = untried.len() > 0;
        tokio::select! {
            biased;
            ended = attempts.join_next() => match ended {
                None => return Err(failure),
                Some(Ok(Ok(connection))) => return Ok(connection),
                Some(Ok(Err(error))) => failure = error,
                Some(Err(panicked)) => failure = io::Error::other(panicked),
            },
            () = sleep(NEXT_AFTER), if are_more => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    /// More than the ports that the system gives to clients.
    const ATTEMPTS: usize = 40_000;

    #[tokio::test]
    async fn a_connection_to_a_port_that_nothing_listens_on_is_not_to_itself() {
        // Linux gives even ports to clients, as long as there are some.
        let mut even = (40_000..50_000).step_by(2);
        let free = even.find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok());
        let address = SocketAddr::from(([127, 0, 0, 1], free.unwrap()));
        for attempt in 0..ATTEMPTS {
            let kind = super::connect(&[address])
                .await
                .map_err(|error| error.kind());
            assert_eq!(
                kind.unwrap_err(),
                io::ErrorKind::ConnectionRefused,
                "{attempt}"
            );
        }
    }

    fn address(number: u8) -> SocketAddr {
        ([127, 0, 0, number], 80).into()
    }

    /// 1 never answers, 2 rejects, and the others accept after so many seconds.
    async fn connect(to: SocketAddr) -> io::Result<SocketAddr> {
        match to {
            _ if to == address(1) => pending().await,
            _ if to == address(2) => Err(io::ErrorKind::ConnectionRefused.into()),
            SocketAddr::V4(v4) => {
                sleep(Duration::from_secs(v4.ip().octets()[3].into())).await;
                Ok(to)
            }
            SocketAddr::V6(_) => Err(io::ErrorKind::HostUnreachable.into()),
        }
    }

    async fn dialed(numbers: &[u8]) -> (io::Result<SocketAddr>, Duration) {
        let addresses: Vec<SocketAddr> = numbers.iter().copied().map(address).collect();
        let begun = Instant::now();
        (connect_by(&addresses, connect).await, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_does_not_answer_delays_the_next_one_briefly() {
        let (found, took) = dialed(&[1, 3]).await;
        assert_eq!(found.unwrap(), address(3));
        assert_eq!(took, NEXT_AFTER + Duration::from_secs(3));
        let (found, took) = dialed(&[1, 1, 1, 3]).await;
        assert_eq!(found.unwrap(), address(3));
        assert_eq!(took, NEXT_AFTER * 3 + Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_fails_delays_nothing() {
        let (found, took) = dialed(&[2, 2, 3]).await;
        assert_eq!(found.unwrap(), address(3));
        assert_eq!(took, Duration::from_secs(3));
        // One that is slow is still waited for.
        let (found, _) = dialed(&[3, 2, 2]).await;
        assert_eq!(found.unwrap(), address(3));
    }

    #[tokio::test(start_paused = true)]
    async fn if_all_fail_it_is_the_last_error() {
        for numbers in [&[2][..], &[2, 2], &[]] {
            let expected = match numbers.is_empty() {
                true => io::ErrorKind::NotFound,
                false => io::ErrorKind::ConnectionRefused,
            };
            assert_eq!(dialed(numbers).await.0.unwrap_err().kind(), expected);
        }
    }
}
