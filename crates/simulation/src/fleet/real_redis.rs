//! A real Redis, for comparison.

use crate::redis_memory::RedisMemory;

/// A Redis server that was started for a measurement.
pub trait RealRedis {
    /// Its address.
    fn address(&self) -> String;

    /// How many keys it has, and the bytes that they take.
    fn memory(&self) -> RedisMemory;
}
