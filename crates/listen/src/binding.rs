//! A socket that accepts connections.

use std::io;
use std::net::SocketAddr;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

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
        file: Option<SocketFile>,
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
                let file = Some(file);
                Ok((Binding::Unix { file, listener }, address.clone()))
            }
        }
    }

    /// Removes the file of a Unix socket: nobody finds it from now on.
    pub(crate) fn remove_file(&mut self) {
        if let Binding::Unix { file, .. } = self {
            *file = None;
        }
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> io::Result<(RawSocket, PeerAddress)> {
        match self {
            Binding::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((without_delay(stream), peer.into()))
            }
            Binding::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok((stream.into(), PeerAddress::Unix))
            }
        }
    }

    /// The next connection of those that wait; an error of the kind `WouldBlock` if none does.
    ///
    /// This asks the system: the runtime may not have noticed the last ones yet.
    pub(crate) fn accept_waiting(&self) -> io::Result<(RawSocket, PeerAddress)> {
        let listener = match self {
            Binding::Tcp(listener) => SockRef::from(listener),
            Binding::Unix { listener, .. } => SockRef::from(listener),
        };
        let (socket, peer) = listener.accept()?;
        socket.set_nonblocking(true)?;
        match peer.as_socket() {
            Some(peer) => {
                let stream = TcpStream::from_std(socket.into())?;
                Ok((without_delay(stream), peer.into()))
            }
            None => {
                let stream = UnixStream::from_std(socket.into())?;
                Ok((stream.into(), PeerAddress::Unix))
            }
        }
    }
}

/// A response is one small write: waiting for more to send only delays it.
fn without_delay(stream: TcpStream) -> RawSocket {
    let _ = stream.set_nodelay(true);
    stream.into()
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
