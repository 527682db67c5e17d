//! What a simulation puts in place of the network, the clocks and the random numbers of a store.
//! No part of the crate's interface: it may change with any version.

pub use crate::environment::{Connecting, Environment, Monotonic, RedisTime, Stream, Transport};
pub use crate::random::seed;
