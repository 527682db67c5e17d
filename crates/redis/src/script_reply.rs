//! The scripts' replies, and the verdicts that core derives from them.

use bytes::{Buf, Bytes};
use tollgate_core::{Bill, Charge, Decision, Now, Span, TooManyCharges, Verdict, Wait, step};

use crate::fit::{FittedLimit, GRAIN};
use crate::resp::Malformed;
use crate::snapshot::{Snapshot, moment};

/// Bytes of a time in a reply.
const MOMENT_BYTES: usize = 7;
/// Bytes of a lease in a reply.
const LEASE_BYTES: usize = 10;
/// The status of a confirmation that has not charged all units.
const IN_PART: u8 = 4;
/// The value in a reply of `plain.lua` for a key that needs the general script.
const CHANGED: u64 = (1 << 56) - 1;

/// The reply to one request. All times are Redis's, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptReply {
    /// The state before the charge: when the bucket is full again (in the past if it was full), or
    /// the units used in the window.
    Plain {
        now: u64,
        word: u64,
        /// The units leased, and the lifetime of the lease in microseconds.
        leased: Option<(u64, u64)>,
    },
    /// Nothing was done: the key needs the general script, as the limit has changed or units are
    /// held.
    Changed,
    /// The outcome, and the state of each line.
    General(General),
}

/// The reply of the general script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct General {
    pub(crate) now: u64,
    pub(crate) status: Status,
    pub(crate) states: Vec<Bytes>,
    /// The units of each line that a confirmation has charged, if these are not all.
    pub(crate) charged: Option<Bytes>,
}

/// The outcome in the general script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Denied,
    Allowed,
    /// Nothing was done but refunds: another request has reserved the units.
    Blocked,
}

// === impl ScriptReply ===

impl ScriptReply {
    /// Parses the reply of `plain.lua` to `count` requests, of which the last `leasing` lease.
    pub(crate) fn plain(
        mut answer: Bytes,
        count: usize,
        leasing: usize,
    ) -> Result<impl Iterator<Item = ScriptReply>, Malformed> {
        if answer.len() != MOMENT_BYTES * (count + 1) + LEASE_BYTES * leasing {
            return Err(Malformed("a reply of the wrong length"));
        }
        let now = answer.get_uint(MOMENT_BYTES);
        Ok((0..count).map(move |index| {
            let word = answer.get_uint(MOMENT_BYTES);
            let leased =
                (index + leasing >= count).then(|| (answer.get_uint(5), answer.get_uint(5)));
            match word {
                CHANGED => ScriptReply::Changed,
                word => ScriptReply::Plain { now, word, leased },
            }
        }))
    }

    /// Parses the reply of the general script to requests with this many states each.
    pub(crate) fn general(
        mut answer: Bytes,
        states: impl Iterator<Item = usize>,
    ) -> Result<Vec<ScriptReply>, Malformed> {
        let short = Malformed("a reply is too short");
        if answer.len() < MOMENT_BYTES {
            return Err(short);
        }
        let now = answer.get_uint(MOMENT_BYTES);
        let reply = states.map(|states| {
            let byte = answer.try_get_u8().map_err(|_| short)?;
            let status = match byte {
                0 => Status::Denied,
                1 | IN_PART => Status::Allowed,
                2 => Status::Blocked,
                3 => return Ok(ScriptReply::Changed),
                _ => return Err(Malformed("an unknown status")),
            };
            let mut next = || {
                let length = usize::from(answer.try_get_u16().map_err(|_| short)?);
                if answer.len() < length {
                    return Err(short);
                }
                Ok(answer.split_to(length))
            };
            let states = (0..states).map(|_| next()).collect::<Result<_, _>>()?;
            let charged = (byte == IN_PART).then(next).transpose()?;
            Ok(ScriptReply::General(General {
                now,
                status,
                states,
                charged,
            }))
        });
        reply.collect()
    }

    /// Splits the last state from the reply.
    pub(crate) fn split_last(self) -> Result<(ScriptReply, Bytes), Malformed> {
        let missing = Malformed("a reply without a record");
        let ScriptReply::General(mut reply) = self else {
            return Err(missing);
        };
        let last = reply.states.pop().ok_or(missing)?;
        Ok((ScriptReply::General(reply), last))
    }

    /// Splits the lease from the reply: the rest, the units leased, and the lifetime in
    /// microseconds.
    pub(crate) fn lease(self) -> Result<(ScriptReply, u64, u64), Malformed> {
        let mut reply = match self {
            ScriptReply::General(reply) => reply,
            ScriptReply::Plain {
                leased: Some((units, lasts)),
                ..
            } => return Ok((self, units, lasts)),
            _ => return Err(Malformed("no lease")),
        };
        let mut lease = reply.states.pop().ok_or(Malformed("no lease"))?;
        if lease.len() != 10 {
            return Err(Malformed("no lease"));
        }
        let (granted, lasts) = (lease.get_uint(5), lease.get_uint(5));
        Ok((ScriptReply::General(reply), granted, lasts))
    }

    /// Whether another request's reservation blocks the request.
    pub(crate) fn is_blocked(&self) -> bool {
        matches!(self, ScriptReply::General(reply) if reply.status == Status::Blocked)
    }

