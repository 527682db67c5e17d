//! A socket that accepts connections.

use std::io;
use std::net::SocketAddr;

#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, UnixListener};

use crate::address::{Address, PeerAddress};
use crate::raw_socket::RawSocket;
use crate::socket_file::{self, BACKLOG, SocketFile};

/// The most bytes of a connection that are written and not sent.
///
/// A connection may be written to again when half of them have left, so a peer that reads this much
/// within [`crate::Limits::write_timeout`] is not taken for one that does not read. The kernel
/// would otherwise take megabytes, and say so only when it has sent a third of them.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 128 * 1024;

/// A socket that accepts connections, of either kind.
#[derive(Debug)]
pub(crate) enum Binding {
    Tcp(TcpListener),
    Unix {
        /// Comes first, because fields are dropped in their order: the file is removed while the
        /// socket still accepts connections, so no other process takes it for a dead one's.
        _file: SocketFile,
        listener: UnixListener,
    },
}

// === impl Binding ===

impl Binding {
    /// Listens on an address. Returns that which it has then: port 0 is replaced.
    pub(crate) async fn open(address: &Address) -> io::Result<(Binding, Address)> {
        match address {
            Address::Tcp(address) => {
                let listener = bind(*address)?;
                // Accepted sockets have what their listener has.
                #[cfg(target_os = "linux")]
                SockRef::from(&listener).set_tcp_notsent_lowat(UNSENT_BYTES)?;
                let address = listener.local_addr()?.into();
                Ok((Binding::Tcp(listener), address))
            }
            Address::Unix(path) => {
                let (listener, file) = socket_file::open(path).await?;
                let binding = Binding::Unix {
                    _file: file,
                    listener,
                };
                Ok((binding, address.clone()))
            }
        }
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> io::Result<(RawSocket, PeerAddress)> {
        match self {
            Binding::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // A response is one small write: waiting for more to send only delays it.
                let _ = stream.set_nodelay(true);
                Ok((stream.into(), peer.into()))
            }
            Binding::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok((stream.into(), PeerAddress::Unix))
            }
        }
    }
}

/// Binds a socket, also if connections of a former process on this port are still being closed.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::Ipv4Addr;
    use std::time::Duration;

    use tokio::net::TcpStream;
    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;

    /// Longer than anything takes here.
    const SOON: Duration = Duration::from_secs(20);

    /// The clients of a burst: fewer where the kernel queues fewer, as in some containers.
    fn burst() -> usize {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
        let most = most.ok().and_then(|most| most.trim().parse::<usize>().ok());
        most.map_or(512, |most| most.saturating_sub(1).min(512))
    }

    #[tokio::test]
    async fn a_burst_of_clients_is_queued_while_none_is_accepted() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (_binding, address) = Binding::open(&Address::Tcp(any)).await.unwrap();
        let Address::Tcp(address) = address else {
            panic!("{address}");
        };
        let mut clients = JoinSet::new();
        let burst = burst();
        for _ in 0..burst {
            clients.spawn(TcpStream::connect(address));
        }
        let connected = timeout(SOON, clients.join_all()).await;
        let connected = connected.unwrap().into_iter().filter(Result::is_ok);
        assert_eq!(connected.count(), burst);
    }
}
