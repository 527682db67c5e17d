//! A door: a socket that listens, and its end.
//!
//! A door never stops accepting: `connections.rs` says who makes room when it is full. When it is
//! time to stop, a door closes at once, and what is in flight has a bounded time to finish.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use crate::budget::Budget;
use crate::connections::{Bounds, Connections};
use crate::handler::Handler;
use crate::limits::Limits;
use crate::phase::Stopping;
use crate::reception::Reception;

/// What is spoken behind a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP/1.0 and HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge, as gRPC has it.
    Http2,
}

/// An open door.
#[derive(Debug)]
pub struct Door {
    name: &'static str,
    listener: TcpListener,
    address: SocketAddr,
    speaks: Speaks,
}

// === impl Door ===

impl Door {
    /// Listens on `address`; port 0 is any free one.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn open(
        name: &'static str,
        address: SocketAddr,
        speaks: Speaks,
    ) -> std::io::Result<Door> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Door {
            name,
            listener,
            address,
            speaks,
        })
    }

    /// Its name in the configuration.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What is spoken behind it.
    pub const fn speaks(&self) -> Speaks {
        self.speaks
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is time to stop, and then until nothing is in flight or
    /// [`Limits::drain_timeout`] is over.
    pub async fn serve<H: Handler>(
        self,
        handler: H,
        bounds: Bounds,
        limits: Limits,
        budget: Arc<Budget>,
        stopping: Stopping,
    ) {
        let connections = Connections::new(bounds, limits.turn_bytes, Arc::clone(&budget));
        let connections = Arc::new(connections);
        let mut guests = JoinSet::new();
        let reception = Reception::new(&self, handler, limits, budget, stopping);
        reception
            .accept(&self.listener, &connections, &mut guests)
            .await;
        drop(self.listener);
        for connection in connections.all() {
            connection.drain();
        }
        let all_gone = async { while guests.join_next().await.is_some() {} };
        if timeout(limits.drain_timeout, all_gone).await.is_err() {
            let open = guests.len();
            warn!(
                door = self.name,
                open, "connections cut off at the end of the drain"
            );
        }
    }
}
