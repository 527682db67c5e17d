//! A door: a socket that listens, and its end.
//!
//! A door never stops accepting: `connections.rs` says who makes room when it is full. When it is
//! time to stop, a door closes at once, and what is in flight has a bounded time to finish.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use crate::budget::Budget;
use crate::config::Limits;
use crate::connections::{Bounds, Connections};
use crate::metrics::{DoorName, Metrics};
use crate::phase::Stopping;
use crate::reception::Reception;

/// What is spoken behind a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http1,
    Http2,
}

/// An open door.
#[derive(Debug)]
pub(crate) struct Door {
    name: DoorName,
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
    pub(crate) async fn open(
        name: DoorName,
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
    pub(crate) const fn name(&self) -> DoorName {
        self.name
    }

    /// What is spoken behind it.
    pub(crate) const fn speaks(&self) -> Speaks {
        self.speaks
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is time to stop, and then until nothing is in flight or
    /// [`Limits::drain_timeout`] is over.
    pub(crate) async fn serve(
        self,
        router: Router,
        bounds: Bounds,
        limits: Limits,
        budget: Arc<Budget>,
        metrics: Arc<Metrics>,
        stopping: Stopping,
    ) {
        let connections = Connections::new(bounds, limits.turn_bytes, Arc::clone(&budget));
        let connections = Arc::new(connections);
        let mut guests = JoinSet::new();
        let reception = Reception::new(&self, router, limits, budget, metrics, stopping);
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
