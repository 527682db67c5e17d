//! A socket that accepts connections.

use std::io;

#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::net::{TcpListener, UnixListener};

use crate::address::{Address, PeerAddress};
use crate::raw_socket::RawSocket;
use crate::socket_file::{self, SocketFile};

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
                let listener = TcpListener::bind(address).await?;
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
