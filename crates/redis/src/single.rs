//! The charge of a request that has only one.

use tollgate_core::Charge;

use crate::fit::FittedLimit;
use crate::generations::Generation;

/// A charge, and its limit as the scripts use it.
#[derive(Clone, Copy)]
pub(crate) struct Single<'r> {
    pub(crate) charge: &'r Charge<'r>,
    pub(crate) fitted: FittedLimit,
    /// That of its key when its request began: while it is current, replies to the request may be
    /// cached.
    pub(crate) generation: Generation<'r>,
    /// The same by the charges of its key, for denials: they would lack what was charged since.
    pub(crate) charges: Generation<'r>,
}
