//! Requests, packed for the scripts.
//!
//! Numbers are unsigned, the highest byte first. For `plain.lua`: the number of limits (1 byte) and
//! of requests without a lease (1), which come first; for each limit its kind (1), its interval or
//! window (6), and its room (7): the time of a bucket's whole capacity, or the units of a window;
//! then for each request the index of its limit from 1 on (1), the units that must fit (4) and
//! those to be taken (4), and if it leases, the fields of a lease below.
//!
//! For the general script: for each request the step (1) and the number of lines (1); for a step
//! that reserves, confirms or leases the name (8) and its lifetime (5); for one that leases the
//! units spent (5), for how long they are owed (7), the units wanted (5), the least that is worth a
//! lease (5) and the name of the next lease (8); for one that undoes the time of the charge (7);
//! for each line its kind (1), segments (1), role (1), capacity (4), the units of it that this
//! request leaves for those with priority (4), span (6), the units that must fit, including those
//! it leaves (5), the units to be taken (5), to be charged for a denial (5) and to be refunded (5),
//! and whether a larger limit of the request has the same key (1): if so, that limit's capacity
//! (4), units left for those with priority (4), and span (6); for a step that reserves or confirms,
//! the number of requests that the units are taken for (4), and the number of denied requests that
//! are charged (4).
//!
//! For `joint.lua`: see `script_request/joint.rs`. For `reservation.lua`: see
//! `script_request/reservation.rs`. For reservations that clients settle: see
//! `script_request/settlement.rs`.

mod joint;
mod plain;
mod reservation;
mod settlement;
mod step_number;

use bytes::{BufMut, BytesMut};
use tollgate_core::{Bill, Charge, Enforcement, Key, Line};

use crate::fit::{FittedLimit, InvalidForRedis, Kind};
pub(crate) use settlement::{LineToSettle, MEMO_BYTES_MAX, SettledLine};
pub(crate) use step_number::StepNumber;

/// Units are capped at this in a request: more than any limit has, and exact in the scripts.
const UNITS_MAX: u64 = (1 << 40) - 1;
/// The longest time that units are owed: more than any bucket has, and exact in the scripts.
const OWED_MAX: u64 = (1 << 52) - 1;
/// The role of a line that only refunds.
const UNJUDGED: u8 = 3;

/// One request for a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptRequest {
    /// One bucket or window aligned to the clock: for `plain.lua`.
    Plain(Plain),
    /// Any request: for the general script, or packed for `joint.lua` or `reservation.lua`, which
    /// are faster.
    General(General),
}

/// The scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScriptKind {
    Plain,
    General,
    Joint,
    Reservation,
}

/// Something of each script, in the order of [`ScriptKind::ALL`].
pub(crate) type PerScript<T> = [T; ScriptKind::ALL.len()];

/// Units of one bucket, or of one window aligned to the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) key: Key,
    pub(crate) rate: Rate,
    judged: u32,
    taken: u32,
    leasing: Option<Leasing>,
}

/// The fields that are the same for every request with one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    kind: Kind,
    /// Microseconds: the time of one unit of a bucket, otherwise the window; and the whole
    /// capacity, as time for a bucket, in units for a window.
    span: u64,
    room: u64,
}

/// A request's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct General {
    pub(crate) script: ScriptKind,
    /// One for each line.
    pub(crate) keys: Vec<Key>,
    pub(crate) packed: Vec<u8>,
    /// The number of states in the reply.
    pub(crate) states: usize,
    /// Whether it may write in Redis.
    pub(crate) writes: bool,
    /// Whether it confirms or releases a reservation.
    pub(crate) is_last_step: bool,
}

/// Charges the spent units of the lease `name`, returns the rest, decides, and leases up to
/// `want` units again, but none if fewer than `least` can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leasing {
    pub(crate) name: u64,
    /// Microseconds.
    pub(crate) lasts: u64,
    pub(crate) spent: u64,
    /// For how many microseconds from now a bucket owes some of the spent units, if nobody had
    /// taken any others: it refills from when they were spent, not from when they are reported.
    pub(crate) owed: u64,
    pub(crate) want: u64,
    pub(crate) least: u64,
    /// The name of the next lease. If units are leased under it already, the reply was lost, and
    /// they are returned.
    pub(crate) next: u64,
}

/// The step that is executed on lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Decides the whole request.
    Decide,
    /// Reserves the units of lines that allow, for `lasts` microseconds: for as many requests as
    /// fit.
    Reserve { name: u64, lasts: u64 },
    /// Charges the reserved units for the allowed requests, and releases the rest; charges denied
    /// requests to the lines that charge for denials. Without any of either, it only releases.
    Confirm { name: u64 },
    /// Renews or returns a lease.
    Lease(Leasing),
    /// Refunds units that were charged at this time, in microseconds since 1970, as far as they
    /// certainly still count.
    Undo { charged_at: u64 },
}

