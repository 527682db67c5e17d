//! One instance's part of a limit.

use tollgate_core::{
    Bill, Charge, Decision, Denial, DenialReason, InvalidLimit, Limit, LimitHistory, PerCharge,
    RequestDenial, TooManyCharges, Verdict, Wait,
};

use crate::DENIED_FOR;

/// An instance's share of a limit, and of the limits that its rule had before.
pub(crate) struct Share {
    pub(crate) limit: Limit,
    pub(crate) history: Option<LimitHistory>,
}

// === impl Share ===

impl Share {
    pub(crate) fn of(charge: &Charge<'_>, instances: u32) -> Share {
        let was_changed = charge.history != LimitHistory::none();
        Share {
            limit: share(charge.limit, instances),
            history: was_changed.then(|| charge.history.map(|former| share(former, instances))),
        }
    }
}

/// Has a denial end that a share makes for good although the whole limit has room for the cost: the
/// shared store, once it answers again, may allow it. `wholes` are the limits that the charges have
/// their shares of.
pub(crate) fn let_retry<'a>(
    verdict: &mut Verdict,
    charges: &[Charge<'_>],
    wholes: impl Iterator<Item = &'a Limit>,
) -> Result<(), TooManyCharges> {
    let never = Some(Wait::Never);
    if verdict.decisions.iter().all(|one| one.wait() != never) {
        return Ok(());
    }
    let bill = Bill::new(charges)?;
    let lines = bill.lines();
    let mut is_for_now = PerCharge::from_elem(false, charges.len());
    for (index, (charge, whole)) in charges.iter().zip(wholes).enumerate() {
        let line = lines.iter().find(|line| line.charge.key == charge.key);
        let units = line.and_then(|line| line.units_needed()).unwrap_or(1);
        if let Decision::Deny(denial) = &mut verdict.decisions[index]
            && denial.wait == Wait::Never
            && units <= u64::from(whole.available())
        {
            *denial = Denial::new(Wait::For(DENIED_FOR), denial.remaining, denial.reset);
            is_for_now[index] = true;
        }
    }
    verdict.denial = find_denial(&bill, charges, &verdict.decisions);
    if let Some(denial) = &mut verdict.denial
        && is_for_now[denial.by]
    {
        denial.reason = DenialReason::StoreUnavailable;
    }
    Ok(())
}

/// What denies the request, if these are the decisions on its charges. Charges on one key may have
/// different limits: that with the longest wait decides.
fn find_denial(
    bill: &Bill<'_>,
    charges: &[Charge<'_>],
    decisions: &[Decision],
) -> Option<RequestDenial> {
    let longest_of = |key| {
        let on_key = (0..charges.len()).filter(move |index| charges[*index].key == key);
        // The first of equal ones.
        on_key.rev().max_by_key(|index| decisions[*index].wait())
    };
    let of_lines = bill.lines().iter();
    let of_lines = of_lines.filter_map(|line| longest_of(line.charge.key));
    let of_lines: PerCharge<Decision> = of_lines.map(|index| decisions[index]).collect();
    let denial = bill.combine(&of_lines).denial?;
    let by = longest_of(charges[denial.by].key)?;
    Some(RequestDenial { by, ..denial })
}

/// An instance's share of a limit: rounded down, but at least one unit if the limit has any. If all
/// of a small share were kept for priority, one unit is not: requests without priority would be
/// denied until the shared store answers.
#[must_use]
pub fn share(limit: &Limit, instances: u32) -> Limit {
    let part = |units: u32| match units {
        0 => 0,
        units => (units / instances).max(1),
    };
    let shared = Limit::new(limit.algorithm(), part(limit.count()), limit.window());
    let shared = shared.and_then(|shared| match shared.is_bucket() {
        true => with_burst(&shared, part(limit.nominal()), limit),
        false => shared.with_parts_of(limit),
    });
    let shared = shared.and_then(|shared| match (shared.available(), limit.available()) {
        (0, 1..) => shared.with_priority_share(percent_of_all_but_one(shared.nominal())),
        _ => Ok(shared),
    });
    // A smaller limit of the same window, with a burst that is refilled in time, is valid.
    shared.unwrap_or(*limit)
}

/// The largest percentage of so many units, rounded up, that leaves one.
fn percent_of_all_but_one(units: u32) -> u8 {
    let units = u64::from(units);
    let percent = units.saturating_sub(1) * 100 / units.max(1);
    u8::try_from(percent).unwrap_or(0)
}

/// The bucket with the parts of `limit` and room for `burst`, or for a half of it, a quarter and so
/// on, until it is refilled in a representable time: with a share of the rate, the same share of
/// the burst can take longer than the whole one did.
fn with_burst(bucket: &Limit, burst: u32, limit: &Limit) -> Result<Limit, InvalidLimit> {
    let of = |burst| bucket.with_burst(burst)?.with_parts_of(limit);
    let smaller = std::iter::successors(Some(burst / 2), |burst| Some(burst / 2));
    let smaller = smaller.take_while(|burst| *burst > 0);
    of(burst).or_else(|error| smaller.map(of).find(Result::is_ok).unwrap_or(Err(error)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_core::Span;

    use super::*;

    #[test]
    fn a_share_never_is_the_whole_limit() {
        // A unit takes a third of a year in the whole bucket, and a year in the share.
        let slow = Limit::token_bucket(3, Span::DAY.times(366)).unwrap();
        let whole = slow.with_burst(299).unwrap();
        let share = share(&whole, 2);
        assert_eq!((share.count(), share.nominal()), (1, 74));
    }

    #[test]
    fn a_share_has_a_unit_for_requests_without_priority_if_the_limit_has() {
        let limit = Limit::fixed_window(10, Span::DAY).unwrap();
        let available = |percent, instances| {
            let limit = limit.with_priority_share(percent).unwrap();
            share(&limit, instances).available()
        };
        assert_eq!([available(20, 10), available(20, 5)], [1, 1]);
        assert_eq!([available(50, 2), available(0, 10)], [2, 1]);
        let large = Limit::fixed_window(1_000, Span::DAY).unwrap();
        let large = large.with_priority_share(90).unwrap();
        let small = share(&large, 150);
        assert_eq!((small.count(), small.available()), (6, 1));
        // The limit itself has none.
        let all = limit.with_priority_share(95).unwrap();
        assert_eq!((all.available(), share(&all, 10).available()), (0, 0));
    }
}
