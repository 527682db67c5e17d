//! The rate limiters that are measured, each used as its own documentation says.

mod algorithms;
mod by_hand;
mod floor;
mod governor;
mod quota;
mod ratelimit;
mod tollgate;

pub(crate) use algorithms::{
    FixedWindow, OfAlgorithm, SlidingLog, SlidingWindow, TokenBucket, TwoBuckets,
};
pub(crate) use by_hand::ByHand;
pub(crate) use floor::{Floor, FloorClock};
pub(crate) use governor::Governor;
pub(crate) use quota::Quota;
pub(crate) use ratelimit::Ratelimit;
pub(crate) use tollgate::{Tollgate, TollgateBatch};