/// One line of a step, and the number of requests that share it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepLine<'l, 'c> {
    pub(crate) line: &'l Line<'c>,
    pub(crate) fitted: &'l FittedLimit,
    /// Requests whose units are reserved, or confirmed.
    pub(crate) times: u32,
    /// Denied requests that are charged for it.
    pub(crate) denied: u32,
}

// === impl ScriptKind ===

impl ScriptKind {
    pub(crate) const ALL: [ScriptKind; 4] = [
        ScriptKind::Plain,
        ScriptKind::General,
        ScriptKind::Joint,
        ScriptKind::Reservation,
    ];

    /// The script's place in [`ScriptKind::ALL`].
    pub(crate) const fn index(self) -> usize {
        match self {
            ScriptKind::Plain => 0,
            ScriptKind::General => 1,
            ScriptKind::Joint => 2,
            ScriptKind::Reservation => 3,
        }
    }
}

// === impl ScriptRequest ===

impl ScriptRequest {
    /// A request for one charge.
    pub(crate) fn of_one(charge: &Charge<'_>, fitted: &FittedLimit) -> ScriptRequest {
        Plain::new(charge, fitted).map_or_else(
            || Plain::general_request(charge, fitted),
            ScriptRequest::Plain,
        )
    }

    /// A request for all lines of a bill; `fitted` are their limits.
    pub(crate) fn of(bill: &Bill<'_>, fitted: &[FittedLimit]) -> ScriptRequest {
        let lines: Vec<_> = bill.lines().iter().zip(fitted).collect();
        ScriptRequest::step(Step::Decide, &lines)
    }

