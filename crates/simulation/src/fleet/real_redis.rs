//! A real Redis, for comparison.

/// A Redis server that was started for a measurement.
pub trait RealRedis {
    /// Its address.
    fn address(&self) -> String;

    /// How many keys it has, and the bytes that they take.
    fn keys_and_bytes(&self) -> (u64, u64);
}
