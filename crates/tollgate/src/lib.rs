//! An exact, bounded, fast rate limiter: one engine as a library.
