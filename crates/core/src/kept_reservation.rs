//! Reservations that a shared store keeps, where any instance can settle them.

use crate::charge::Charge;
use crate::key::Key;
use crate::reserved::Settlement;
use crate::span::Span;
use crate::verdict::Verdict;

/// A reservation to be made, if its request is allowed.
#[derive(Clone, Copy, Debug)]
pub struct NewReservation<'m> {
    /// Random, so that it cannot be guessed. The store makes the reservation's key from it.
    pub secret: u128,
    /// How long it can be settled.
    pub lifetime: Span,
    /// What the caller needs to know to settle it; the store does not read it. At most
    /// [`NewReservation::MEMO_BYTES_MAX`] long.
    pub memo: &'m [u8],
}

/// A verdict on a request that asked for a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveVerdict {
    /// As of any request.
    pub verdict: Verdict,
    /// Where the reservation is, if the request is allowed.
    pub reservation: Option<Key>,
}

/// A reservation that is neither settled nor expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptReservation {
    /// The lines of the request's [`Bill`](crate::Bill) that were charged, by their index, and the
    /// units of each.
    pub charged: Vec<(usize, u64)>,
    /// [`NewReservation::memo`].
    pub memo: Vec<u8>,
}

/// A line of a reservation to be settled.
#[derive(Clone, Copy, Debug)]
pub struct SettledCharge<'c> {
    /// Its index in the request's [`Bill`](crate::Bill).
    pub line: usize,
    /// The key and its limit now; the cost is what was really used.
    pub charge: Charge<'c>,
}

/// What became of a settlement: what each line was settled to, in the order in which they were
/// given. `None` if there is no such reservation: it was settled or has expired.
pub type Settled = Option<Vec<Settlement>>;

// === impl NewReservation ===

impl NewReservation<'_> {
    /// The longest memo, in bytes.
    pub const MEMO_BYTES_MAX: usize = 65_535;
}
