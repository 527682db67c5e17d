//! Reservations of several limits at once: all or nothing.

use std::fmt;

use tollgate_core::{
    Charge, ChargedLine, Clock, Cost, Grant, Now, Reserved, Settlement, StoreError, Verdict,
};
use tollgate_memory::SystemClock;

use super::attempt::decide_by;
use super::{
    Ask, JointDecision, JointDenial, JointError, Names, check_siblings, names_of, without_answer,
};
use crate::limiter::Limiter;
use crate::limiter::reservation::{Owner, Reservation};

/// Units that several limits are charged as estimates, until it is known how many were used.
///
/// Dropping it refunds all of them. What is refunded when, [`Reservation`] says.
#[must_use = "a reservation that is dropped refunds its units"]
pub struct JointReservation<'l, C: Clock = SystemClock> {
    decision: JointDecision,
    /// Of the limits that were charged.
    parts: Vec<Reservation<'l, C>>,
}

/// Why several limits reserved nothing. Nothing was charged, unless [`Ask::charge_denied`] says
/// otherwise.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotReserved {
    /// A limit denied the request.
    Denied(JointDenial),
    /// There is no decision.
    Failed(JointError),
}

/// The index of the ask that was charged, and what.
type Part = (usize, Grant, Reserved);

/// Reserves the units of `asks` if all limits allow it, as [`crate::check_all`] decides.
///
/// [`crate::Limits::reserve`] does the same for limits that apply to every request, and fails only
/// with [`NotReserved::Denied`].
///
/// # Errors
///
/// [`NotReserved`], also if a limit denied the request.
///
/// # Example
///
/// ```
/// use tollgate::{Limit, Limiter, reserve_all};
///
/// let requests = Limiter::builder(Limit::per_minute(10)).name("requests").build();
/// let tokens = requests.sibling("tokens", Limit::per_hour(10_000));
/// let reservation = reserve_all(&[requests.ask("bob"), tokens.ask_n("bob", 4_000)])?;
/// // One request, and 1 200 tokens.
/// reservation.settle_each(|name, estimate| if name == "tokens" { 1_200 } else { estimate });
/// assert_eq!(requests.peek("bob", 1).remaining(), 9);
/// assert_eq!(tokens.peek("bob", 1).remaining(), 8_800);
/// # Ok::<(), tollgate::NotReserved>(())
/// ```
pub fn reserve_all<'l, C: Clock>(
    asks: &[Ask<'l, Limiter<C>>],
) -> Result<JointReservation<'l, C>, NotReserved> {
    check_siblings(asks)?;
    let names = names_of(asks).collect();
    let owner = |index: usize| Owner::Borrowed(asks[index].limiter);
    let answer = JointReservation::try_of(&names, asks, owner).map_err(JointError::Store)?;
    Ok(answer?)
}

/// What the charges on each key reserved, with the index of the first of them.
fn parts(charges: &[Charge<'_>], verdict: &Verdict, now: Now) -> Vec<Part> {
    let charged = verdict.charged_lines(charges).into_iter();
    let part = |line: ChargedLine| {
        let cost = Cost::Take(line.units);
        let charge = Charge {
            cost,
            ..charges[line.first]
        };
        let reserved = Reserved::new(&charge, &line.grant, now);
        (line.first, line.grant, reserved)
    };
    charged.map(part).collect()
}

// === impl JointReservation ===

impl<'l, C: Clock> JointReservation<'l, C> {
    /// A reservation, or the denial; a denial also if the store failed. `owner` refers to the
    /// limiter of the ask with an index.
    pub(crate) fn of(
        names: &Names,
        asks: &[Ask<'_, Limiter<C>>],
        owner: impl Fn(usize) -> Owner<'l, C>,
    ) -> Result<JointReservation<'l, C>, JointDenial> {
        JointReservation::try_of(names, asks, owner).unwrap_or_else(|_| {
            asks.iter().for_each(|ask| ask.limiter.count_failure());
            let verdict = without_answer(asks.len());
            Err(JointDenial::new(JointDecision {
                names: names.clone(),
                verdict,
            }))
        })
    }

    /// As [`JointReservation::of`], but returns an error if the store fails.
    fn try_of(
        names: &Names,
        asks: &[Ask<'_, Limiter<C>>],
        owner: impl Fn(usize) -> Owner<'l, C>,
    ) -> Result<Result<JointReservation<'l, C>, JointDenial>, StoreError> {
        let (verdict, charged) = decide_by(asks, |store, charges| {
            let (verdict, now) = store.decide_timed(charges)?;
            let parts = parts(charges, &verdict, now);
            Ok((verdict, parts))
        })?;
        let decision = JointDecision {
            names: names.clone(),
            verdict,
        };
        let decision = match decision.into_result() {
            Ok(grant) => grant.into_decision(),
            Err(denial) => return Ok(Err(denial)),
        };
        let charged = charged.into_iter();
        let parts = charged.map(|(first, grant, reserved)| {
            let ask = &asks[first];
            let key = (ask.priority, ask.key);
            Reservation::new(owner(first), key, grant, reserved)
        });
        let parts = parts.collect();
        Ok(Ok(JointReservation { decision, parts }))
    }

    /// Charges every limit the same `actual` units in place of its estimate; see
    /// [`Reservation::settle`]. Returns a settlement for each limit that was charged, in order.
    pub fn settle(self, actual: u64) -> Vec<Settlement> {
        self.settle_each(|_name, _estimate| actual)
    }

    /// Charges each limit its own actual units in place of its estimate: `actual` gets the limit's
    /// name and estimate. Several estimates for one key of a limit are one, their sum. If `actual`
    /// panics, the limits that are not settled yet refund their estimates.
    pub fn settle_each(self, mut actual: impl FnMut(&str, u64) -> u64) -> Vec<Settlement> {
        let settle = |part: Reservation<'l, C>| {
            let actual = actual(part.name(), part.estimate());
            part.settle(actual)
        };
        self.parts.into_iter().map(settle).collect()
    }

    /// Leaves everything charged, as it was decided.
    pub(crate) fn keep(self) -> JointDecision {
        self.parts.into_iter().for_each(Reservation::keep);
        self.decision
    }

    /// The decision that allowed the estimates.
    pub const fn decision(&self) -> &JointDecision {
        &self.decision
    }
}

impl<C: Clock> fmt::Debug for JointReservation<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.parts).finish()
    }
}

// === impl NotReserved ===

impl NotReserved {
    /// The denial; `None` if there is no decision.
    pub const fn denial(&self) -> Option<&JointDenial> {
        match self {
            NotReserved::Denied(denial) => Some(denial),
            NotReserved::Failed(_) => None,
        }
    }
}

impl From<JointDenial> for NotReserved {
    fn from(denial: JointDenial) -> NotReserved {
        NotReserved::Denied(denial)
    }
}

impl From<JointError> for NotReserved {
    fn from(error: JointError) -> NotReserved {
        NotReserved::Failed(error)
    }
}

/// The errors inside have no words but these, so [`std::error::Error::source`] leaves them out.
impl fmt::Display for NotReserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReserved::Denied(denial) => denial.fmt(f),
            NotReserved::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotReserved {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NotReserved::Denied(denial) => denial.source(),
            NotReserved::Failed(error) => error.source(),
        }
    }
}
