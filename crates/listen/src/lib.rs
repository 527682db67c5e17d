//! Tollgate's listeners: sockets, and what clients may do with them.
//!
//! A [`Door`] accepts connections and serves HTTP on them with a [`Handler`]. It never stops
//! accepting: connections are limited in number, in all and by address, and an idle one makes room
//! for a new one. Each connection is limited in bytes, frames, streams and time ([`Limits`]), and
//! all of them together by a [`Budget`]. When it is time to stop ([`phase()`]), requests in flight
//! have a bounded time to finish.
//!
//! Knows no routes, no rules and no stores.

mod limits;

mod phase;

mod budget;

mod turn;

mod connection;

mod connections;

mod frames;

mod socket;

mod closing;

mod throttle;

mod handler;

mod door;

mod reception;

pub mod open_files;

pub use budget::Budget;
pub use connection::Connection;
pub use connections::Bounds;
pub use door::{Door, Speaks};
pub use handler::Handler;
pub use limits::Limits;
pub use phase::{Stop, Stopping, phase};
pub use turn::Turn;
