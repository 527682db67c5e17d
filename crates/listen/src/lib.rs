//! Tollgate's listeners: sockets, and what clients may do with them.
//!
//! A [`Listener`] accepts connections and serves [`Http`] on them with a [`Handler`], or another
//! protocol ([`Streams`]) with a [`StreamHandler`]. It never stops accepting: connections are
//! limited in number, in all and by address, which does not hold for trusted [`Proxies`], and an
//! idle one makes room for a new one. Each connection is limited in bytes, frames, streams and time
//! ([`Limits`]), and all of them together by a [`Budget`]. On a [`Shutdown`], requests in flight
//! have a bounded time to finish.
//!
//! Requests are served on any stream: a [`Handshake`] turns an accepted socket into one, such as
//! [`Tls`], whose certificates can be replaced while it serves. Before it, a listener with
//! [`ProxyHeaders`] reads the header in which a proxy names the client.
//!
//! Knows no routes, no rules and no stores.

mod limits;

mod address;

mod shutdown;

mod idleness;

mod busy_queue;

mod budget;

mod quantum;

mod source;

mod deferral;

mod head_timer;

mod exchange;

mod hang_up;

mod raw_socket;

mod connection;

mod drain_end;

mod socket_file;

mod binding;

mod answered;

mod outflow;

mod backlog;

mod permits;

mod frames;

mod own_response;

mod held_answers;

mod socket;

mod linger;

mod raw_responses;

mod throttle;

mod handler;

mod handshake;

mod proxy_header;

mod preface;

mod tunnel;

mod protocol;

mod listener;

mod tls;

mod accept;

pub mod open_files;

pub use accept::{Http, Session, Streams};
pub use address::{
    Address, InvalidAddress, PeerAddress, SOCKET_MODE, SOCKET_PATH_BYTES_MAX, SocketPath,
};
pub use budget::Budget;
pub use connection::Connection;
pub use handler::{ConnectionCounts, Handler, StreamHandler};
pub use handshake::{Failure, Handshake, HandshakeError, Plain, Stream};
pub use limits::Limits;
pub use listener::Listener;
pub use permits::ConnectionLimits;
pub use protocol::Protocol;
pub use proxy_header::{ProxyHeader, ProxyHeaders};
pub use raw_socket::RawSocket;
pub use shutdown::{Shutdown, ShutdownSignal, shutdown_channel};
pub use source::Proxies;
pub use throttle::Throttle;
pub use tls::{
    ClientTlsFiles, Credentials, InvalidTls, PEM_BYTES_MAX, Problem, Tls, TlsFile, TlsFiles,
    Validity,
};
pub use tunnel::Tunnel;
