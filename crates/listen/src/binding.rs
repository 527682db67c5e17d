//! A socket that accepts connections.

use std::io;

use tokio::net::{TcpListener, UnixListener};

use crate::address::{Address, PeerAddress};
use crate::raw_socket::RawSocket;
use crate::socket_file::{self, SocketFile};

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
                Ok((RawSocket::Tcp(stream), peer.into()))
            }
            Binding::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok((RawSocket::Unix(stream), PeerAddress::Unix))
            }
        }
    }
}