    /// The state of the only line, and its time.
    pub(crate) fn snapshot(&self, fitted: &FittedLimit) -> Result<(Snapshot, u64), Malformed> {
        match self {
            ScriptReply::Plain { now, word, .. } => {
                Ok((Snapshot::plain(fitted, *now, *word), *now))
            }
            ScriptReply::General(reply) => match &reply.states[..] {
                [state] => Ok((Snapshot::read(state, fitted)?, reply.now)),
                _ => Err(Malformed(
                    "a reply with several states to a request for one",
                )),
            },
            ScriptReply::Changed => Err(Malformed("a changed limit, twice")),
        }
    }

    /// The verdict on one charge.
    pub(crate) fn of_one(
        &self,
        charge: &Charge<'_>,
        fitted: &FittedLimit,
    ) -> Result<Verdict, Malformed> {
        let (mut snapshot, now) = self.snapshot(fitted)?;
        let status = match self {
            ScriptReply::General(reply) => Some(reply.status),
            ScriptReply::Plain { .. } | ScriptReply::Changed => None,
        };
        let decision = step(
            &mut snapshot,
            &fitted.limit,
            moment(now),
            charge.cost,
            charge.on_own_denial(),
        );
        let mut verdict = Verdict::of_one(charge, decision);
        agree(status, &verdict)?;
        coarsen(&mut verdict);
        Ok(verdict)
    }

    /// The verdict on a charge that takes nothing, as if these units were not leased.
    pub(crate) fn of_peek(
        &self,
        charge: &Charge<'_>,
        fitted: &FittedLimit,
        free: u32,
    ) -> Result<Verdict, Malformed> {
        let (mut snapshot, now) = self.snapshot(fitted)?;
        snapshot.release(&fitted.limit, moment(now), free);
        let on_denial = charge.on_own_denial();
        let decision = step(
            &mut snapshot,
            &fitted.limit,
            moment(now),
            charge.cost,
            on_denial,
        );
        let mut verdict = Verdict::of_one(charge, decision);
        coarsen(&mut verdict);
        Ok(verdict)
    }

    /// The verdict on a bill; `fitted` are the limits of its lines.
    pub(crate) fn of(&self, bill: &Bill<'_>, fitted: &[FittedLimit]) -> Result<Verdict, Malformed> {
        let ScriptReply::General(reply) = self else {
            return Err(Malformed("a reply that does not match the request"));
        };
        let lines = reply.states.iter().zip(fitted);
        let snapshot = lines.map(|(state, fitted)| Snapshot::read_line(state, fitted));
        let mut snapshot: Vec<Snapshot> = snapshot.collect::<Result<_, _>>()?;
        let mut verdict = bill.settle(&mut snapshot, Now::at(moment(reply.now)));
        agree(Some(reply.status), &verdict)?;
        coarsen(&mut verdict);
        Ok(verdict)
    }
}

/// The charges with their limits in whole microseconds, as Redis keeps them.
pub(crate) fn charges_in_micros<'f>(
    charges: &[Charge<'_>],
    fitted: &'f [FittedLimit],
) -> Vec<Charge<'f>> {
    let pairs = charges.iter().zip(fitted);
    let charges = pairs.map(|(charge, fitted)| Charge {
        enforcement: charge.enforcement,
        on_denial: charge.on_denial,
        sharing: charge.sharing,
        ..Charge::new(charge.key, &fitted.limit, charge.cost)
    });
    charges.collect()
}

/// The bill of such charges, and the limits of its lines.
pub(crate) fn bill<'f>(
    charges: &[Charge<'f>],
    fitted: &[FittedLimit],
) -> Result<(Bill<'f>, Vec<FittedLimit>), TooManyCharges> {
    let bill = Bill::new(charges)?;
    let first = |line: &tollgate_core::Line<'_>| {
        let same = |charge: &Charge<'_>| {
            charge.key == line.charge.key && charge.limit == line.charge.limit
        };
        let index = charges.iter().position(same).unwrap_or(0);
        fitted[index]
    };
    let of_lines = bill.lines().iter().map(first).collect();
    Ok((bill, of_lines))
}

/// Checks that the script and core decide alike on the same state.
fn agree(status: Option<Status>, verdict: &Verdict) -> Result<(), Malformed> {
    let expected = match verdict.is_allowed() {
        true => Status::Allowed,
        false => Status::Denied,
    };
    if status.is_some_and(|status| status != expected) {
        return Err(Malformed("the script's decision contradicts its state"));
    }
    Ok(())
}

/// Rounds waits and reset times up to whole microseconds, the resolution of Redis's clock.
pub(crate) fn coarsen(verdict: &mut Verdict) {
    verdict.decisions.iter_mut().for_each(coarsen_decision);
    if let Some(denial) = &mut verdict.denial {
        round_up_wait(&mut denial.wait);
    }
}

/// As [`coarsen`], of one decision.
pub(crate) fn coarsen_decision(decision: &mut Decision) {
    match decision {
        Decision::Allow(grant) => round_up(&mut grant.reset),
        Decision::Deny(denial) => {
            round_up(&mut denial.reset);
            round_up_wait(&mut denial.wait);
        }
    }
}

fn round_up_wait(wait: &mut Wait) {
    if let Wait::For(span) = wait {
        round_up(span);
    }
}

fn round_up(span: &mut Span) {
    *span = GRAIN.times(span.as_nanos().div_ceil(GRAIN.as_nanos()));
}