    /// One step on the lines of one request.
    pub(crate) fn step(step: Step, lines: &[(&Line<'_>, &FittedLimit)]) -> ScriptRequest {
        let counted = lines.iter().map(|(line, fitted)| StepLine {
            line,
            fitted,
            times: 1,
            denied: 0,
        });
        ScriptRequest::of_step(step, &counted.collect::<Vec<_>>())
    }

    /// One step on the lines of several requests.
    pub(crate) fn of_step(step: Step, lines: &[StepLine<'_, '_>]) -> ScriptRequest {
        let mut packed = Vec::with_capacity(15 + 46 * lines.len());
        let number = match step {
            Step::Decide => StepNumber::Decide,
            Step::Reserve { .. } => StepNumber::Reserve,
            Step::Confirm { .. } => StepNumber::Confirm,
            Step::Lease(_) => StepNumber::Lease,
            Step::Undo { .. } => StepNumber::Undo,
        };
        packed.put_u8(number.byte());
        packed.put_u8(u8::try_from(lines.len()).expect("LINES_MAX is below 256"));
        match step {
            Step::Decide => {}
            Step::Reserve { name, lasts } => put_name(&mut packed, name, lasts),
            Step::Confirm { name } => put_name(&mut packed, name, 0),
            Step::Lease(leasing) => {
                put_name(&mut packed, leasing.name, leasing.lasts);
                leasing.put_units(&mut packed);
            }
            Step::Undo { charged_at } => packed.put_uint(charged_at, 7),
        }
        for counted in lines {
            put_line(&mut packed, counted.line, counted.fitted);
            if matches!(step, Step::Reserve { .. } | Step::Confirm { .. }) {
                packed.put_u32(counted.times);
                packed.put_u32(counted.denied);
            }
        }
        let states = match step {
            Step::Decide | Step::Reserve { .. } => lines.len(),
            Step::Confirm { .. } | Step::Undo { .. } => 0,
            // The line, and the lease.
            Step::Lease(_) => 2,
        };
        let changes = |one: &StepLine<'_, '_>| one.line.take() > 0 || one.line.refund() > 0;
        ScriptRequest::General(General {
            script: ScriptKind::General,
            keys: lines.iter().map(|one| one.line.charge.key).collect(),
            packed,
            states,
            writes: step != Step::Decide || lines.iter().any(changes),
            is_last_step: matches!(step, Step::Confirm { .. }),
        })
    }

    /// A request for one charge that also leases units.
    pub(crate) fn with_lease(
        charge: &Charge<'_>,
        fitted: &FittedLimit,
        leasing: Leasing,
    ) -> ScriptRequest {
        match Plain::new(charge, fitted) {
            Some(plain) => ScriptRequest::Plain(Plain {
                leasing: Some(leasing),
                ..plain
            }),
            None => ScriptRequest::general_with_lease(charge, fitted, leasing),
        }
    }

    /// The same request for the general script.
    pub(crate) fn general_with_lease(
        charge: &Charge<'_>,
        fitted: &FittedLimit,
        leasing: Leasing,
    ) -> ScriptRequest {
        let bill = Bill::new(&[*charge]).expect("one charge is not too many");
        ScriptRequest::step(Step::Lease(leasing), &[(&bill.lines()[0], fitted)])
    }

    /// Whether it leases units in the plain script.
    pub(crate) const fn is_leasing(&self) -> bool {
        match self {
            ScriptRequest::Plain(plain) => plain.is_leasing(),
            ScriptRequest::General(_) => false,
        }
    }

    /// Whether it may write in Redis: a server that rejects writes still executes the other
    /// requests.
    pub(crate) const fn writes(&self) -> bool {
        match self {
            ScriptRequest::Plain(plain) => plain.taken > 0 || plain.is_leasing(),
            ScriptRequest::General(general) => general.writes,
        }
    }

    pub(crate) const fn script(&self) -> ScriptKind {
        match self {
            ScriptRequest::Plain(_) => ScriptKind::Plain,
            ScriptRequest::General(general) => general.script,
        }
    }

    /// Whether it confirms or releases a reservation.
    pub(crate) const fn is_last_step(&self) -> bool {
        match self {
            ScriptRequest::Plain(_) => false,
            ScriptRequest::General(general) => general.is_last_step,
        }
    }

    /// The request, if it is for the general script or packed as if it were.
    pub(crate) const fn as_general(&self) -> Option<&General> {
        match self {
            ScriptRequest::Plain(_) => None,
            ScriptRequest::General(general) => Some(general),
        }
    }

    /// The request, if it is for the plain script.
    pub(crate) const fn as_plain(&self) -> Option<Plain> {
        match self {
            ScriptRequest::Plain(plain) => Some(*plain),
            ScriptRequest::General(_) => None,
        }
    }

    pub(crate) fn keys(&self) -> &[Key] {
        match self {
            ScriptRequest::Plain(plain) => std::slice::from_ref(&plain.key),
            ScriptRequest::General(general) => &general.keys,
        }
    }
}

/// The units that must fit, including those that the request leaves for others with priority;
/// `None` if it only refunds.
pub(crate) fn units_judged(charge: &Charge<'_>) -> Option<u64> {
    let kept = u64::from(charge.limit.unavailable());
    Some(charge.cost.units_needed()?.saturating_add(kept))
}

/// Packs the name of a reservation or lease, and its lifetime.
fn put_name(packed: &mut Vec<u8>, name: u64, lasts: u64) {
    packed.put_u64(name);
    packed.put_uint(lasts.min(UNITS_MAX), 5);
}

/// What a denial of a line does to its request, as the scripts have it.
fn role(line: &Line<'_>) -> u8 {
    match (line.units_needed(), line.charge.enforcement) {
        (None, _) => UNJUDGED,
        (_, Enforcement::Enforce) => 0,
        (_, Enforcement::Shadow) => 1,
        (_, Enforcement::Quota) => 2,
    }
}

/// Packs a line for the general script.
fn put_line(packed: &mut Vec<u8>, line: &Line<'_>, fitted: &FittedLimit) {
    packed.put_slice(&[fitted.kind.byte(), fitted.segments, role(line)]);
    packed.put_u32(fitted.limit.capacity());
    packed.put_u32(fitted.limit.unavailable());
    packed.put_uint(fitted.span, 6);
    for units in [
        line.units_judged().unwrap_or(0),
        line.take(),
        line.penalty(),
        line.refund(),
    ] {
        packed.put_uint(units.min(UNITS_MAX), 5);
    }
    let wider = fitted.wider(line);
    packed.put_u8(u8::from(wider.is_some()));
    if let Some(wider) = wider {
        packed.put_u32(wider.limit.capacity());
        packed.put_u32(wider.limit.unavailable());
        packed.put_uint(wider.span, 6);
    }
}

// === impl Leasing ===

impl Leasing {
    fn put_units(&self, packed: &mut impl BufMut) {
        packed.put_uint(self.spent.min(UNITS_MAX), 5);
        packed.put_uint(self.owed.min(OWED_MAX), 7);
        for units in [self.want, self.least] {
            packed.put_uint(units.min(UNITS_MAX), 5);
        }
        packed.put_u64(self.next);
    }
}

// === impl Rate ===

impl Rate {
    pub(crate) fn put(&self, packed: &mut BytesMut) {
        packed.put_u8(self.kind.byte());
        packed.put_uint(self.span, 6);
        packed.put_uint(self.room, 7);
    }
}

/// The limits of `charges` in whole microseconds.
pub(crate) fn fit_all(charges: &[Charge<'_>]) -> Result<Vec<FittedLimit>, InvalidForRedis> {
    charges
        .iter()
        .map(|charge| FittedLimit::new(charge.limit))
        .collect()
}
